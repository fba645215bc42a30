"""robots.txt: reading a file, and asking it about a URL."""

import time
from collections.abc import Iterator

from skitter.robots import robots_rules

FILE = "User-agent: *\n" + "".join(
    f"Disallow: /section-{number}/\nAllow: /section-{number}/open/\n"
    if number % 5
    else f"Disallow: /*/{number}/*.secret$\nDisallow: /search?q={number}\n"
    for number in range(50)
)
READINGS = 20


def robots_read() -> Iterator[float]:
    body = FILE.encode()
    while True:
        began = time.process_time()
        for _ in range(READINGS):
            robots_rules(body, "skitter")
        yield (time.process_time() - began) / READINGS


def robots_match() -> Iterator[float]:
    rules = robots_rules(FILE.encode(), "skitter")
    asked = [f"http://www.example.org/section-{number % 60}/page-{number}.html" for number in range(1000)]
    while True:
        began = time.process_time()
        for url in asked:
            rules.allows(url)
        yield (time.process_time() - began) / len(asked)

"""From an href to its fetched form and its key."""

import time
from collections.abc import Iterator

from skitter import urls

HREFS = [
    form.format(number)
    for number in range(500)
    for form in (
        "{}.html",
        "/section/{}/",
        "../p/./{}.html#top",
        "http://www.example.org/a/{}?b=2&a=1&utm_source=x",
    )
]


def url() -> Iterator[float]:
    base = "http://www.example.org/p/1.html"
    while True:
        began = time.process_time()
        for href in HREFS:
            urls.link(href, base)
        yield (time.process_time() - began) / len(HREFS)

"""What reading one page costs: CPU microseconds per parse(), and of the steps it is made of.

    python benchmarks/parse.py [--plain-malloc] [--rounds 40]

A page of about 18.5 KB with 45 links and 700 words, and one five times as large. The allocator is tuned as a crawl tunes
it; --plain-malloc leaves it alone. Prints the best round, since others use this machine too.
"""

import argparse
import random
import time
from collections.abc import Callable

from selectolax.lexbor import LexborHTMLParser

from skitter.parse import charset, flat, parse, tree
from skitter.parse.findings import Findings
from skitter.process import tune_allocator
from skitter.settings import ParseSettings

HEADERS = (
    ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
    ("server", "bench"),
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "max-age=60"),
    ("etag", '"abc"'),
    ("vary", "accept-encoding"),
)
HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>{title}</title>
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="description" content="{title}">
  <meta name="robots" content="index,follow">
  <link rel="canonical" href="https://www.site.example/page">
  <link rel="stylesheet" href="/style.css">
  <script src="/app.js"></script>
  <style>{style}</style>
</head>
"""


def page(links: int, words: int, size: int) -> bytes:
    """A page as a content management system writes it: a menu, paragraphs with links and emphasis, a style sheet."""
    chance = random.Random(1)
    vocabulary = ["".join(chance.choices("aeioulmnrst", k=chance.randint(2, 9))) for _ in range(400)]

    def some(count: int) -> str:
        return " ".join(chance.choices(vocabulary, k=count))

    menu = "".join(
        f'        <li class="item item-{n}"><a href="/{some(1)}/{n}.html" class="nav">{some(2)}</a></li>\n'
        for n in range(links // 2)
    )
    inline = links - links // 2
    per_block = max(4, (words - 2 * links) // inline // 2)
    text = "".join(
        f'      <p class="block">{some(per_block)} <a href="https://www.{some(1)}.example/?id={n}">{some(2)}</a>'
        f"{', ' if n % 3 else ' <em>so</em>, '}{some(per_block)}.</p>\n"
        for n in range(inline)
    )
    body = f"<body>\n<nav>\n<ul>\n{menu}</ul>\n</nav>\n<main>\n<h1>{some(4)}</h1>\n{text}</main>\n</body>\n</html>\n"
    head = HEAD.format(title=some(6), style="")
    rule = ".item{margin:1px 2px 3px 4px;color:#123}\n"
    room = max(0, size - len(head) - len(body))
    return (HEAD.format(title=some(6), style=(rule * (room // len(rule) + 1))[:room]) + body).encode()


def cost(work: Callable[[], object], rounds: int, times: int = 50) -> float:
    """CPU microseconds of one call, in the best round."""
    best = float("inf")
    for _ in range(rounds):
        before = time.process_time()
        for _ in range(times):
            work()
        best = min(best, time.process_time() - before)
    return best / times * 1e6


def report(content: bytes, rounds: int) -> None:
    settings, url, source = ParseSettings(), "https://www.site.example/", content.decode()
    document = parse(url, HEADERS, content, settings)
    print(f"{len(content)} bytes, {len(document.links)} links, {len(document.text.split())} words")
    steps: dict[str, Callable[[], object]] = {
        "parse()": lambda: parse(url, HEADERS, content, settings),
        "  is it tame?": lambda: flat.is_tame(content),
        "  Lexbor alone": lambda: LexborHTMLParser(content, options=1, scripting=True),
        "  tree and walk": lambda: tree.read(content, Findings(10_000)),
        "without a charset header, more": lambda: charset.declared(content),
        "instead of tree and walk, flat": lambda: flat.read(source, Findings(10_000)),
    }
    for name, work in steps.items():
        print(f"  {name:32} {cost(work, rounds):8.1f} µs")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--plain-malloc", action="store_true", help="leave the allocator as it is")
    arguments.add_argument("--rounds", type=int, default=40)
    options = arguments.parse_args()
    print("allocator:", "plain" if options.plain_malloc or not tune_allocator() else "tuned")
    for content in (page(45, 700, 18_500), page(225, 3500, 92_500)):
        report(content, options.rounds)


if __name__ == "__main__":
    main()

"""`skitter resume`: continue a crawl where it stopped, however it stopped."""

import argparse
from pathlib import Path

from skitter.cli.options import add_manner, add_settings, resolve
from skitter.cli.usage import Parser
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import StateError


def parser() -> Parser:
    """The flags of `skitter resume`."""
    made = Parser(
        "resume",
        "Continue a crawl where it stopped, however it stopped. It keeps its settings; flags change them for this run "
        "and the following ones. To continue after a limit, raise it; `none` removes it. A narrower scope also "
        "applies to URLs already waiting; a wider one also brings back what the earlier one refused. Exit codes are those of "
        "`skitter crawl`.",
        [
            "skitter resume skitter-example.org",
            "skitter resume skitter-example.org --max-pages 5000 --max-time 8h",
            "skitter resume skitter-example.org --max-pages none",
            "skitter resume skitter-example.org --paused",
            "skitter resume skitter-example.org --refresh",
            "skitter resume skitter-example.org --recrawl adaptive",
        ],
    )
    made.add_argument("directory", type=Path, metavar="DIR", help="the crawl directory")
    made.add_argument(
        "--paused",
        action="store_true",
        help="fetch nothing until `skitter continue`: to block hosts, retry URLs or add seeds first, also if nothing is left to do",
    )
    made.add_argument(
        "--refresh",
        action="store_true",
        help="one more round: fetch everything again that was answered so far, and what is new besides",
    )
    add_settings(made)
    add_manner(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Continue the crawl."""
    directory = CrawlDirectory(arguments.directory)
    if not directory.exists:
        raise StateError(
            f"{directory.path} holds no crawl (there is no crawl.toml in it); start one with: skitter crawl URL -o {directory.path}"
        )
    settings = resolve(arguments, directory.kept_settings())

    from skitter.cli.running import crawl  # noqa: PLC0415  the engine is slow to import; usage errors do not need it

    return crawl(arguments, settings, directory.path)

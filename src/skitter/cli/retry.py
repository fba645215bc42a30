"""`skitter retry`: URLs that failed wait again."""

import argparse

from skitter.cli.ordering import CHANGE, Target, order, order_parser
from skitter.cli.usage import Parser
from skitter.control.orders import Retry


def parser() -> Parser:
    """The flags of `skitter retry`."""
    made = order_parser(
        "retry",
        "URLs to try again",
        "URLs that failed wait again, as if they were new. A URL that is named is tried again also if the server refused it or "
        "answered with an error; what the scope refuses is not. A host that was set aside because it could not or would not answer "
        "is taken back if it is named, by --host or by a URL. Says how many URLs wait again. Exit code 1 if the crawl does not run.",
        [
            "skitter retry skitter-example.org https://example.org/slow",
            "skitter retry skitter-example.org --failed",
            "skitter retry skitter-example.org --host shop.example.org",
            "skitter retry --config cluster.toml --failed",
        ],
        "[URL...] [--failed] [--host HOST]",
    )
    made.add_argument("--failed", action="store_true", help="everything that was given up")
    made.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST",
        help="everything that was given up on this host; may be repeated",
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    """Let them wait again."""
    target = Target(arguments)
    return order(target, Retry(target.words, arguments.host, arguments.failed), CHANGE)

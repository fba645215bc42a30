"""`skitter pause`: a running crawl fetches nothing new."""

import argparse

from skitter.cli.ordering import START, Target, order, order_parser
from skitter.cli.usage import Parser, UsageError
from skitter.control.orders import Pause


def parser() -> Parser:
    """The flags of `skitter pause`."""
    return order_parser(
        "pause",
        "",
        "Pause a running crawl: nothing new is fetched, and what is in flight is finished. It stays paused, also if it is "
        "stopped and resumed, until `skitter continue`; a limit of time (--max-time) still applies. Exit code 1 if the crawl does "
        "not run.",
        ["skitter pause skitter-example.org", "skitter pause --config cluster.toml"],
    )


def run(arguments: argparse.Namespace) -> int:
    """Pause it."""
    target = Target(arguments)
    if target.words:
        raise UsageError(f"pause takes no {target.words[0]!r}; it pauses the whole crawl (see skitter block)")
    return order(target, Pause(), START)

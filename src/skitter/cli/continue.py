"""`skitter continue`: a paused crawl fetches again."""
# ruff: noqa: N999  every command is a module of its name

import argparse

from skitter.cli.ordering import START, Target, order, order_parser
from skitter.cli.usage import Parser, UsageError
from skitter.control.orders import Continue


def parser() -> Parser:
    """The flags of `skitter continue`."""
    return order_parser(
        "continue",
        "",
        "Continue a running crawl that was paused with `skitter pause`. To start one that has stopped, use `skitter resume`. "
        "Exit code 1 if the crawl does not run.",
        ["skitter continue skitter-example.org", "skitter continue --config cluster.toml"],
    )


def run(arguments: argparse.Namespace) -> int:
    """Let it fetch again."""
    target = Target(arguments)
    if target.words:
        raise UsageError(f"continue takes no {target.words[0]!r}; it continues the whole crawl")
    return order(target, Continue(), START)

"""`skitter unblock`: requests to blocked hosts again."""

import argparse

from skitter.cli.ordering import CHANGE, Target, order, order_parser
from skitter.cli.usage import Parser
from skitter.control.orders import Unblock


def parser() -> Parser:
    """The flags of `skitter unblock`."""
    return order_parser(
        "unblock",
        "the hosts",
        "Send requests to blocked hosts again: everything that waits there has its turn. If a host had been set aside for "
        "another reason before it was blocked, it is tried again, too. Exit code 1 if the crawl does not run.",
        [
            "skitter unblock skitter-example.org shop.example.org",
            "skitter unblock --config cluster.toml shop.example.org",
        ],
        "HOST...",
    )


def run(arguments: argparse.Namespace) -> int:
    """Unblock the hosts."""
    target = Target(arguments)
    return order(target, Unblock(target.words), CHANGE)

"""`skitter block`: no request to some hosts from now on."""

import argparse

from skitter.cli.ordering import CHANGE, Target, order, order_parser
from skitter.cli.usage import Parser
from skitter.control.orders import Block


def parser() -> Parser:
    """The flags of `skitter block`."""
    return order_parser(
        "block",
        "the hosts",
        "Send no request to these hosts from now on; what is in flight there is finished. URLs that wait there stay, and so do "
        "links found later, with the reason `blocked`; seeds do not change that, only `skitter unblock` does. A host is named "
        "exactly: example.org does not include www.example.org. Exit code 1 if the crawl does not run.",
        [
            "skitter block skitter-example.org shop.example.org",
            "skitter block --config cluster.toml shop.example.org www.shop.example.org",
        ],
        "HOST...",
    )


def run(arguments: argparse.Namespace) -> int:
    """Block the hosts."""
    target = Target(arguments)
    return order(target, Block(target.words), CHANGE)

"""`skitter stop`: a running crawl finishes what is in flight, saves, and ends."""

import argparse

from skitter.cli.ordering import START, Target, asked, order_parser, with_client
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.control.client import Client
from skitter.control.orders import Stop
from skitter.reporting.format import printable


def parser() -> Parser:
    """The flags of `skitter stop`."""
    return order_parser(
        "stop",
        "",
        "Stop a running crawl, as Ctrl-C in its terminal would: what is in flight is finished and saved, and `skitter resume` "
        "continues. Workers of a cluster are stopped where they run, with SIGTERM. Exit code 1 if the crawl does not run.",
        ["skitter stop skitter-example.org"],
    )


def run(arguments: argparse.Namespace) -> int:
    """Stop it."""
    target = Target(arguments)
    if target.words:
        raise UsageError(f"stop takes no {target.words[0]!r}; it stops the whole crawl (see skitter block)")
    if target.config is not None:
        raise UsageError(
            "workers of a cluster are stopped where they run, with SIGTERM; to hold all of them: skitter pause"
        )

    def stop(client: Client) -> int:
        print(printable(asked(client, Stop()).said))
        return Exit.DONE

    return with_client(target, stop, START)

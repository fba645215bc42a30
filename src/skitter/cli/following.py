"""`skitter status --follow`: a running crawl, live: its progress, and its warnings as they happen."""

import sys
import time
from collections.abc import Iterable

import msgspec

from skitter.cli import streams
from skitter.cli.ordering import START, Target, with_client
from skitter.cli.progress import screen
from skitter.cli.usage import Exit
from skitter.control.client import Client, Followed, decode_followed
from skitter.control.orders import Answer
from skitter.events import Stopped
from skitter.ports import StateError
from skitter.reporting.log import warnings
from skitter.reporting.progress import Progress


def follow(target: Target, *, json: bool) -> int:
    """Show a crawl until it ends, or until Ctrl-C."""
    try:
        if target.config is not None:
            return _follow_cluster(target, json=json)
        return with_client(target, lambda client: _follow(client, json=json), START)
    except KeyboardInterrupt:
        return Exit.DONE


def _follow(client: Client, *, json: bool) -> int:
    lines = client.follow()
    if json:
        for line in lines:
            print(line.decode().rstrip("\n"), flush=True)
        return Exit.DONE
    show(_followed(line) for line in lines)
    return Exit.DONE


def _followed(line: bytes) -> Followed:
    """A line of the stream. StateError if the crawl refuses to be followed."""
    try:
        return decode_followed(line)
    except msgspec.ValidationError:
        raise StateError(msgspec.json.decode(line, type=Answer).error) from None


def show(stream: Iterable[Followed]) -> None:
    """Draw what comes: progress in a block, everything else above it."""
    shown = screen(sys.stdout, quiet=False)
    end = "the crawl no longer answers"
    try:
        for each in stream:
            if isinstance(each, Progress):
                shown.show(each, time.monotonic())
            elif isinstance(each, Stopped):
                end = f"the crawl has ended: {each.why}"
            else:
                for text in warnings(each):
                    shown.say(text)
    finally:
        shown.end()
    streams.write(sys.stdout, f"{end}\n")


def _follow_cluster(target: Target, *, json: bool) -> int:
    import asyncio  # noqa: PLC0415  slow to import

    from skitter.cli.cluster_ordering import follow as follow_cluster  # noqa: PLC0415  the same

    if target.config is None:
        raise AssertionError("no cluster is named")
    return asyncio.run(follow_cluster(target.config, json=json))

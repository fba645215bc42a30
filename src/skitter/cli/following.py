"""`skitter status --follow`: a running crawl, live: its progress, and its warnings as they happen."""

import sys
import time
from typing import Self, TextIO

from skitter.cli.ordering import START, Target, with_client
from skitter.cli.progress import Crawling, screen
from skitter.cli.usage import Exit
from skitter.control.client import Client, Followed, followed_of
from skitter.events import Stopped
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
    with Following(sys.stdout, json=json) as shown:
        for line in client.follow():
            shown.show(followed_of(line), line)
    return Exit.DONE


class Following:
    """Shows what comes: progress in a block and everything else above it, or every line as it is."""

    def __init__(self, stream: TextIO, *, json: bool) -> None:
        self._stream = stream
        self._json = json
        self._screen = screen(stream, quiet=json)
        self._end = "the crawl no longer answers"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._screen.end()
        if kind is None and not self._json:
            print(self._end, file=self._stream)

    def show(self, each: Followed, line: bytes) -> None:
        """Show one thing, which is this line of JSON."""
        if self._json:
            print(line.decode().rstrip("\n"), file=self._stream, flush=True)
        elif isinstance(each, Progress):
            self._screen.show(Crawling(each), time.monotonic())
        elif isinstance(each, Stopped):
            self._end = f"the crawl has ended: {each.why}"
        else:
            for text in warnings(each):
                self._screen.say(text)


def _follow_cluster(target: Target, *, json: bool) -> int:
    import asyncio  # noqa: PLC0415  slow to import

    from skitter.cli.cluster_ordering import follow as follow_cluster  # noqa: PLC0415  the same

    if target.config is None:
        raise AssertionError("no cluster is named")
    return asyncio.run(follow_cluster(target.config, json=json))

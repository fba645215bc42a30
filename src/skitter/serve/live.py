"""A running crawl at this moment: asked through its control socket, as `skitter status --follow` does."""

from contextlib import suppress

from skitter.control.client import NotRunningError, connected, followed_of
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import StateError
from skitter.reporting.progress import Progress
from skitter.serve.shapes import Live, Paused


def live_of(directory: CrawlDirectory, rate: float) -> Live | None:
    """Its progress, with its pages per second; None if it does not answer."""
    with (
        suppress(NotRunningError, StateError, OSError),
        connected(directory.control_socket, lambda: False) as client,
    ):
        for line in client.follow():
            seen = followed_of(line)
            if isinstance(seen, Progress):
                pauses = [Paused(each.host, each.seconds, each.why) for each in seen.waiting.pauses]
                return Live(
                    pages_per_second=rate,
                    in_flight=seen.in_flight,
                    elapsed=seen.elapsed,
                    pauses=pauses,
                )
    return None

"""The progress of a crawl at one moment: for the screen of the process that crawls, and for those that follow it."""

from collections import deque

from msgspec import Struct

from skitter.model import Counts
from skitter.reporting.waiting import Waiting

RATE_WINDOW = 10.0  # seconds over which the rate is averaged


class Progress(Struct, frozen=True, kw_only=True, tag=True):
    """The state of a crawl at one moment, as shown on the screen."""

    counts: Counts
    in_flight: int = 0
    hosts_ready: int | None = None  # None: not counted
    rate: float = 0.0  # pages of this run per second, lately
    elapsed: float = 0.0  # of this run
    max_pages: int | None = None
    max_time: float | None = None
    max_bytes: int | None = None
    rate_of: str = ""  # " requests" where the rate is not one of pages
    waiting: Waiting = Waiting()
    paused: bool = False  # by `skitter pause`


class Rate:
    """Pages per second over a sliding window."""

    def __init__(self) -> None:
        self._pages: deque[tuple[float, int]] = deque()

    def of(self, pages: int, now: float) -> float:
        """The rate over the last RATE_WINDOW seconds."""
        self._pages.append((now, pages))
        while len(self._pages) > 2 and self._pages[1][0] <= now - RATE_WINDOW:
            self._pages.popleft()
        began, had = self._pages[0]
        return (pages - had) / (now - began) if now > began else 0.0

"""Whether a crawl as a whole received no more bytes per second than it had promised, on average.

What was received drains at the promised rate. A request is one too many if more is left then than a crawl that pays for what it has
received before it asks for more can owe: a second's worth, and what its parts had on their way at one time, since nobody knows how
large an answer is before it is there. So a burst is none, and a crawl that goes on too fast is found soon.
"""

import heapq
from collections.abc import Iterator
from math import inf

from msgspec import Struct, field

from skitter.reporting.audit.robots_kept import Complaint
from skitter.reporting.audit.values import Request
from skitter.reporting.format import amount

_BURST = 1.0  # seconds of the bandwidth that may be asked for at once


class _OnItsWay(Struct):
    """The answers of one log that have not come yet."""

    ends: list[tuple[float, int]] = field(default_factory=list)
    now: int = 0  # bytes
    most: int = 0


class Bandwidth:
    """The bytes of all logs of a crawl."""

    def __init__(self) -> None:
        self._era = 0
        self._begin()

    def _begin(self) -> None:
        self._ends: list[tuple[float, int]] = []  # of answers that are not counted yet
        self._left = 0.0  # bytes that were received and not drained
        self._at = -inf  # when that was so
        self._logs: dict[int, _OnItsWay] = {}

    def judge(self, request: Request, rate: float) -> Iterator[Complaint]:
        """Count a request; what is wrong with it, if anything."""
        if request.era != self._era:  # the clock was set back
            self._era = request.era
            self._begin()
        self._drain(request.start, rate)
        owed = rate * _BURST + sum(each.most for each in self._logs.values())
        if self._left > owed:
            late = (self._left - owed) / rate
            yield (
                "bandwidth",
                "bandwidth",
                f"at most {amount(rate)} a second on average (budget.bandwidth)",
                f"requested at least {late:.1f} s before what had come was paid for",
            )
            self._left = owed  # said once for each request too many
        heapq.heappush(self._ends, (request.end, request.size))
        self._send(request)

    def _drain(self, now: float, rate: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            end, size = heapq.heappop(self._ends)
            self._left = max(0.0, self._left - rate * max(0.0, end - self._at)) + size
            self._at = max(self._at, end)
        self._left = max(0.0, self._left - rate * max(0.0, now - self._at))
        self._at = max(self._at, now)

    def _send(self, request: Request) -> None:
        log = self._logs.setdefault(request.file, _OnItsWay())
        while log.ends and log.ends[0][0] <= request.start:
            log.now -= heapq.heappop(log.ends)[1]
        heapq.heappush(log.ends, (request.end, request.size))
        log.now += request.size
        log.most = max(log.most, log.now)

"""May the crawl send anything at all now, and how much at once? Asked before visits are leased.

Three things hold back a crawl as a whole: its window, its bandwidth, and the memory that it may use. What may not be sent is
not leased, so a crawl that waits costs nothing, and nothing is put off one by one.
"""

from collections.abc import Callable
from math import ceil

from skitter.politeness.hours import common_hours
from skitter.ports import Clock
from skitter.runtime import resident
from skitter.runtime.windows import Windows
from skitter.settings import Settings
from skitter.settings.sites import Sites

_BURST = 1.0  # seconds of the bandwidth that may be asked for at once
_TYPICAL = 20_000.0  # bytes of an answer, before one was seen
_LARGER, _SMALLER = (
    1 / 4,
    1 / 64,
)  # weight of the latest answer in what is typical: large ones are learnt soon
_LOOK = 0.5  # seconds between two looks at the memory
_EASY = 0.75  # of the ceiling: below that, memory holds nothing back
_TIDY = 5.0  # seconds between two attempts to give memory back


class Bandwidth:
    """The bytes that this process may receive per second, on average: its part of the crawl's."""

    def __init__(self, whole: float, clock: Clock) -> None:
        self.workers: Callable[[], int] = lambda: 1  # who share it
        self._whole = whole
        self._clock = clock
        self._paid_at = 0.0  # when what was received so far is paid for, by the monotonic clock
        self._typical = _TYPICAL

    @property
    def _rate(self) -> float:
        return self._whole / max(1, self.workers())

    def received(self, size: int) -> None:
        """An answer has come."""
        now = self._clock.monotonic()
        self._paid_at = max(self._paid_at, now) + size / self._rate
        self._typical += (size - self._typical) * (_LARGER if size > self._typical else _SMALLER)

    def wait(self) -> float:
        """Seconds until something may be asked for."""
        return max(0.0, self._paid_at - self._clock.monotonic())

    def room(self, in_flight: int) -> int:
        """How many more answers may be on their way, if they are as usual."""
        return max(1, ceil(self._rate * _BURST / self._typical)) - in_flight


class Memory:
    """The memory that this process may use: fewer visits at once as it comes near the ceiling, and one beyond it."""

    def __init__(self, ceiling: float, concurrency: int, clock: Clock) -> None:
        self.complain: Callable[[str], None] = lambda _text: None
        self.measure: Callable[[], int] = resident.used
        self._ceiling = ceiling
        self._concurrency = concurrency
        self._clock = clock
        self._looked = self._tidied = float("-inf")
        self._used = 0
        self._has_complained = False

    def room(self, in_flight: int) -> int:
        """How many more visits there is memory for; one, if none is in flight."""
        now = self._clock.monotonic()
        if now >= self._looked + _LOOK:
            self._looked, self._used = now, self.measure()
        left = 1 - self._used / self._ceiling
        if left >= 1 - _EASY:
            return self._concurrency
        if left <= 0 and now >= self._tidied + _TIDY:
            self._tidied = now
            resident.tidy()
        if not self._has_complained:
            self._has_complained = True
            self.complain(
                f"the crawl uses {self._used / 2**20:,.0f} MiB of {self._ceiling / 2**20:,.0f} MiB (budget.memory) in a process;"
                " it fetches fewer pages at once"
            )
        return max(1, round(self._concurrency * left / (1 - _EASY))) - in_flight


class Gate:
    """What holds back the whole crawl, whatever the host."""

    def __init__(
        self, hours: Windows | None, bandwidth: Bandwidth | None = None, memory: Memory | None = None
    ) -> None:
        self.bandwidth, self.memory = bandwidth, memory
        self._hours = hours
        self._in_flight = 0

    def closed_until(self, now: float) -> float:
        """When anything may be sent again; 0 if it may be now."""
        opens = 0.0 if self._hours is None else self._hours.closed_until(now)
        if self.bandwidth is not None and (wait := self.bandwidth.wait()):
            return max(opens, now + wait)
        return opens

    def room(self, room: int, now: float) -> int:
        """How many of so many visits may be leased now."""
        if self.closed_until(now):
            return 0
        if self.bandwidth is not None:
            room = min(room, self.bandwidth.room(self._in_flight))
        if self.memory is not None:
            room = min(room, self.memory.room(self._in_flight))
        return room

    def began(self, visits: int) -> None:
        """So many visits were leased."""
        self._in_flight += visits

    def ended(self, received: int) -> None:
        """A visit has brought so many bytes."""
        self._in_flight -= 1
        if self.bandwidth is not None and received:
            self.bandwidth.received(received)

    def why(self, now: float) -> str:
        """Why nothing is sent until its window opens, for people; empty if it is open."""
        if self._hours is None or not self._hours.closed_until(now):
            return ""
        return f"outside the window of this crawl, {self._hours.name}"


def gate(settings: Settings, sites: Sites | None, clock: Clock, workers: int = 1) -> Gate | None:
    """The gate of a crawl in one of so many processes on this machine; None if nothing holds it back as a whole."""
    common, budget = common_hours(settings, sites), settings.budget
    bandwidth = None if budget.bandwidth is None else Bandwidth(budget.bandwidth, clock)
    if bandwidth is not None:
        bandwidth.workers = lambda: workers
    concurrency = settings.crawl.concurrency
    memory = None if budget.memory is None else Memory(budget.memory / workers, concurrency, clock)
    if common is None and bandwidth is None and memory is None:
        return None
    return Gate(common, bandwidth, memory)

"""One look at a running crawl: everything that its metrics and its alerts are made of, as one value.

A process with shards, the parent of a fleet and a worker of a cluster each make one. It holds no clock and no connection.
"""

from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

from skitter.model import Counts
from skitter.runtime.metrics import EngineMetrics, Metrics, added_up, counters


class WorkerSeen(Struct, frozen=True):
    """A process that crawls, as seen from outside it."""

    name: str  # a number, in a fleet
    up: bool
    cpu: float = 0.0  # seconds since it started
    resident: int = 0  # bytes
    silent: float = 0.0  # seconds since it was last heard of


class Observation(Struct, frozen=True, kw_only=True):
    """A crawl, or what one process knows of it, at a moment."""

    at: float  # seconds since the epoch, by this machine's clock
    counts: Counts
    metrics: Metrics
    workers: Sequence[WorkerSeen] = ()
    deaths: int = 0  # of workers, since the parent started
    engines: Mapping[str, EngineMetrics] = {}  # by name: the breakers of a cluster worker
    lag: Mapping[str, int] = {}  # by priority: forwarded messages that are not read yet
    silent_workers: int = 0  # of a cluster: joined, and not heard of for longer than a lease
    disk_free: int = 0
    disk_size: int = 0
    clock_offset: float = 0.0  # seconds by which the clock that decides is ahead of this machine's
    paused: bool = False  # nothing is fetched: a person, or a window, says so
    finished: bool = False
    expected_pages: int = 0  # pages of the run before; 0 if there is none to compare with


class Lasting:
    """Adds up parts that come and go. What those that are gone had counted stays: a counter never falls."""

    def __init__(self) -> None:
        self._gone = Metrics()
        self._last: dict[Hashable, tuple[Hashable, Metrics]] = {}

    def note(self, part: Hashable, life: Hashable, measured: Metrics) -> None:
        """What a part has measured so far. Each of its lives begins at zero."""
        before, last = self._last.get(part, (life, measured))
        if before != life:
            self._gone = added_up([self._gone, counters(last)])
        self._last[part] = (life, measured)

    def only(self, parts: set[Hashable]) -> None:
        """All other parts are gone."""
        for part in self._last.keys() - parts:
            self._gone = added_up([self._gone, counters(self._last.pop(part)[1])])

    def metrics(self) -> Metrics:
        """All parts together."""
        return added_up([self._gone, *(measured for _, measured in self._last.values())])

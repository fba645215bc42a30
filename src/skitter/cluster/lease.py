"""How long a worker may trust that its shards are its own.

A lease counts from the moment its renewal was requested, on the worker's own monotonic clock: whatever happened in
between, the engine started to count later. A process that was frozen finds out here, before it sends anything, that
its time is over.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from skitter.model import Exchange, Failed, Fault, Outcome, Visit
from skitter.ports import Clock, Fenced, Fetcher
from skitter.runtime.metrics import Metrics

# The part of the lease that is not used: a request allowed a moment ago is sent before the lease ends.
_MARGIN = 0.2


class ShardLeases:
    """The shards that this worker holds, and until when it may act on each without asking."""

    def __init__(self, lease: float, monotonic: Callable[[], float]) -> None:
        self._trusted = lease * (1 - _MARGIN)
        self._monotonic = monotonic
        self._until: dict[int, float] = {}
        self._lost: set[int] = set()
        self._changed = asyncio.Event()
        self._limits: defaultdict[int, set[asyncio.Timeout]] = defaultdict(set)  # of what is done, by shard

    def renewed(self, shards: Iterable[int], asked_at: float) -> None:
        """These were ours when the engine answered a request made at this monotonic time."""
        for shard in shards:
            self._until[shard] = asked_at + self._trusted
            self._lost.discard(shard)
            for limit in self._limits[shard]:
                if not limit.expired():
                    limit.reschedule(self._end(shard))
        self._wake()

    def ended(self, shard: int) -> None:
        """The shard has another owner, or none."""
        self._until.pop(shard, None)
        self._lost.add(shard)
        self._wake()

    def holds(self, shard: int) -> bool:
        """Whether the shard is certainly ours, at this moment."""
        return self._until.get(shard, 0.0) > self._monotonic()

    async def held(self, shard: int) -> None:
        """Return as soon as the shard is certainly ours, usually at once. Raises Fenced if it is no longer ours."""
        while not self.holds(shard):
            if shard in self._lost:
                raise Fenced(f"shard {shard} has another owner")
            await self._changed.wait()

    @asynccontextmanager
    async def trusted(self, shard: int) -> AsyncIterator[None]:
        """Run something while the shard is certainly ours; cancel it with TimeoutError when it no longer is.

        The next owner of the shard relies on that (`ports.Claim.connected`).
        """
        await self.held(shard)
        async with asyncio.timeout_at(self._end(shard)) as limit:
            self._limits[shard].add(limit)
            try:
                yield
            finally:
                self._limits[shard].discard(limit)

    def _end(self, shard: int) -> float:
        """When trust ends, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self._until[shard] - self._monotonic()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class LeasedFetcher:
    """`ports.Fetcher` of one shard: sends nothing unless the shard is certainly ours."""

    def __init__(self, fetcher: Fetcher, leases: ShardLeases, shard: int, clock: Clock) -> None:
        self._fetcher, self._leases, self._shard, self._clock = fetcher, leases, shard, clock

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        """Make the request; cancel it when the lease ends."""
        await self._leases.held(self._shard)
        started = self._clock.now()
        try:
            async with self._leases.trusted(self._shard):
                return await self._fetcher.fetch(visit, validators)
        except TimeoutError:
            exchange = Exchange(visit.link.url, "", started, self._clock.now(), b"", b"", b"")
            return Failed(
                Fault.BUSY, "broken off, because the lease of its shard could not be renewed", exchange
            )

    def metrics(self) -> Metrics:
        """Those of the worker's fetcher."""
        return self._fetcher.metrics()

    async def close(self) -> None:
        """The fetcher belongs to the worker, and stays open."""

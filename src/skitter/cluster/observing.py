"""A look at a worker of a cluster: what it measures, what its engines do, and what it knows of the others."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from skitter.cluster.ports import Claims
from skitter.cluster.worker import ClusterWorker
from skitter.crawl.local_shards import shared
from skitter.crawl.observing import disk_of, is_held, offset_of
from skitter.crawl.shard import Shard
from skitter.engines.breaker import Guard
from skitter.model import Counts
from skitter.ports import EngineAway
from skitter.reporting.observation import Lasting, Observation, WorkerSeen
from skitter.reporting.report import total
from skitter.runtime.measures import Kind
from skitter.runtime.metrics import COUNTS, Metrics, added_up
from skitter.visit import Shared

_LOOK_EVERY = 30.0  # seconds between two looks at what others know: each reads a row per shard


class Lagging(Protocol):
    """Engines, as they are asked for what waits in them."""

    @property
    def claims(self) -> Claims:
        """The claims of all workers."""
        ...

    async def lag(self) -> dict[str, int]:
        """Forwarded messages that are not read yet, by the priority of their topic."""
        ...


class OwnCounts:
    """What this worker has added to the counts of its shards since it took them.

    The counts of a shard are those of all its owners. As counters of a worker they would jump whenever a shard changes hands.
    """

    def __init__(self) -> None:
        self._held: set[Shard] = set()
        self._gone = Counts()

    def of(self, shards: Iterable[Shard]) -> Counts:
        """What has grown here since; what waits is that of the shards held now."""
        held = set(shards)
        for shard in self._held - held:
            self._gone = total([self._gone, _grown(shard)])
        self._held = held
        own = total([self._gone, Counts(), *(_grown(shard) for shard in held)])
        now = total([Counts(), Counts(), *(shard.counts for shard in held)])
        for name, metric in COUNTS.items():
            if metric.kind is Kind.GAUGE:
                setattr(own, name, getattr(now, name))
        return own


def _grown(shard: Shard) -> Counts:
    grown = Counts()
    for name in Counts.__struct_fields__:
        value, had = getattr(shard.counts, name), getattr(shard.counts_before, name)
        if isinstance(value, dict):
            setattr(grown, name, {key: number - had.get(key, 0) for key, number in value.items()})
        else:
            setattr(grown, name, value - had)
    return grown


class WorkerObserver:
    """Looks at one worker."""

    def __init__(
        self, worker: ClusterWorker, engines: Lagging, guards: Iterable[Guard], at: Shared, path: Path
    ) -> None:
        self._worker = worker
        self._engines = engines
        self._guards = list(guards)
        self._at = at
        self._path = path
        self._counts = OwnCounts()
        self._lasting = Lasting()
        self._lag: Mapping[str, int] = {}
        self._silent = 0

    async def run(self) -> None:
        """Ask the engines now and then what waits in them, and for other workers. Ends by cancellation."""
        lease = self._at.settings.cluster.lease
        while True:
            with suppress(EngineAway):
                workers = await self._engines.claims.workers()
                self._silent = sum(worker.now - worker.seen_at > lease for worker in workers)
                self._lag = await self._engines.lag()
            await asyncio.sleep(_LOOK_EVERY)

    def observe(self, storage: Metrics) -> Observation:
        """The worker now. `storage` is what its archive measures."""
        at, held = self._at, self._worker.held
        for number, shard in held.shards.items():
            self._lasting.note(number, shard, shard.metrics())
        self._lasting.only(set(held.shards))
        measured = added_up([shared(at), storage, self._lasting.metrics()])
        free, size = disk_of(self._path)
        process = measured.process
        return Observation(
            at=at.clock.now(),
            counts=self._counts.of(held.shards.values()),
            metrics=measured,
            workers=[WorkerSeen("0", up=True, cpu=process.cpu, resident=process.resident)],
            engines={guard.engine: guard.metrics() for guard in self._guards},
            lag=self._lag,
            silent_workers=self._silent,
            disk_free=free,
            disk_size=size,
            clock_offset=offset_of(at.clock),
            paused=held.paused or held.closed or is_held(held.waiting()),
            expected_pages=at.settings.alerts.expected_pages,
        )

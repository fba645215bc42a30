"""One run of a cluster worker: what ends it, its background tasks, and its reports."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

import msgspec

from skitter.cluster.limit_watch import LimitWatch
from skitter.cluster.observing import WorkerObserver
from skitter.cluster.opening import ShardOpener
from skitter.cluster.roots import NewRoots
from skitter.cluster.status import Watched, all_complete, snapshot
from skitter.cluster.worker import ClusterWorker
from skitter.control.watching import Alerting, Watch, watched
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.done import Activity, Snapshot, why_it_ended
from skitter.crawl.local_shards import measured
from skitter.engines.breaker import Guard
from skitter.engines.watch import EngineWatch, awaited, working
from skitter.events import Event, Requested, Warned
from skitter.model import Counts, Stop
from skitter.ports import EngineAway, Fenced
from skitter.reporting.format import amount, counted
from skitter.reporting.observation import Observation
from skitter.reporting.report import TROUBLES, link_remarks
from skitter.runtime.metrics import Metrics, added_up
from skitter.runtime.process import unwrapped
from skitter.settings.sites import wants_assets
from skitter.visit import Shared

# Leases that a leaving worker waits for an engine that is away. Its shards were free for others after the first.
_LEASES = 4
_LAST_LOOKS = 20  # checks of links that nobody receives, before they are left alone


class RunEngines(Watched, Protocol):
    """What a run needs from the engines."""

    @property
    def guards(self) -> Sequence[Guard]:
        """The breaker of each engine."""
        ...

    async def lag(self) -> dict[str, int]:
        """Forwarded messages that are not read yet, by the priority of their topic."""
        ...

    def trips(self) -> dict[str, float]:
        """Round trips so far, by engine."""
        ...


class Storage(Protocol):
    """Where the worker's archive goes."""

    @property
    def disk(self) -> str:
        """The name of this directory in the register of segments; empty if there is none."""
        ...

    @property
    def full(self) -> bool:
        """Whether nothing new should start, because too much waits on this disk."""
        ...

    async def ready(self) -> None:
        """Wait until there is room."""
        ...

    @property
    def guards(self) -> Sequence[Guard]:
        """The breaker of its engine, if it has one."""
        ...

    def metrics(self) -> Metrics:
        """What waits for upload, in numbers."""
        ...


def left_behind(directory: CrawlDirectory, sizes: Sequence[int]) -> str:
    """The message of a worker that leaves before all its segments are in the bucket."""
    return (
        f"not in the bucket yet: {counted(len(sizes), 'segment')} ({amount(sum(sizes))}) in {directory.archive}; keep this "
        f"directory, and start a worker in it again (skitter work -o {directory.path})"
    )


class WorkerRun:
    """Runs a worker until it is told to leave, a limit is reached or its disk is full."""

    def __init__(
        self,
        worker: ClusterWorker,
        opener: ShardOpener,
        engines: RunEngines,
        storage: Storage,
        at: Shared,
        directory: CrawlDirectory,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        """`opener` opens the shards that it takes; `at` holds what they share; `beside` runs for as long as it works."""
        self.worker = worker
        self._opener = opener
        self._engines = engines
        self._storage = storage
        self._at = at
        self._directory = directory
        self._beside = beside
        self._limits = LimitWatch(worker, engines.claims, at.clock, at.settings)
        self._stop: Stop | None = None  # why it leaves; the first reason counts
        self.why = ""  # the same in words, unless it was told to leave
        self._events = opener.events
        self._roots = NewRoots(engines.claims, self._events)
        self.requests = 0  # made here, for any shard
        self._told = (at.clock.monotonic(), 0)  # time of the last report, and requests by then
        cluster, guards = at.settings.cluster, [*engines.guards, *storage.guards]
        for guard in guards:
            guard.test_with(cluster.breaker_tests)
        self._watch = EngineWatch(
            guards,
            working(cluster.size),
            at.clock,
            lambda text: self._events.emit(Warned(text)),
        )
        self._alerting: Alerting | None = None
        self._observer = WorkerObserver(worker, engines, guards, at, directory.path)
        self._events.subscribe(self._count, Requested)
        worker.says = self.about
        worker.outdated = self._reload
        self._outdated = False
        self._complete = False  # there are enough pages, and nothing that they need waits here
        worker.held.full = lambda: storage.full
        worker.widen = at.links.widen_all

    async def run(self) -> Stop:
        """Work until told to leave, a limit is reached or the disk is short; returns which, and `why` has the
        details.

        A limit that kept nothing back counts as done.
        """
        if why := self._short_of_disk():
            self._leave_because(why, Stop.DISK)
        elif (why := await self._limits.reached()) and not await self._may_complete():
            self._leave_because(why, Stop.LIMIT)  # others have reached it before we joined
        else:
            async with watched(self._watched()) as alerting:
                self._alerting = alerting
                await unwrapped(self._run())
        for text in link_remarks(self._at.links.metrics()):
            self._events.emit(Warned(text))
        work_left = self._stop is Stop.LIMIT and not (await self._look()).quiet
        return why_it_ended(self._stop, work_left=work_left)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            works = (
                self._roots.tell(),
                self.worker.held.wake_when(self._storage.ready),
                self._mind_the_lost(),
                self._mind_the_limits(),
                self._mind_the_disk(),
                self._watch.run(),
                *([self._observer.run()] if self._is_observed else []),
                *(work() for work in self._beside),
            )
            beside = [tasks.create_task(work) for work in works]
            await self.worker.run(self._opener)
            for task in beside:
                task.cancel()

    async def _mind_the_limits(self) -> None:
        """At a limit nothing new starts, but what the stored pages need to be shown. If only links in transit are left, they
        decide whether the limit kept anything back.
        """
        why = await self._limits.watch()
        await self._complete_pages()
        self.worker.held.closed = True
        for _ in range(_LAST_LOOKS):
            if not (await self._look()).only_links_left:
                break
            await asyncio.sleep(self._at.settings.cluster.renew)
        self._leave_because(why, Stop.LIMIT)

    async def _may_complete(self) -> bool:
        return wants_assets(self._at.settings) and await self._limits.may_complete()

    async def _complete_pages(self) -> None:
        """Fetch assets until nobody has any left: two looks in a row find that, and nothing happened in between."""
        before: object = None
        while await self._may_complete():
            now: object = None
            with suppress(EngineAway, Fenced):
                self._complete = await self.worker.held.complete(self._at.clock.now())
                now = await all_complete(self._engines, self._at.settings.cluster.lease)
            if self._complete and now is not None and now == before:
                return
            before = now
            await asyncio.sleep(self._at.settings.cluster.renew)

    async def _mind_the_disk(self) -> None:
        while True:
            await asyncio.sleep(self._at.settings.crawl.sync_interval)
            if why := self._short_of_disk():
                self._leave_because(why, Stop.DISK)
                return

    def _short_of_disk(self) -> str:
        return self._directory.shortage(self._at.settings.crawl.min_free_disk)

    def _leave_because(self, why: str, stop: Stop) -> None:
        if self._stop is None:
            self._stop, self.why = stop, why
            self._events.emit(Warned(f"stopping: {why}"))
        self.worker.leave()

    async def _look(self) -> Snapshot:
        """The work left. While an engine is away it is unknown, so there may be some."""
        try:
            return await snapshot(self._engines)
        except EngineAway:
            return Snapshot({0: Activity(Counts(), idle=False)})

    async def _mind_the_lost(self) -> None:
        """Close a shard with pages in lost segments: its next owner, maybe this worker, makes them pending first.

        While the shard runs, a page in flight could be found to repeat a lost one just before that one is dropped.
        """
        register, every = self._engines.segments, self._at.settings.cluster.renew
        while register is not None and self._storage.disk:
            await asyncio.sleep(every)
            with suppress(EngineAway):
                for number in {segment.shard for segment in await register.lost()}:
                    if number in self.worker.held.shards:
                        self.worker.held.shards[number].stop()

    @property
    def again(self) -> bool:
        """Whether it left only because the crawl's settings have changed."""
        return self._outdated and self._stop is None

    def _reload(self) -> None:
        """Work under the old settings ends here: every shard is handed over before one is taken under the new ones."""
        if not self._outdated:
            self._outdated = True
            self._events.emit(Warned("the settings of the crawl have changed; going on by the new ones"))
        self.worker.leave()

    def leave(self) -> None:
        """Finish what is in flight, hand every shard over, and let `run` return."""
        self._stop = self._stop or Stop.DONE
        self.worker.leave()

    async def cut_off(self) -> str:
        """Returns when an engine that is needed to hand over has been away for several leases, counted from now; which one."""
        cluster, clock = self._at.settings.cluster, self._at.clock
        began = clock.monotonic()
        while True:
            await asyncio.sleep(cluster.renew)
            for engine in awaited(cluster.size):
                if min(self._watch.away_for(engine), clock.monotonic() - began) > _LEASES * cluster.lease:
                    return engine

    def about(self) -> dict[str, Any]:
        """A short report for `cluster status`."""
        held = self.worker.held
        counts = held.counts
        (before, had), now = self._told, self._at.clock.monotonic()
        self._told = (now, self.requests)
        return {
            "rate": (self.requests - had) / (now - before) if now > before else 0.0,
            "settings": self.worker.version,
            "shards": len(held.shards),
            "in_flight": held.in_flight,
            "pages": counts.pages,
            "requests": counts.requests,
            "trips": self._engines.trips(),
            "metrics": msgspec.to_builtins(self.metrics()),
            "engines": self._watch.about(),
            "disk": self._storage.disk,
            "complete": self._complete,
            "alerts": []
            if self._alerting is None
            else [each.name for each in self._alerting.notifier.firing],
            **self.worker.obeyed(),
            "failed": {} if counts.bytes else dict(islice(held.failed.items(), TROUBLES)),
        }

    @property
    def _is_observed(self) -> bool:
        """Whether somebody wants to know what waits in the engines, which takes a question to them."""
        settings = self._at.settings
        return bool(settings.metrics.address or settings.alerts.webhook or settings.alerts.command)

    def observe(self) -> Observation:
        """The worker as it is now, for its metrics and alerts."""
        return self._observer.observe(self._storage.metrics())

    def _watched(self) -> Watch:
        directory = self._directory
        return Watch(
            settings=self._at.settings,
            clock=self._at.clock,
            observe=self.observe,
            warn=lambda text: self._events.emit(Warned(text)),
            name={"crawl": self._at.settings.cluster.name, "worker": self.worker.name},
            alerts_file=directory.alerts_file,
            url_file=directory.metrics_file,
        )

    def metrics(self) -> Metrics:
        """What this worker measures."""
        return added_up([measured(self._at, self.worker.held.shards.values()), self._storage.metrics()])

    def _count(self, _event: Event) -> None:
        self.requests += 1

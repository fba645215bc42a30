"""Wires a cluster worker; only its shards change at run time.

Its own disk has what must exist before anything is settled: the current archive segment, the request log, and the
crash mark. Everything else is on the engines.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from skitter import parse, plugins, schedule
from skitter.cluster.agreement import agreed
from skitter.cluster.announce import AnnouncingFrontier
from skitter.cluster.clock import EngineClock
from skitter.cluster.lease import LeasedFetcher
from skitter.cluster.opening import ShardOpener, WiredShard
from skitter.cluster.ports import Claim
from skitter.cluster.run import WorkerRun
from skitter.cluster.worker import ClusterWorker, worker_name
from skitter.compose import archive_of, promised, shared, stations
from skitter.compose.engines import Engines, LeasedPermits, opened
from skitter.compose.permits import Wanted
from skitter.compose.storing import ShardStorage, storing
from skitter.crawl.completing import Batching
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.machine import fitted_to_machine
from skitter.crawl.shard import Shard
from skitter.events import Events, Warned
from skitter.fetch.address import Answer
from skitter.fetch.check import check
from skitter.frontier.crashes import InHand
from skitter.politeness.budgets import limited_groups
from skitter.ports import PermitTerms
from skitter.reporting.log import RequestLog
from skitter.runtime.clock import SystemClock
from skitter.settings import Settings
from skitter.settings.changes import values
from skitter.visit import Shared

# Full batches that are worth a round trip ahead of time. With one, a page costs 0.08 round trips, with two
# 0.05, and in steady state the pages per second are the same (500 hosts with a delay of a quarter of a
# second, 4 shards on a worker).
_GROUPS = 2


@dataclass(frozen=True)
class _Wiring:
    """The parts from which a worker's shards are made."""

    engines: Engines
    directory: CrawlDirectory
    events: Events
    at: Shared
    worker: ClusterWorker
    storage: ShardStorage
    batching: Batching

    def shard(self, claim: Claim) -> WiredShard:
        """A shard under its epoch, not open yet."""
        number, settings = claim.shard, self.at.settings
        log = RequestLog(self.directory.request_log(number))
        events = self.events.branch()
        events.subscribe(log, *log.KINDS)
        events.emit(promised(settings, self.at.clock))
        frontier = AnnouncingFrontier(
            self.engines.store(number, claim.epoch),
            settings,
            shard=number,
            shards=self.engines.shards,
            forwarding=self.engines.forwarding,
            # The last owner may have requests in flight that were allowed under its lease.
            grace=claim.over_after(settings.fetch.deadline),
            in_hand=InHand(self.directory.path / "state" / f"{number:02d}.hand"),
        )
        frontier.engines, frontier.number = self.engines, number
        frontier.complain = lambda text: self.events.emit(Warned(text))
        archive = self.storage.archive(archive_of(self.directory, number, self.at), number, claim.epoch)
        fetcher = LeasedFetcher(self.at.fetcher, self.worker.leases, number, self.at.clock)
        own = stations(self.at, frontier, archive, fetcher, number)
        return WiredShard(Shard(own, events, self.directory, number, batching=self.batching), frontier, log)


@asynccontextmanager
async def joined(
    directory: CrawlDirectory, settings: Settings, events: Events, version: int | None = None
) -> AsyncIterator[WorkerRun]:
    """A worker with everything it needs, in its own directory.

    `version` is that of the shared settings these are made from; without it, they are checked against them.
    """
    check(settings)
    schedule.check(settings.schedule)
    await asyncio.to_thread(plugins.check, settings)
    parse.check(settings.parse)
    name = worker_name()
    async with opened(settings, name) as engines:
        if version is None:
            version, words = await engines.claims.settings()
            agreed(values(settings), words)
        directory.check_cluster(settings.cluster.name)
        directory.prepare(state_elsewhere=True)
        with directory.locked():
            settings = fitted_to_machine(settings, events)
            directory.write_settings(settings)
            clock = EngineClock(SystemClock())
            leased: list[LeasedPermits] = []

            def permitted(permits_of: PermitTerms, kind: str = "") -> LeasedPermits:
                leased.append(engines.permits(clock, permits_of, kind))
                return leased[-1]

            wanted = Wanted(settings)
            permits = None if wanted.address is None else permitted(wanted.address)
            keys = wanted.keys(clock, lambda group, limits: permitted(limits, f"group:{group.name}:"))
            names = engines.cache("dns", Answer, settings.fetch.dns_cache, clock)
            at = shared(directory, settings, clock, names, events, permits, keys)
            # `cluster set` may have changed the settings, and it is unknown under which a link was accepted.
            # It may be in scope by a root that the others got with their last heartbeat, and we shall get
            # with our next.
            accounts = engines.accounts() if limited_groups(settings) else None
            at = replace(at, judge_again=True, roots_after=2 * settings.cluster.renew, accounts=accounts)
            if at.parsers is not None:
                at.parsers.complain = lambda text: events.emit(Warned(text))
            worker = ClusterWorker(name, engines.claims, clock, settings, events)
            worker.version = version
            for each in leased:
                each.workers = lambda: worker.colleagues
            if at.gate is not None and at.gate.bandwidth is not None:
                at.gate.bandwidth.workers = lambda: worker.colleagues
            async with storing(
                directory, settings, clock, events, engines.claims, engines.segments
            ) as storage:
                batching = Batching(settings.cluster.commit_interval, _GROUPS * settings.crawl.commit_visits)
                wiring = _Wiring(engines, directory, events, at, worker, storage, batching)
                opener = ShardOpener(engines.inbox, wiring.shard, events, clock)
                try:
                    beside = tuple(each.run for each in leased)
                    yield WorkerRun(worker, opener, engines, storage, at, directory, beside)
                finally:
                    await _closed(at)


async def _closed(at: Shared) -> None:
    """Nothing more is fetched, rendered or parsed."""
    if at.parsers is not None:
        await at.parsers.close()
    if at.renderers is not None:
        await at.renderers.close()
    await at.fetcher.close()

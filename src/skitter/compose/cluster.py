"""A worker of a cluster, wired: its shards come and go, everything else it has for as long as it lives.

On its own disk it has what must be there before anything is settled: the archive segment that it writes, the request log, and
word of the visit in hand. All the rest is on the engines.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from msgspec.structs import replace

from skitter.cluster.agreement import agreed, values
from skitter.cluster.clock import EngineClock
from skitter.cluster.limit_watch import LimitWatch
from skitter.cluster.ports import Claim, Delivery, Inbox
from skitter.cluster.status import snapshot
from skitter.cluster.worker import Member, worker_name
from skitter.compose import archive_of, fitted_to_machine, shared, stations
from skitter.compose.engines import Engines, opened
from skitter.compose.storing import Storage, storing
from skitter.crawl.batching import Gathering
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.done import Activity, Snapshot, why_it_ended
from skitter.crawl.shard import Shard
from skitter.engines.breaker import until_again
from skitter.engines.parts import in_parts
from skitter.engines.watch import EngineWatch, working
from skitter.events import Event, Events, Requested, RootsAdded, Warned
from skitter.fetch.address import Answer
from skitter.fetch.check import check
from skitter.frontier import RemoteFrontier
from skitter.frontier.in_hand import Hand
from skitter.frontier.patience import patiently
from skitter.model import Counts, Exchange, Failed, Fault, Outcome, Settlement, Stop, Visit
from skitter.ports import Clock, EngineAway, Fenced, Fetcher, Mark, Opened, Unstorable
from skitter.reporting.format import counted
from skitter.reporting.log import RequestLog
from skitter.reporting.report import TROUBLES, dropped
from skitter.runtime.clock import SystemClock
from skitter.runtime.process import unwrapped
from skitter.settings import Settings
from skitter.visit import Shared

_LAST_LOOKS = 20  # at mail that nobody takes in, before it is left where it is
# Full groups that are worth a journey before its time. With one a page costs 0.08 round trips, with two 0.05, and in steady
# state there are no fewer pages a second (500 hosts that want a quarter of a second, 4 shards on a worker).
_GROUPS = 2
# Shards that a worker opens at once. With thousands, all together would wait for its few connections, and its signs of life
# behind them.
_OPENING = 32


class _Announcing(RemoteFrontier):
    """What is settled is announced first: a crash in between announces it twice, which is harmless.

    Pages in segments that were lost with somebody's disk are pending again before anything is taken out.
    """

    engines: Engines
    number: int
    reopened = 0

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open, and what the archive has lost."""
        opened = await super().open(now)
        register = self.engines.segments
        if register is not None:
            lost = await patiently(register.lost)
            names = [segment.name for segment in lost if segment.shard == self.number]
            if names:
                self.reopened = await patiently(lambda: self.reopen_files(set(names), now))
                await patiently(lambda: register.reopened(names))
        return opened

    async def reopen(self, mark: Mark, now: float) -> int:
        """Pages that the archive has lost are pending again, however often the engine goes away meanwhile."""
        return await patiently(lambda: RemoteFrontier.reopen(self, mark, now))

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Pages and errors, to whoever reads them."""
        await self.engines.announce(settlements)


class _Guarded:
    """The way out to the network, open only while the shard is ours for certain."""

    def __init__(self, fetcher: Fetcher, member: Member, shard: int, clock: Clock) -> None:
        self._fetcher, self._tenure, self._shard, self._clock = fetcher, member.tenure, shard, clock

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        await self._tenure.held(self._shard)
        started = self._clock.now()
        try:
            async with self._tenure.trusted(self._shard):
                return await self._fetcher.fetch(visit, validators)
        except TimeoutError:
            exchange = Exchange(visit.link.url, "", started, self._clock.now(), b"", b"", b"")
            return Failed(
                Fault.BUSY, "broken off, because the lease of its shard could not be renewed", exchange
            )

    def statistics(self) -> dict[str, dict[str, float]]:
        return self._fetcher.statistics()

    async def close(self) -> None:
        """It belongs to the worker."""


@dataclass(frozen=True)
class ClusterOutfit:
    """`cluster.member.Outfit`."""

    engines: Engines
    directory: CrawlDirectory
    events: Events
    at: Shared
    member: Member
    storage: Storage
    gathering: Gathering
    frontiers: dict[int, RemoteFrontier] = field(default_factory=dict, init=False)
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_OPENING), init=False)

    @property
    def inbox(self) -> Inbox:
        """The mail."""
        return self.engines.inbox

    @asynccontextmanager
    async def shard(self, claim: Claim) -> AsyncIterator[Shard]:
        """A shard, open under its epoch; closed at the end, unless it was lost."""
        number, settings = claim.shard, self.at.settings
        log = RequestLog(self.directory.request_log(number))
        events = self.events.branch()
        events.subscribe(log, *log.KINDS)
        # Whoever had the shard may have requests under way that were allowed while its lease ran.
        grace = claim.over_after(settings.fetch.deadline)
        frontier = _Announcing(
            self.engines.store(number, claim.epoch),
            settings,
            shard=number,
            shards=self.engines.shards,
            mail=self.engines.mail,
            grace=grace,
            hand=Hand(self.directory.path / "state" / f"{number:02d}.hand"),
        )
        frontier.engines, frontier.number = self.engines, number
        frontier.complain = lambda text: self.events.emit(Warned(text))
        archive = self.storage.archive(archive_of(self.directory, number, self.at), number, claim.epoch)
        fetcher = _Guarded(self.at.fetcher, self.member, number, self.at.clock)
        own = stations(self.at, frontier, archive, fetcher)
        shard = Shard(own, events, self.directory, number, gathering=self.gathering)
        try:
            async with self.opening:
                await shard.open()
            if frontier.reopened:
                lost = counted(frontier.reopened, "page")
                self.events.emit(
                    Warned(f"shard {number}: {lost} of segments that are lost are fetched again")
                )
            self.frontiers[number] = frontier
            yield shard
        finally:
            self.frontiers.pop(number, None)
            with suppress(Fenced):  # then its store does not listen, and does not have to
                await shard.close()
            log.close()

    def mail_taken(self, shard: Shard) -> dict[str, str]:
        """How far a shard's mail is taken in."""
        return dict(self.frontiers[shard.number].positions())

    async def take_in(self, shard: Shard, delivery: Delivery) -> None:
        """Add links and store their positions, in one write. Seeds among them are measured into the scope."""
        shard.take_into_scope([link for link in delivery.links if link.seed])
        frontier = self.frontiers[shard.number]
        async with shard.new_rules(delivery.links):
            await frontier.take_in(delivery.links, delivery.positions, self.at.clock.now())


class _Roots:
    """What one worker takes into the scope, all the others take in with their next sign of life."""

    def __init__(self, engines: Engines, events: Events) -> None:
        self._engines = engines
        self._events = events
        self._new: set[str] = set()
        self._waiting = asyncio.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, RootsAdded):
            self._new.update(event.roots)
            self._waiting.set()

    async def tell(self) -> None:
        """Tell the engine, as often as it takes."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            roots = sorted(self._new)
            try:
                await in_parts(roots, self._add, self._refused)
                self._new.difference_update(roots)
            except EngineAway as away:
                await until_again(away)
                self._waiting.set()

    async def _add(self, roots: Sequence[str]) -> list[None]:
        await self._engines.claims.add_roots(roots)
        return []

    async def _refused(self, root: str, problem: Unstorable) -> None:
        """No other worker takes it into the scope."""
        self._events.emit(Warned(f"{root[:200]} widens the scope of this worker only: {problem}"))


@asynccontextmanager
async def joined(
    directory: CrawlDirectory, settings: Settings, events: Events, version: int | None = None
) -> AsyncIterator["Worker"]:
    """A worker that has all it needs, in a directory of its own. `version` is of the shared settings that these are made from;
    without it, it is looked whether they agree."""
    check(settings.fetch)
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
            at = shared(
                directory, settings, clock, engines.cache("dns", Answer, settings.fetch.dns_cache, clock)
            )
            # `cluster set` may have changed the settings, and nobody knows under which a link was accepted. It may be in
            # scope by a root that the others heard of with their last sign of life, and we shall hear of with our next.
            at = replace(at, judge_again=True, roots_after=2 * settings.cluster.renew)
            member = Member(name, engines.claims, clock, settings, events)
            member.version = version
            async with storing(
                directory, settings, clock, events, engines.claims, engines.segments
            ) as storage:
                gathering = Gathering(
                    settings.cluster.commit_interval, _GROUPS * settings.crawl.commit_visits
                )
                outfit = ClusterOutfit(engines, directory, events, at, member, storage, gathering)
                try:
                    limits = LimitWatch(member, engines.claims, clock, settings)
                    yield Worker(member, outfit, limits, events)
                finally:
                    await at.fetcher.close()


class Worker:
    """A member at work, and what can be told of it."""

    def __init__(self, member: Member, outfit: ClusterOutfit, limits: LimitWatch, events: Events) -> None:
        self.member = member
        self._outfit = outfit
        self._limits = limits
        self._stop: Stop | None = None  # why it leaves; the first reason counts
        self.why = ""  # the same in words, unless it was told to
        self._events = events
        self.requests = 0  # made here, whichever shards they were for
        self._told = (outfit.at.clock.monotonic(), 0)  # when something was said last, and requests by then
        cluster, guards = outfit.at.settings.cluster, [*outfit.engines.guards, *outfit.storage.guards]
        for guard in guards:
            guard.test_with(cluster.breaker_tests)
        self._watch = EngineWatch(
            guards,
            working(cluster.size),
            outfit.at.clock,
            lambda text: events.emit(Warned(text)),
        )
        events.subscribe(self._count, Requested)
        member.says = self.about
        member.outdated = self._reload
        self._outdated = False
        member.crew.full = lambda: outfit.storage.full
        member.widen = outfit.at.links.widen_all

    async def run(self) -> Stop:
        """Work until told to leave, until a limit is reached or the disk is short; says which, and `why` says more.

        Done is also a limit that kept nothing back.
        """
        if why := self._short_of_disk():
            self._leave_because(why, Stop.DISK)
        elif why := await self._limits.reached():  # by others, before we came
            self._leave_because(why, Stop.LIMIT)
        else:
            await unwrapped(self._run())
        if text := dropped({"links": self._outfit.at.links.statistics()}):
            self._events.emit(Warned(text))
        work_left = self._stop is Stop.LIMIT and not (await self._look()).quiet
        return why_it_ended(self._stop, work_left=work_left)

    async def _run(self) -> None:
        roots = _Roots(self._outfit.engines, self._events)
        self._events.subscribe(roots, RootsAdded)
        storage, crew = self._outfit.storage, self.member.crew
        async with asyncio.TaskGroup() as tasks:
            works = (
                roots.tell(),
                crew.wake_when(storage.ready),
                self._mind_the_lost(),
                self._mind_the_limits(),
                self._mind_the_disk(),
                self._watch.run(),
            )
            beside = [tasks.create_task(work) for work in works]
            await self.member.run(self._outfit)
            for task in beside:
                task.cancel()

    async def _mind_the_limits(self) -> None:
        """At a limit nothing is begun any more. Where only mail is left, it says whether the limit kept anything back."""
        why = await self._limits.watch()
        self.member.crew.closed = True
        for _ in range(_LAST_LOOKS):
            if not (await self._look()).only_links_left:
                break
            await asyncio.sleep(self._outfit.at.settings.cluster.renew)
        self._leave_because(why, Stop.LIMIT)

    async def _mind_the_disk(self) -> None:
        while True:
            await asyncio.sleep(self._outfit.at.settings.crawl.sync_interval)
            if why := self._short_of_disk():
                self._leave_because(why, Stop.DISK)
                return

    def _short_of_disk(self) -> str:
        return self._outfit.directory.shortage(self._outfit.at.settings.crawl.min_free_disk)

    def _leave_because(self, why: str, stop: Stop) -> None:
        if self._stop is None:
            self._stop, self.why = stop, why
            self._events.emit(Warned(f"stopping: {why}"))
        self.member.leave()

    async def _look(self) -> Snapshot:
        """What is left to do. While an engine is away nobody can say, and something may be."""
        try:
            return await snapshot(self._outfit.engines)
        except EngineAway:
            return Snapshot({0: Activity(Counts(), idle=False)})

    async def _mind_the_lost(self) -> None:
        """A shard with pages in lost segments is closed: whoever opens it next, we perhaps, makes them pending first.

        While it runs, a page on its way could be found to repeat a lost one a moment before that one is dropped.
        """
        register, every = self._outfit.engines.segments, self._outfit.at.settings.cluster.renew
        while register is not None and self._outfit.storage.disk:
            await asyncio.sleep(every)
            with suppress(EngineAway):
                for number in {segment.shard for segment in await register.lost()}:
                    if number in self.member.crew.shards:
                        self.member.crew.shards[number].stop()

    @property
    def again(self) -> bool:
        """Whether it left only because the settings of the crawl have changed."""
        return self._outdated and self._stop is None

    def _reload(self) -> None:
        """Work by the old settings ends here: every shard is handed over before one is taken under the new ones."""
        if not self._outdated:
            self._outdated = True
            self._events.emit(Warned("the settings of the crawl have changed; going on by the new ones"))
        self.member.leave()

    def leave(self) -> None:
        """Finish what is in flight, hand every shard over, and let `run` return."""
        self._stop = self._stop or Stop.DONE
        self.member.leave()

    def about(self) -> dict[str, Any]:
        """A few words for `cluster status`."""
        crew = self.member.crew
        counts = crew.counts
        (before, had), now = self._told, self._outfit.at.clock.monotonic()
        self._told = (now, self.requests)
        return {
            "rate": (self.requests - had) / (now - before) if now > before else 0.0,
            "settings": self.member.version,
            "shards": len(crew.shards),
            "in_flight": crew.in_flight,
            "pages": counts.pages,
            "requests": counts.requests,
            "trips": self._outfit.engines.trips(),
            "engines": self._watch.about(),
            "disk": self._outfit.storage.disk,
            "failed": {} if counts.bytes else dict(islice(crew.failed.items(), TROUBLES)),
        }

    def _count(self, _event: Event) -> None:
        self.requests += 1

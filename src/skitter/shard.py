"""One shard at work: lease, visit, commit; pause, drain, stop. The only TaskGroup.

Three tasks share the shard. The leaser takes out visits as hosts become free and starts a task for each. The committer is
the only one that writes: it takes what has finished, appends it to the archive, and settles it in one atomic step. The
caretaker syncs to disk about once a second and looks after the limits. In memory a visit is in flight until it is
settled, so limits are exact and nothing is finished that is not safe.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from enum import StrEnum
from itertools import islice

from msgspec.structs import replace

from skitter.directory import CrawlDirectory
from skitter.events import (
    Deferred,
    Events,
    Lost,
    Opened,
    Requested,
    ScopeWidened,
    SetAside,
    Settled,
    Stopped,
    Warned,
)
from skitter.model import Counts, Link, Place, Purpose, Reason, Settlement, Visit
from skitter.ports import Mark
from skitter.seeds import BadSeed
from skitter.visit import Finished, Stations, make

_SEED_BATCH = 1000
_SHORTEST_NAP = 0.001  # seconds: whatever the frontier says is due, never spin


class Stop(StrEnum):
    """Why a crawl ended."""

    DONE = "done"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    DISK = "disk"


class Shard:
    """Runs one shard from opening to its last commit."""

    def __init__(self, at: Stations, events: Events, directory: CrawlDirectory) -> None:
        self._at = at
        self._events = events
        self._directory = directory
        self._limits = at.settings.crawl
        self._open: dict[
            int, Visit
        ] = {}  # visits that are leased and not settled, by the identity of the permission
        self._finished: deque[Finished] = deque()
        self._stop: Stop | None = None
        self._lease_again = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._began = at.clock.monotonic()
        self.counts = Counts()
        self.paused = False  # a slow reader of pages sets this; nothing new is leased meanwhile

    # -- the life of a shard ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Take the shard, mend what a crash left behind, and say so."""
        at, now = self._at, self._at.clock.now()
        opened = await at.frontier.open(now)
        repaired = await self._mend_archive(opened.mark, now)
        self._events.emit(Opened(0, len(opened.lost), repaired))
        for visit in opened.lost:
            self._events.emit(Lost(visit.link.url, visit.link.host, visit.leased_at))
        for visit in opened.aside:
            reason = Reason("crash", "the process died each time this page was worked on")
            self._events.emit(SetAside(visit.link.url, reason))
        self.counts = await at.frontier.counts()

    async def add_seeds(self, seeds: Iterable[Link | BadSeed]) -> int:
        """Offer seeds; the scope is measured from those that are wanted. Says how many were new.

        They may come from a pipe that is slow or a file that is large: the loop stays free, and `stop` is heard.
        """
        waiting, new = iter(seeds), 0
        while not self._stop and (batch := await asyncio.to_thread(list, islice(waiting, _SEED_BATCH))):
            judged = [
                _unusable(seed) if isinstance(seed, BadSeed) else self._at.links.seed(seed) for seed in batch
            ]
            wanted = [link for link, reason in judged if reason is None]
            refused = [(link, reason) for link, reason in judged if reason is not None]
            self._take_into_scope(wanted)
            for link, reason in refused:
                self._events.emit(Warned(f"seed {link.url} is not crawled: {reason.detail or reason.code}"))
            new += await self._at.frontier.add(wanted, refused, self._at.clock.now())
        self.counts = await self._at.frontier.counts()
        return new

    async def run(self) -> Stop:
        """Crawl until nothing is left, a limit is reached, or `stop` is called. Cancelling loses nothing either."""
        self._began = self._at.clock.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                committer = tasks.create_task(self._commit_as_visits_finish())
                caretaker = tasks.create_task(self._take_care())
                why = await self._lease_while_there_is_work(tasks)
                committer.cancel()
                caretaker.cancel()
        except asyncio.CancelledError:
            await self._save_before_leaving()
            raise
        except BaseExceptionGroup as group:
            raise _first(group) from group
        await self._sync()
        self._events.emit(Stopped(why.value, self.counts))
        return why

    def stop(self, why: Stop) -> None:
        """Lease nothing more; what is in flight is finished and saved."""
        self._stop = self._stop or why
        self._lease_again.set()

    def resume_leasing(self) -> None:
        """The reader of pages has caught up."""
        self.paused = False
        self._lease_again.set()

    async def close(self) -> None:
        """Give everything back. Visits that are still open are pending for the next run, without a mark against them."""
        async with AsyncExitStack() as stack:  # each is closed, whatever becomes of the others
            stack.push_async_callback(self._at.frontier.close, self._at.clock.now())
            stack.push_async_callback(self._at.archive.close)
            stack.push_async_callback(self._at.fetcher.close)

    async def _save_before_leaving(self) -> None:
        """Stopped at once: what has finished is saved, and requests that are broken off are in the log as lost."""
        await self._commit_what_has_finished()
        for visit in self._open.values():
            self._events.emit(Lost(visit.link.url, visit.link.host, visit.leased_at))

    @property
    def in_flight(self) -> int:
        """Visits that are leased and not settled."""
        return len(self._open)

    # -- leasing ---------------------------------------------------------------------------------------------

    async def _lease_while_there_is_work(self, tasks: asyncio.TaskGroup) -> Stop:
        frontier, clock = self._at.frontier, self._at.clock
        while True:
            self._lease_again.clear()
            room = self._room()
            for visit in await frontier.lease(room, clock.now()) if room > 0 else []:
                self._open[id(visit)] = visit
                tasks.create_task(self._visit(visit))
            due = None if self._stop else await frontier.next_due(clock.now())
            if due is None and not self.in_flight:
                return await self._why_it_ends()
            await self._sleep_until(due)

    async def _why_it_ends(self) -> Stop:
        """A limit that was reached with the very last page has kept nothing back."""
        if self._stop is Stop.LIMIT and await self._at.frontier.next_due(self._at.clock.now()) is None:
            return Stop.DONE
        return self._stop or Stop.DONE

    def _room(self) -> int:
        """How many visits may be taken out now. Each may become a page, so a page limit counts them as one."""
        if self._stop is not None or self.paused:
            return 0
        room, limits = self._limits.concurrency - self.in_flight, self._limits
        if limits.max_pages is not None:
            missing = limits.max_pages - self.counts.pages
            if missing <= 0:
                self.stop(Stop.LIMIT)
            room = min(room, missing - self.in_flight)
        if limits.max_bytes is not None and self.counts.bytes >= limits.max_bytes:
            self.stop(Stop.LIMIT)
            return 0
        return room

    async def _sleep_until(self, due: float | None) -> None:
        """Until something was committed, somebody calls, or the time has come."""
        wait = None  # without room, time alone changes nothing
        if due is not None and self._room() > 0:
            wait = max(due - self._at.clock.now(), _SHORTEST_NAP)
        try:
            async with asyncio.timeout(wait):
                await self._lease_again.wait()
        except TimeoutError:
            pass

    async def _visit(self, visit: Visit) -> None:
        self._finished.append(await make(visit, self._at))
        self._commit_now.set()

    # -- committing ------------------------------------------------------------------------------------------

    async def _commit_as_visits_finish(self) -> None:
        """Whatever has finished by the time the loop comes round is one group: no wait when idle, large when busy."""
        while True:
            await self._commit_now.wait()
            self._commit_now.clear()
            await self._commit_what_has_finished()

    async def _commit_what_has_finished(self) -> None:
        while self._finished:
            size = min(len(self._finished), self._limits.commit_visits)
            await self._commit([self._finished.popleft() for _ in range(size)])
            self._lease_again.set()

    async def _commit(self, group: Sequence[Finished]) -> None:
        """One atomic step for a group of visits: archive first, then everything else together with its mark."""
        at = self._at
        for finished in group:
            self._log_request(finished.settlement)
        places = iter(await at.archive.append([finished.packed for finished in group if finished.packed]))
        settlements = [
            _placed(finished, next(places)) if finished.packed else finished.settlement for finished in group
        ]
        for settlement in settlements:
            found = settlement.links if settlement.again is None else [settlement.again]
            self._take_into_scope([link for link in found if link.seed], settlement.visit.link)
        accepted = await at.frontier.settle(settlements, at.archive.mark(), at.clock.now())
        at.duplicates.committed([s.page for s in settlements if s.page is not None])
        self.counts = await at.frontier.counts()
        for settlement, open_until_now in zip(settlements, accepted, strict=True):
            del self._open[id(settlement.visit)]
            if open_until_now:
                self._tell(settlement)

    def _take_into_scope(self, links: Sequence[Link], seed: Link | None = None) -> None:
        """Seeds widen the scope; a seed's redirect takes it along, and says so."""
        roots = [link.url for link in links if not self._at.scope.has_root(link.url)]
        if roots:
            self._directory.add_roots(roots)
        for root in roots:
            if self._at.links.widen(root) and seed is not None:
                self._events.emit(ScopeWidened(seed.url, root))

    def _log_request(self, settlement: Settlement) -> None:
        exchange, visit = settlement.exchange, settlement.visit
        if exchange is None:
            return
        reason = settlement.verdict.reason
        self._events.emit(
            Requested(
                url=exchange.url,
                host=visit.link.host,
                address=exchange.address,
                start=exchange.started,
                end=exchange.ended,
                status=settlement.status,
                bytes=len(exchange.head) + len(exchange.body),
                purpose=_purpose(visit),
                attempt=visit.attempt,
                fault=reason.code if reason and not settlement.status else "",
            )
        )

    def _tell(self, settlement: Settlement) -> None:
        verdict, link = settlement.verdict, settlement.visit.link
        if link.purpose is Purpose.ROBOTS and (reason := verdict.host_aside or verdict.reason):
            self._events.emit(SetAside(link.origin, reason))
        elif verdict.host_aside is not None:
            self._events.emit(SetAside(link.host, verdict.host_aside))
        elif settlement.robots is not None and settlement.robots.held:
            copy, now = settlement.robots, self._at.clock.now()
            self._events.emit(Deferred(copy.origin, copy.held, max(0.0, copy.held - now), copy.problem))
        self._events.emit(Settled(settlement.visit, settlement.page, settlement.status, verdict.reason))

    # -- taking care -----------------------------------------------------------------------------------------

    async def _take_care(self) -> None:
        while True:
            await asyncio.sleep(self._limits.sync_interval)
            self._look_at_limits()
            await self._sync()

    async def _sync(self) -> None:
        await self._at.archive.sync()
        await self._at.frontier.sync()
        with suppress(OSError):  # a full disk is no reason to fail for the sake of numbers
            self._directory.write_statistics(self._at.statistics())

    def _look_at_limits(self) -> None:
        limits = self._limits
        if limits.max_time is not None and self._at.clock.monotonic() - self._began >= limits.max_time:
            self.stop(Stop.LIMIT)
        free = shutil.disk_usage(self._directory.path).free
        if free < limits.min_free_disk and self._stop is None:
            text = f"only {free >> 20} MiB are free on the disk of {self._directory.path} (crawl.min_free_disk); stopping, all is safe"
            self._events.emit(Warned(text))
            self.stop(Stop.DISK)

    async def _mend_archive(self, mark: Mark, now: float) -> str:
        """Cut what was appended but never settled; what was settled but never reached the disk is fetched again."""
        end = await self._at.archive.cut(mark)
        if end == mark:
            return ""
        again = await self._at.frontier.reopen(end, now)
        return (
            f"the archive ends before its last settled record (power loss?); {again} pages are fetched again"
        )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first: tasks fail in groups, but people and exit codes know single errors."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _unusable(seed: BadSeed) -> tuple[Link, Reason]:
    """A seed that is no URL has no key and no host, but it has a record, so that `why` can tell."""
    return Link(url=seed.text, key=seed.text, host="", seed=True), seed.reason


def _placed(finished: Finished, place: Place) -> Settlement:
    settlement = finished.settlement
    if settlement.page is None:
        return settlement
    return replace(settlement, page=replace(settlement.page, archive=place))


def _purpose(visit: Visit) -> str:
    """What a request is for, in the words of the request log."""
    if visit.link.purpose is Purpose.ROBOTS:
        return "robots"
    if visit.attempt > 1:
        return "retry"
    return "redirect" if visit.link.hops else "page"

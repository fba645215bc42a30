"""One shard at work: lease, visit, commit; pause, drain, stop.

Three tasks share the shard. The leaser leases visits as hosts become free and starts a task for each. The committer
is the only one that writes: it appends finished visits to the archive, and settles them in one atomic step. The
caretaker syncs to disk about once a second. In memory a visit is in flight until it is settled, so limits are exact
and nothing counts as finished that is not safe. How much may be in flight, and when nothing is left to do, is decided
for all shards together (see `local_shards`): an idle shard waits for links from the others.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from skitter import reasons
from skitter.crawl.completing import Batching, complete
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.new_rules import NewRules
from skitter.events import (
    Deferred,
    Events,
    Lost,
    Opened,
    RootsAdded,
    ScopeWidened,
    SetAside,
    Settled,
    Warned,
)
from skitter.links.listing import lists_nothing
from skitter.model import Counts, Heard, Link, Place, Purpose, Reason, Settlement, Visit, is_put_off
from skitter.politeness.gate import Gate
from skitter.ports import Command, Judged, Mark, Obeyed
from skitter.reporting.format import counted, duration
from skitter.reporting.log import request_of, requests_beside
from skitter.reporting.waiting import LONG, SHOWN, Pause, Pauses, Waiting, asked
from skitter.runtime.metrics import Metrics
from skitter.visit import Finished, Stations, make

_SOON_AGAIN = 0.1  # seconds: the gate of a crawl may let more through
_LOOK_AGAIN = 60.0  # seconds: a crawl whose window is closed looks at the clock again
_SHORTEST_NAP = 0.001  # seconds: whatever due time the frontier reports, never spin

# Finished visits wait a moment for others: a batch of 30 costs 7 % less CPU than three of 10, because each
# step handles more of them in a row. No visit waits if that would hold something up.
_MOMENT = 0.02  # seconds
_LEASED_TOGETHER = 8  # for the same reason
_FAILED_KEPT = (
    100_000  # origins: with more dead seeds than this, the crawl waits for them with the usual patience
)


class ShardGroup(Protocol):
    """The shards that work together, as one of them sees it."""

    def room(self, shard: "Shard") -> int:
        """How many visits a shard may lease now."""
        ...

    def idle(self) -> None:
        """A shard has nothing to do, and nothing in flight."""
        ...

    def took(self) -> None:
        """A shard has leased what it wanted, maybe not all that there was room for."""
        ...

    def committed(self, shard: "Shard") -> None:
        """The counts of a shard have changed, and there may be room again."""
        ...


class Shard:
    """Runs one shard from opening to its last commit."""

    def __init__(
        self,
        at: Stations,
        events: Events,
        directory: CrawlDirectory,
        number: int = 0,
        *,
        batching: Batching | None = None,
    ) -> None:
        """`batching` is shared by shards that settle together, if a commit is a network round trip."""
        self.number = number
        self.frontier = at.frontier
        self._at = at
        self._events = events
        self._directory = directory
        self._limits = at.settings.crawl
        # If a commit is a round trip the leaser waits for it: it also leases visits.
        self._alone = batching is None
        self._batching = batching or Batching(_MOMENT, self._limits.commit_visits, can_hurry=True)
        self._leased_together = max(1, min(_LEASED_TOGETHER, self._limits.concurrency // 8))
        # Visits leased and not settled, by the identity of the visit.
        self._open: dict[int, Visit] = {}
        self.in_flight = 0  # their number
        self.under_way = 0  # those without an answer yet: each holds a connection
        self.put_off = (
            0  # those that sent nothing and wait again: they are in nobody's way until they are settled
        )
        self._finished: deque[Finished] = deque()
        self._broken_off = False  # a commit is running, or was interrupted
        self._stopping = False
        self.due: float | None = None  # when the next visit may be leased, as far as known
        self._next: float | None = None  # the same, if there is room for it
        self._lease_again = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._sync_now = asyncio.Event()
        self._has_caretaker = False
        self._unsynced: list[asyncio.Future[None]] = []  # waiting for the next sync
        self.counts = Counts()
        self.counts_before = Counts()  # as they were when it was opened
        self._new_rules = NewRules(at.frontier, at.permissions, at.clock, self._judged_by_rules)
        self.failed: dict[str, str] = {}  # origins whose robots.txt could not be fetched in this run, and why
        self._pauses = Pauses(at.settings.politeness.delay)
        self.taking = 0  # visits that may soon be in flight: the frontier was asked for this many
        self.paused = False  # nothing new is leased meanwhile; see `local_shards.PausedBy`

    # -- the life of a shard ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the shard, repair what a crash left behind, and report it."""
        at, now = self._at, self._at.clock.now()
        opened = await at.frontier.open(now)
        repaired = await self._mend_archive(opened.mark, now)
        self._events.emit(Opened(self.number, len(opened.lost), repaired))
        if opened.set_back:
            text = f"the clock was set back by {duration(opened.set_back)} since the crawl last ran; what hosts are owed is counted from now"
            self._events.emit(Warned(text))
        judged = await at.frontier.judge_again(at.links.judge_again, at.links.judged_by, now)
        at.links.dropped += judged.went
        at.links.returned += judged.came
        for visit in opened.lost:
            self._events.emit(Lost(visit.link.url, visit.link.host, visit.leased_at))
        for visit in opened.aside:
            reason = Reason(reasons.CRASH, "the process died each time this page was worked on")
            self._events.emit(SetAside(visit.link.url, reason))
        self.counts = self.counts_before = await at.frontier.counts()
        if at.groups is not None:
            await at.groups.open(at.frontier, at.clock.monotonic())
        if (
            at.begun is not None and self.counts.added
        ):  # it is not new: requests may have been sent, and never settled
            at.begun()

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]] = ()) -> None:
        """Store links, safe from `kill -9`. Seeds among them are measured into the scope."""
        self.take_into_scope([link for link in links if link.seed])
        async with self.new_rules(links):
            await self._at.frontier.add(links, refused, self._at.clock.now())
        self._new_rules.look()
        self.counts = await self._at.frontier.counts()
        self._lease_again.set()

    async def obey(self, commands: Sequence[Command]) -> list[Obeyed]:
        """Apply commands that are new here."""
        if not commands:
            return []
        obeyed = await self._at.frontier.obey(commands, self._at.clock.now())
        self.counts = await self._at.frontier.counts()
        self._lease_again.set()
        return obeyed

    @asynccontextmanager
    async def new_rules(self, links: Sequence[Link]) -> AsyncIterator[None]:
        """While links are stored that may bring a robots.txt: forget the rules parsed before."""
        origins = {link.origin for link in links if link.purpose is Purpose.ROBOTS}
        for origin in origins:
            await self._at.permissions.forget(origin)
        yield
        for origin in origins:  # somebody may have asked for it meanwhile
            await self._at.permissions.forget(origin)

    async def synced(self) -> None:
        """Return when everything stored so far would survive a power loss. Idle shards do not make one wait."""
        if not self._has_caretaker:
            await self._sync()
            return
        waiting = asyncio.get_running_loop().create_future()
        self._unsynced.append(waiting)
        if not self._open:
            self._sync_now.set()
        await waiting

    async def run(self, group: ShardGroup) -> None:
        """Crawl until `stop` is called, and drain. Cancelling loses nothing either."""
        self._batching.join(self)
        try:
            async with asyncio.TaskGroup() as tasks:
                committer = tasks.create_task(self._commit_as_visits_finish(group))
                caretaker = tasks.create_task(self._take_care())
                rules = tasks.create_task(self._new_rules.run())
                await self._lease_while_there_is_work(tasks, group)
                committer.cancel()
                caretaker.cancel()
                rules.cancel()
        except asyncio.CancelledError:
            await self._save_before_leaving(group)
            raise
        finally:
            self._batching.leave(self)
        await self._sync()

    def stop(self) -> None:
        """Lease nothing more; what is in flight is finished and saved."""
        self._stopping = True
        self._lease_again.set()

    def wake(self) -> None:
        """There may be room for visits again."""
        self._lease_again.set()

    async def close(self) -> None:
        """Close everything. Visits still open are pending for the next run, and are not suspected."""
        async with AsyncExitStack() as stack:  # each is closed, whatever happens to the other
            stack.push_async_callback(self._at.frontier.close, self._at.clock.now())
            stack.push_async_callback(self._at.archive.close)

    async def _save_before_leaving(self, group: ShardGroup) -> None:
        """Stop at once: finished visits are saved, and cancelled requests are in the log as lost.

        Nothing is saved after an interrupted commit: what it left in the archive would count as settled.
        """
        if not self._broken_off:
            await self._commit_what_has_finished(group)
        for visit in self._open.values():
            self._events.emit(Lost(visit.link.url, visit.link.host, visit.leased_at))

    def waiting(self) -> Waiting:
        """What it is waiting for."""
        now = self._at.clock.now()
        next_in = None if self.due is None else max(0.0, self.due - now)
        pauses = self._pauses.current(now)
        if self._at.gate is not None and (why := self._at.gate.why(now)):
            pauses = [Pause("", self._at.gate.closed_until(now) - now, why)]
        return Waiting(asked(islice(self._open.values(), SHOWN), now), pauses, next_in)

    async def next_due(self) -> float | None:
        """When there is work that is not done yet; None if nothing waits (apart from visits in flight)."""
        now = self._at.clock.now()
        return now if self._new_rules.pending else await self._at.frontier.next_due(now)

    def _judged_by_rules(self, judged: Judged) -> None:
        """A changed robots.txt was applied to what is known."""
        if judged.came or judged.went:
            self._events.emit(
                Warned(
                    f"a robots.txt changed: {counted(judged.went, 'URL')} left the queue, {judged.came} came back"
                )
            )
        self._lease_again.set()

    def metrics(self) -> Metrics:
        """Its frontier and its rules in numbers."""
        return replace(self._at.frontier.metrics(), rules=self._at.permissions.metrics())

    # -- leasing ---------------------------------------------------------------------------------------------

    async def _lease_while_there_is_work(self, tasks: asyncio.TaskGroup, group: ShardGroup) -> None:
        at, frontier, clock = self._at, self._at.frontier, self._at.clock
        while True:
            self._lease_again.clear()
            room, now = self._room(group), clock.now()
            self.taking = max(room, 0)
            leased = await frontier.lease(room, now) if room > 0 else []
            if at.gate is not None:
                at.gate.began(len(leased))
            for visit in leased:
                self._open[id(visit)] = visit
                self.in_flight += 1
                self.under_way += 1
                tasks.create_task(self._visit(visit, group))
            if self.taking:
                self.taking = 0
                group.took()
            due = self.due = None if self._stopping else await frontier.next_due(now)
            if due is None and not self.in_flight:
                if self._stopping:
                    return
                if self._unsynced:  # a shard with nothing else to do delays nobody
                    self._sync_now.set()
                group.idle()
            # Without room, time alone changes nothing.
            self._next = due if due is not None and self._room(group) > 0 else None
            if due is not None and at.gate is not None and self._next is None and not self.paused:
                # It opens at a time (the clock may be set meanwhile), or when visits of any shard have ended.
                opens = at.gate.closed_until(now) or now + _SOON_AGAIN
                self._next = max(due, min(opens, now + _LOOK_AGAIN))
            await self._sleep_until(self._next)

    def _room(self, group: ShardGroup) -> int:
        if self._stopping or self.paused:
            return 0
        room, gate = group.room(self), self._at.gate
        return room if gate is None else gate.room(room, self._at.clock.now())

    async def _sleep_until(self, due: float | None) -> None:
        """Wait until something was committed, `wake` is called, or the time has come."""
        wait = None if due is None else max(due - self._at.clock.now(), _SHORTEST_NAP)
        try:
            async with asyncio.timeout(wait):
                await self._lease_again.wait()
        except TimeoutError:
            pass

    async def _visit(self, visit: Visit, group: ShardGroup) -> None:
        if self._at.gate is None:
            finished = await make(visit, self._at)
        else:
            finished = await self._gated(visit, self._at.gate)
        self.under_way -= 1
        self._finished.append(finished)
        if not finished.settlement.verdict.attempted and is_put_off(finished.settlement):
            self.put_off += 1
            group.took()
        now = self._at.clock.now()
        work_waits = self.due is not None and self.due <= now
        if self._alone and work_waits and self._room(group) >= self._leased_together:
            self._lease_again.set()
        # Settling frees its host, which idle connections may be waiting for.
        host_free = finished.settlement.verdict.host_free or now
        self._batching.finished(urgent=not work_waits and host_free < now + _MOMENT)

    async def _gated(self, visit: Visit, gate: Gate) -> Finished:
        """Make a visit that counts at the gate until it ends, even if it is cancelled: other shards of this process go on."""
        received = 0
        try:
            finished = await make(visit, self._at)
            exchange = finished.settlement.exchange
            received = 0 if exchange is None else exchange.received
        finally:
            gate.ended(received)
        self._lease_again.set()
        return finished

    # -- committing ------------------------------------------------------------------------------------------

    def more_comes(self, within: float) -> bool:
        """Whether more visits may finish soon: they are in flight, or their hosts are about to be free."""
        if len(self._finished) < self.in_flight:
            return True
        return self._next is not None and self._next < self._at.clock.now() + within

    def commit(self) -> None:
        """Settle what has finished."""
        self._commit_now.set()

    async def _commit_as_visits_finish(self, group: ShardGroup) -> None:
        while True:
            await self._commit_now.wait()
            self._commit_now.clear()
            await self._commit_what_has_finished(group)

    async def _commit_what_has_finished(self, group: ShardGroup) -> None:
        """Visits that finish meanwhile belong to a later batch."""
        left = len(self._finished)
        while left:
            size = min(left, self._limits.commit_visits)
            left -= size
            self._broken_off = True
            await self._commit([self._finished.popleft() for _ in range(size)])
            self._broken_off = False
            self._lease_again.set()
            group.committed(self)

    async def _commit(self, group: Sequence[Finished]) -> None:
        """One atomic step for a batch of visits: archive first, then everything else together with its mark."""
        at, ended = self._at, self._at.clock.now()
        self._tell_requests(group, ended)
        completed, packs = await complete(group, at)
        kept = [packed for packed in packs if packed]
        places = iter(await at.archive.append(kept))
        if kept:
            at.measuring.archived(len(kept), ended)
        settlements = [
            _placed(settlement, next(places)) if packed else settlement
            for settlement, packed in zip(completed, packs, strict=True)
        ]
        for settlement in settlements:
            if settlement.visit.link.seed:  # only the target of a seed's redirect is a seed, too
                found = settlement.links if settlement.again is None else [settlement.again]
                self.take_into_scope([link for link in found if link.seed], settlement.visit.link)
        now = at.clock.now()
        accepted = await at.frontier.settle(settlements, at.archive.mark(), now)
        if at.groups is not None:
            await at.groups.settled(settlements)
        at.archive.settled()
        at.duplicates.committed([s.page for s in settlements if s.page is not None])
        self.counts = await at.frontier.counts()
        for settlement, open_until_now in zip(settlements, accepted, strict=True):
            del self._open[id(settlement.visit)]
            self.in_flight -= 1
            if not settlement.verdict.attempted and is_put_off(settlement):
                self.put_off -= 1
            if open_until_now:
                self._tell(settlement, now)
                if (heard := settlement.verdict.heard) is not None and heard.sign:
                    await self._tell_trouble(settlement, heard, now)
        if any(settlement.robots is not None and settlement.robots.changed for settlement in settlements):
            self._new_rules.look()

    def _tell_requests(self, group: Sequence[Finished], now: float) -> None:
        """A request is in the log before its visit is settled."""
        measuring = self._at.measuring
        for finished in group:
            settlement, answer = finished.settlement, finished.unread
            measuring.visited(settlement, answer.content if answer else None, now)
            if (request := request_of(settlement)) is not None:
                self._events.emit(request)
            if settlement.beside:
                for beside in settlement.beside:
                    measuring.requested(beside.exchange, beside.status, beside.fault)
                for request in requests_beside(settlement):
                    self._events.emit(request)
        self._events.flush()

    def take_into_scope(self, links: Sequence[Link], seed: Link | None = None) -> None:
        """Seeds widen the scope; so does a seed's redirect, with a message. What is neither a page nor a list of pages does not."""
        handled = ((link.url, link.purpose.handling) for link in links)
        starts = (url for url, how in handled if how.counts or how.lists)
        roots = [url for url in starts if not self._at.scope.has_root(url)]
        if roots:
            self._directory.add_roots(roots)
            self._events.emit(RootsAdded(roots))
        for root in roots:
            if self._at.links.widen(root) and seed is not None:
                self._events.emit(ScopeWidened(seed.url, root))

    def _tell(self, settlement: Settlement, now: float) -> None:
        verdict, link = settlement.verdict, settlement.visit.link
        if (
            settlement.robots is not None
            or max(verdict.host_free or 0.0, verdict.host_held or 0.0) > now + LONG
        ):
            self._pauses.note(settlement, now)
        if settlement.robots is not None and not settlement.status and len(self.failed) < _FAILED_KEPT:
            self.failed[settlement.robots.origin] = settlement.robots.problem
        if (
            link.purpose is Purpose.ROBOTS
            and (reason := verdict.host_aside or verdict.reason)
            and not is_put_off(settlement)
        ):
            self._events.emit(SetAside(link.origin, reason))
        elif verdict.host_aside is not None:
            self._events.emit(SetAside(link.host, verdict.host_aside))
        elif settlement.robots is not None and settlement.robots.held and verdict.attempted:
            copy = settlement.robots
            self._events.emit(Deferred(copy.origin, copy.held, max(0.0, copy.held - now), copy.problem))
        if link.purpose is Purpose.SITEMAP and (empty := lists_nothing(link, settlement.page)):
            self._events.emit(Warned(empty))
        if self._events.readers[Settled]:
            page, exchange = settlement.page, settlement.exchange
            self._events.emit(Settled(settlement.visit, page, verdict.state, verdict.reason, exchange))

    async def _tell_trouble(self, settlement: Settlement, heard: Heard, now: float) -> None:
        """A host refuses or fails: what the frontier made of that, for people."""
        name = settlement.visit.link.host
        host = await self._at.frontier.host(name)
        pace = None if host is None else host.pace
        if host is None or pace is None:
            return
        if host.free_at > (settlement.verdict.host_free or 0.0):  # longer than the answer itself asked for
            self._pauses.slowed(host, now)
        if not pace.parked or pace.changed != heard.ended:
            return
        if host.aside is not None:
            self._events.emit(SetAside(name, host.aside))
        else:
            text = f"{name} failed {pace.failures} times in a row ({heard.sign}); it is left alone for {duration(host.free_at - now)}"
            self._events.emit(Warned(text))

    # -- taking care -----------------------------------------------------------------------------------------

    async def _take_care(self) -> None:
        self._has_caretaker = True
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.sync_interval):
                    await self._sync_now.wait()
            await self._sync()
            if self._at.groups is not None:
                await self._at.groups.tell(self._at.clock.monotonic())

    async def _sync(self) -> None:
        self._sync_now.clear()
        waiting, self._unsynced = self._unsynced, []
        await asyncio.to_thread(self._events.sync)
        await self._at.archive.sync()
        await self._at.frontier.sync()
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def _mend_archive(self, mark: Mark, now: float) -> str:
        """Cut what was appended but never settled; what was settled but never reached the disk is fetched again."""
        end = await self._at.archive.cut(mark)
        if end == mark:
            return ""
        again = await self._at.frontier.reopen(end, now)
        return (
            f"the archive ends before its last settled record (power loss?); {again} pages are fetched again"
        )


def _placed(settlement: Settlement, place: Place) -> Settlement:
    if settlement.page is None or settlement.page.archive is not None:  # a recrawl that found nothing new
        return settlement
    return replace(settlement, page=replace(settlement.page, archive=place))

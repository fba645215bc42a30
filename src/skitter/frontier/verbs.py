"""The main verbs of the frontier: add links, lease visits, settle them.

Each verb reads what it needs, decides, and ends with one write. A store at hand is read while a verb decides and
written to at once, so a verb runs to its end without yielding. Behind a network, verbs take turns: a verb first loads
what it needs, and its write is finished, even if the verb is cancelled, before the next one starts. While the engine
is away they wait; if another worker has taken the shard they raise `Fenced` and change nothing. If the engine refuses
to store something, memory is ahead of it, so it is loaded again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from mmap import mmap
from typing import Protocol, TypeVar

from msgspec.structs import replace

from skitter.engines.parts import in_parts
from skitter.engines.retry import patiently
from skitter.frontier import adding, ahead, depths, flow, leasing, linked, pages, prefetch, recovery, settling
from skitter.frontier.counting import copied
from skitter.frontier.crashes import NOTHING
from skitter.frontier.held import Lease
from skitter.frontier.memory import Far, Lacking
from skitter.frontier.names import Names
from skitter.frontier.pages import Nearby, pages_alike
from skitter.frontier.reading import ShardReader
from skitter.frontier.rows import Batch, Opening, Wanted
from skitter.frontier.seen import LatelySeen
from skitter.frontier.shard import Shard
from skitter.frontier.store import AtHand, Forwarding, Positions, Seen, Source, Store
from skitter.model import Counts, Link, Reason, Settlement, Visit
from skitter.ports import Likeness, Mark, StateError, Twin, Unstorable
from skitter.settings import Settings

T = TypeVar("T")
_LEAST_WINDOW = 500  # hosts of a shard, however many shards there are
_SEEN = 7  # URLs remembered per host in the window
LINKS_AT_ONCE = 2_000  # links added in one write
_TOGETHER = 5_000  # links of all visits that are settled together
_FEW_LINKS = 100  # of one of them; with more, they are added first if there are too many together
_SOME = 1_000  # links added first in one write, in 15 ms if all are new
_LEAST_AHEAD, _MOST_AHEAD = 64, 4_096  # visits leased ahead
_FEW = 8  # hosts with visits in flight, or free hosts with nothing leased yet
_SHOWN = 200  # characters of a URL shown in a warning
_SEVERAL = 4  # visits handed out since some were leased ahead


class HandMark(Protocol):
    """Records which visit is in hand, readable after the process has died."""

    def open(self) -> bytearray | mmap:
        """Sixteen bytes to read and to write to: the id of the visit, or zeros."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Verbs(ShardReader):
    """The state of a shard in memory, how it is loaded and written, and the verbs that work on it."""

    def __init__(
        self,
        store: Store,
        settings: Settings | None = None,
        *,
        shard: int = 0,
        shards: int = 1,
        at_hand: AtHand | None = None,
        forwarding: Forwarding | None = None,
        grace: float = 0.0,
        in_hand: HandMark | None = None,
    ) -> None:
        super().__init__(store)
        self._at_hand = at_hand
        settings = settings or Settings()
        self._settings = settings if at_hand is not None else _shared_out(settings, shards)
        self._number, self._shards = shard, shards
        self._names = Names(store, shard, shards, 0)  # until the shard is open
        self._forwarding, self._grace, self._hand = forwarding, grace, in_hand
        self._mark: bytearray | mmap | None = None  # the bytes of `_hand`, while the shard is open
        self._shard: Shard | None = None
        self._turn = asyncio.Lock()
        self._obeying = asyncio.Lock()  # one command at a time; other verbs have their turn meanwhile
        self._delivery: asyncio.Future[None] | None = None
        self._broken = False  # a write has failed: memory is ahead of the store
        self._clock = 0.0
        self._refill_at = 0.0  # when to lease ahead again
        self._handed = 0  # visits handed out since then
        # For visits that a crash left open: until when their hosts have asked us to wait.
        self.asked: Callable[[Sequence[Visit]], Mapping[str, float]] = lambda _visits: {}
        self.complain: Callable[[str], None] = lambda _text: None  # warns of links that the engine refuses

    # -- turns and round trips ---------------------------------------------------------------------------------

    def _new_shard(self, opening: Opening) -> Shard:
        window = self._settings.frontier.window
        self._names = Names(self._store, self._number, self._shards, window)
        source: Source = Far()
        seen: Seen = LatelySeen(_SEEN * window)
        near = Nearby(pages.FAR)
        if self._at_hand is not None:
            source, seen, near = self._at_hand, self._at_hand.seen, Nearby(pages.AT_HAND)
        by_message = self._forwarding is not None
        shard = Shard(opening, self._settings, self._names, source, seen, near, by_message=by_message)
        if self._at_hand is None:
            shard.ahead = float(self._settings.cluster.lease_ahead)
        shard.depths = depths.depths_of(self._settings)
        return shard

    @property
    def _open_shard(self) -> Shard:
        if self._shard is None:
            raise StateError("the frontier is not open")
        return self._shard

    def _begin(self) -> Shard:
        """A verb on a store at hand. It decides in memory before it writes, so a verb that fails is the last."""
        if self._broken:
            raise StateError("a write has failed; open the crawl again, what was settled is safe")
        shard = self._shard
        if shard is None:
            raise StateError("the frontier is not open")
        self._broken = True
        return shard

    @asynccontextmanager
    async def _verb(self) -> AsyncIterator[Shard]:
        """One verb at a time, and none before earlier decisions are written."""
        if self._at_hand is not None:
            yield self._begin()
            self._broken = False
            return
        async with self._turn:
            await self._delivered()
            yield self._open_shard

    async def _delivered(self) -> None:
        delivery = self._delivery
        if delivery is not None:
            await asyncio.shield(delivery)
            if self._delivery is delivery:  # else the next one is running
                self._delivery = None

    async def _fetch(self, wanted: Wanted) -> None:
        """Load what is missing, if anything. A store at hand is read when needed."""
        if self._at_hand is None and wanted:
            wanted.urls = list(dict.fromkeys(wanted.urls))
            wanted.hosts = list(dict.fromkeys(wanted.hosts))
            wanted.robots = list(dict.fromkeys(wanted.robots))
            wanted.learned = list(dict.fromkeys(wanted.learned))
            prefetch.take_in(self._open_shard, wanted, await self._load(wanted))

    async def _until_known(
        self, step: Callable[[], T], more: Callable[[Wanted], Wanted] = lambda wanted: wanted
    ) -> T:
        """Run a step, loading what it lacks; `more` adds what it will need besides."""
        while True:
            try:
                return step()
            except Lacking as lacking:
                wanted = more(lacking.wanted)
            await self._fetch(wanted)

    async def _commit(self, now: float, *, last: bool = False) -> None:
        """Make all decisions durable together. Links for other shards are safe first."""
        shard = self._open_shard
        if shard.headless:
            await self._until_known(shard.find_heads)
        batch, messages = shard.seal(now)
        batch.last = last
        if self._at_hand is not None:
            await self._store.write(batch)
        else:
            self._delivery = asyncio.ensure_future(self._deliver(batch, messages))
            await self._delivered()

    async def _end(self, shard: Shard, now: float, *, counts_matter: bool = True) -> None:
        """Write what a verb on a store at hand has decided."""
        if counts_matter or shard.has_changes:
            if shard.headless:
                shard.find_heads()
            await self._store.write(shard.seal(now)[0])
        self._broken = False

    async def _commit_changes(self, shard: Shard, now: float) -> None:
        if shard.has_changes:
            await self._commit(now)

    async def _read_again(self, now: float, closed: Mapping[bytes, Lease] | None = None) -> None:
        """Load memory from the engine again, after it refused a write.

        Visits in flight stay so; those `closed` by the refused write are in flight again.
        """
        old, self._delivery = self._open_shard, None
        opening = await patiently(self._store.open)
        shard = self._shard = self._new_shard(opening)
        shard.follow(old)
        out = {id16: lease for id16, lease in old.leases.items() if lease.handed} | dict(closed or {})
        await self._fetch(prefetch.need_leases(shard, opening.leases))
        recovery.resume(shard, opening.leases, out)
        await self._commit(now)

    async def _deliver(self, batch: Batch, messages: list[Link]) -> None:
        forwarding = self._forwarding
        if messages and forwarding is not None:
            by_shard: dict[int, list[Link]] = {}
            for link in messages:
                by_shard.setdefault(self._names.host(link.host).owner, []).append(link)
            await patiently(lambda: forwarding.send(by_shard))
        await patiently(lambda: self._store.write(batch))

    # -- links in ----------------------------------------------------------------------------------------------

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Accept links, once each."""
        if self._at_hand is not None:
            shard = self._begin()
            before = shard.counts.added
            _add(shard, links, refused, now)
            await self._end(shard, now)
            if shard.depths is not None:
                await self._tell_depths(now)
            return shard.counts.added - before
        before = self._open_shard.counts.added
        for at in range(0, max(len(links), 1), LINKS_AT_ONCE):
            async with self._verb():
                await self._add(links[at : at + LINKS_AT_ONCE], refused if not at else (), {}, now)
        await self._tell_depths(now)
        return self._open_shard.counts.added - before

    async def _add(
        self,
        links: Sequence[Link],
        refused: Sequence[tuple[Link, Reason]],
        positions: Positions,
        now: float,
    ) -> None:
        """Add links in one write, with their messages' positions. One that the engine refuses is left out, with a
        warning.
        """

        async def step(some: Sequence[Link]) -> list[None]:
            try:
                await self._add_now(some, refused, positions if some is links or not some else {}, now)
            except Unstorable:
                await self._read_again(now)
                raise
            return []

        async def leave_out(link: Link, problem: Unstorable) -> None:
            self.complain(f"{link.url[:_SHOWN]} is not crawled: {problem}")

        await in_parts(links, step, leave_out)
        if links and positions.items() - self._open_shard.meta.positions.items():  # it was not one write
            await step(())

    async def _add_now(
        self,
        links: Sequence[Link],
        refused: Sequence[tuple[Link, Reason]],
        positions: Positions,
        now: float,
    ) -> None:
        shard, wanted = self._open_shard, Wanted()
        looked = prefetch.need_links(shard, links, refused, wanted)
        await self._fetch(wanted)
        await self._until_known(lambda: prefetch.need_more(shard, looked))
        if shard.budgets is not None and shard.budgets.linked is not None:
            await self._until_known(lambda: linked.need(shard, linked.domains_told(shard, (), links)))
        _add(shard, links, refused, now)
        shard.meta.positions.update(positions)
        await self._commit(now)

    # -- visits out --------------------------------------------------------------------------------------------

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out the visits that may start now."""
        visits: list[Visit] = []
        if self._at_hand is not None:
            shard = self._begin()
            leasing.lease(shard, limit, now, visits)
            await self._end(shard, now, counts_matter=False)
            return visits
        async with self._verb() as shard:
            if shard.ahead:
                return await self._lease_ahead(shard, limit, now)
            await self._until_known(
                lambda: leasing.lease(shard, limit, now, visits),
                lambda wanted: prefetch.look_ahead(shard, limit - len(visits), wanted, now),
            )
            await self._commit_changes(shard, now)
            return visits

    async def _lease_ahead(self, shard: Shard, limit: int, now: float) -> list[Visit]:
        visits = ahead.hand_out_reserved(shard, limit, now)
        if len(visits) < limit and self._worth_a_trip(shard, limit, now):
            await self._take_ahead(shard, limit, now)
            await self._commit_changes(shard, now)
            visits += ahead.hand_out_reserved(shard, limit - len(visits), now)
        self._handed += len(visits)
        return visits

    async def _take_ahead(self, shard: Shard, limit: int, now: float) -> None:
        target = min(max(limit, 2 * self._handed, _LEAST_AHEAD), _MOST_AHEAD)
        await self._until_known(
            lambda: ahead.take_ahead(shard, target, now),
            lambda wanted: prefetch.look_ahead(shard, target - shard.reserve.size, wanted, now),
        )
        self._refill_at, self._handed = now + shard.ahead / 2, 0

    def _worth_a_trip(self, shard: Shard, limit: int, now: float) -> bool:
        """Whether to lease ahead now: it is time, little is in flight, or there is much to lease."""
        if now >= self._refill_at or len(shard.flights) < _FEW:
            return True
        return shard.agenda.ready_count >= max(_FEW, limit // 4)

    async def next_due(self, now: float) -> float | None:
        """The earliest host clock or retry."""
        if self._at_hand is not None:
            shard = self._begin()
            due = leasing.next_due(shard, now, 0.0)
            await self._end(shard, now, counts_matter=False)
            return due
        async with self._verb() as shard:
            refill_at = self._refill_at if len(shard.flights) >= _FEW else 0.0
            due = await self._until_known(
                lambda: leasing.next_due(shard, now, refill_at),
                lambda wanted: prefetch.look_ahead(shard, 1, wanted, now),
            )
            await self._commit_changes(shard, now)
            return due

    # -- visits back -------------------------------------------------------------------------------------------

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits with their results. If an engine refuses one, only that fact and the reason are kept."""
        if self._at_hand is not None:
            added = await self._add_first(settlements, now)
            shard = self._begin()
            self._pass_time(shard, mark, now)
            told = settling.settle(shard, settlements, now, added)
            await self._end(shard, now)
            if shard.depths is not None:
                await self._tell_depths(now)
            return told

        async def step(some: Sequence[Settlement]) -> list[bool]:
            await self.announce(some)
            async with self._verb() as shard:
                ids = [self._names.id_of(settlement.visit.link) for settlement in some]
                closed = {id16: lease for id16 in ids if (lease := shard.leases.get(id16)) and lease.handed}
                try:
                    return await self._settle(shard, some, mark, now)
                except Unstorable:
                    await self._read_again(now, closed)
                    raise

        async def give_up(settlement: Settlement, problem: Unstorable) -> bool:
            return (await step([settling.unstorable(settlement, str(problem), now)]))[0]

        told = await in_parts(settlements, step, give_up)
        await self._tell_depths(now)
        return told

    async def _add_first(self, settlements: Sequence[Settlement], now: float) -> settling.Targets | None:
        """If there are very many links, add most of them before the visits are settled, some at a time.

        A verb runs to its end without yielding, and 10,000 new links take 0.15 s.
        """
        if sum(len(each.links) + len(each.refused) for each in settlements) <= _TOGETHER:
            return None
        added: dict[int, list[bytes]] = {}
        for settlement in settlements:
            links, refused = settlement.links, settlement.refused
            if len(links) + len(refused) > _FEW_LINKS and settling.is_open(
                self._open_shard, settlement.visit
            ):
                targets = added.setdefault(id(settlement), [])
                for start in range(0, len(links), _SOME):
                    targets += await self._add_some(links[start : start + _SOME], (), now)
                for start in range(0, len(refused), _SOME):
                    targets += await self._add_some((), refused[start : start + _SOME], now)
        return added

    async def _add_some(
        self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float
    ) -> list[bytes]:
        shard = self._begin()
        targets = adding.add(shard, links, refused, now)
        await self._end(shard, now)
        await asyncio.sleep(0)
        return targets

    def _pass_time(self, shard: Shard, mark: Mark, now: float) -> None:
        shard.counts.elapsed += max(0.0, now - self._clock)
        self._clock = max(now, self._clock)
        shard.meta.mark = mark

    async def _settle(
        self, shard: Shard, settlements: Sequence[Settlement], mark: Mark, now: float
    ) -> list[bool]:
        wanted = Wanted()
        looked = prefetch.need_settlements(shard, settlements, wanted)
        await self._fetch(wanted)
        await self._until_known(lambda: prefetch.need_hosts_of_pages(shard))
        await self._until_known(lambda: prefetch.need_more(shard, looked))
        await self._until_known(lambda: prefetch.need_hops(shard, settlements))
        if shard.budgets is not None and shard.budgets.linked is not None:
            await self._until_known(lambda: linked.need(shard, linked.domains_told(shard, settlements)))
        self._pass_time(shard, mark, now)
        told = settling.settle(shard, settlements, now)
        if (
            shard.ahead and self._handed >= _SEVERAL
        ):  # more will be needed at once, and this write happens anyway
            await self._take_ahead(shard, 0, now)
        await self._commit(now)
        return told

    async def _tell_depths(self, now: float) -> None:
        """Pages that were found on a shorter way tell their links, some at a time."""
        while (kept := self._open_shard.depths) is not None and kept.owed:
            async with self._verb() as shard:
                await self._tell(shard, list(islice(kept.owed, depths.PAGES_TOLD)))
                if kept.complete and not kept.owed:
                    shard.meta.positions[depths.POSITION] = depths.KEPT
                await self._commit(now)
            await asyncio.sleep(0)  # there may be many, and other verbs want their turn

    async def _tell(self, shard: Shard, ids: Sequence[bytes]) -> None:
        if shard.depths is None:
            return
        if self._at_hand is None:
            await self._until_known(lambda: depths.need(shard, ids))
        shard.depths.tell(shard, ids)

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Announce what is about to be settled. Here, to nobody."""

    def in_hand(self, visit: Visit | None) -> None:
        """Set the crash mark."""
        if self._mark is not None:
            self._mark[:] = NOTHING if visit is None else self._names.id_of(visit.link)

    # -- what its owner knows better ---------------------------------------------------------------------------

    async def counts(self) -> Counts:
        """The counts of the crawl. Visits leased ahead still count as waiting."""
        shard = self._open_shard
        counts = copied(shard.counts)
        if shard.reserve.size:
            counts.leased -= shard.reserve.size
            counts.queued += shard.waiting_ahead()
        return counts

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """Pages that these repeat."""
        async with self._turn:
            shard = self._open_shard
            shard.compared = {}
            load = self._load if self._at_hand is None else self._store.load
            return await pages_alike(load, pages, distance, shard.nearby, shard.compared, self._at_hand)


def _add(shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> None:
    """Add links that nobody settles with a page of this shard."""
    (flow if shard.damping else adding).add(shard, links, refused, now)
    if shard.budgets is not None and shard.budgets.linked is not None:
        linked.arrived(shard, links, shard.budgets.linked)


def _shared_out(settings: Settings, shards: int) -> Settings:
    """Memory is bounded by the window, and a worker may have every shard: each gets its part of it."""
    whole = settings.frontier.window
    part = max(whole // shards, min(whole, _LEAST_WINDOW))
    return replace(settings, frontier=replace(settings.frontier, window=part))

"""The verbs of the frontier: each reads what it needs, decides, and ends with one write.

Verbs take turns. While an engine is away they wait; when somebody else has taken the shard they raise `Fenced`, and change
nothing.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TypeVar, cast

from msgspec.structs import replace

from skitter.engines.parts import in_parts
from skitter.frontier import adding, ahead, judging, leasing, prefetch, recovery, settling
from skitter.frontier.held import IDLE
from skitter.frontier.pages import is_behind
from skitter.frontier.patience import patiently
from skitter.frontier.reading import copied
from skitter.frontier.rows import RETRY, Times, Wanted
from skitter.frontier.shard import Shard
from skitter.frontier.store import Outbox, Positions
from skitter.frontier.turns import Turns
from skitter.model import Counts, HostRecord, Link, Page, Reason, RobotsCopy, Settlement, Visit
from skitter.ports import Judge, Judged, Likeness, Mark, Opened, Twin, Unstorable

T = TypeVar("T")
_LINKS_AT_ONCE = 2_000  # links that are added in one write
_ROWS_AT_ONCE = 500
_LEAST_AHEAD, _MOST_AHEAD = 64, 4_096  # visits that are taken out ahead
_FEW = 8  # hosts with visits in flight, or free hosts that nothing was taken out of yet
_SHOWN = 200  # characters of a URL that is complained of
_SEVERAL = 4  # visits that were handed out since some were taken out


class ShardFrontier(Turns):
    """`skitter.ports.Frontier` on a store.

    `at_hand`: the side of the store that is on this machine, if it is. `forwarding` carries links to other shards; without it
    they wait in the store's outbox. `grace`: seconds for which requests of the last owner may still be under way when the
    shard is opened. `in_hand` is of the machine: a visit that kills the process is found out sooner where it is opened
    again.
    """

    # -- the shard's life --------------------------------------------------------------------------------------

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open."""
        opening = await patiently(self._store.open)
        shard = self._shard = self._new_shard(opening)
        self._clock = now
        written_at = opening.meta.clock
        set_back = written_at > now + recovery.SET_BACK
        if set_back:
            await self._set_clocks_back(written_at - now, now)
            shard.meta.clock = now
        if opening.power_lost:
            shard.unsure_since = now
        async with self._verb():
            await self._fetch(prefetch.need_leases(shard, opening.leases))
            hand = self._hand.read() if self._hand is not None else b""
            opened = recovery.recover(shard, opening.leases, hand, now + self._grace, now)
            await self._commit(now)
        await patiently(self._store.sync)
        self.in_hand(None)
        return replace(opened, set_back=written_at - now) if set_back else opened

    async def _set_clocks_back(self, by: float, now: float) -> None:
        """The clock was set back: what was written by the old one would keep hosts waiting for as long."""
        names = [row.name async for row in self._store.hosts() if max(row.free_at, row.held) > now]
        for at in range(0, len(names), _ROWS_AT_ONCE):
            async with self._verb() as shard:
                some = names[at : at + _ROWS_AT_ONCE]
                await self._fetch(Wanted(hosts=some))
                recovery.move_clocks(shard, some, by)
                await self._commit(now)
        after = None
        while rows := (await self._load(Wanted(times=[Times(RETRY, after, _ROWS_AT_ONCE)]))).times[0]:
            after = rows[-1].due or 0.0, rows[-1].id
            async with self._verb() as shard:
                ids = [row.id for row in rows if (row.due or 0.0) > now]
                await self._fetch(Wanted(urls=ids))
                recovery.move_retries(shard, ids, by)
                await self._commit(now)

    async def close(self, now: float = 0.0) -> None:
        """Put open visits back, and let go of the engine."""
        try:
            if self._shard is not None and not self._broken:
                async with self._verb() as shard:
                    now = max(now, self._clock)
                    recovery.give_back(shard, now)
                    await self._commit(now, last=True)
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Let go of the engine as a crash would: open visits stay open."""
        self._shard = None
        if self._delivery is not None:
            self._delivery.cancel()  # nobody waits for it any more
        if self._hand is not None:
            self._hand.close()
            self._hand = None
        await self._store.close()

    async def sync(self) -> None:
        """Make everything acknowledged survive a power loss."""
        await self._delivered()
        await self._store.sync()

    def in_hand(self, visit: Visit | None) -> None:
        """Note what is worked on."""
        if self._hand is not None:
            self._hand.write(None if visit is None else self._names.id_of(visit.link))

    # -- links in ----------------------------------------------------------------------------------------------

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Accept links, once each."""
        before = self._open_shard.counts.added
        for at in range(0, max(len(links), 1), _LINKS_AT_ONCE):
            async with self._verb():
                await self._add(links[at : at + _LINKS_AT_ONCE], refused if not at else (), {}, now)
        return self._open_shard.counts.added - before

    async def _add(
        self,
        links: Sequence[Link],
        refused: Sequence[tuple[Link, Reason]],
        positions: Positions,
        now: float,
    ) -> None:
        """Add links in one write, with how far messages are read then. One that the engine refuses is left out, and told."""

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
        shard = self._open_shard
        if self._at_hand is None:
            wanted = Wanted()
            looked = prefetch.need_links(shard, links, refused, wanted)
            await self._fetch(wanted)
            await self._until_known(lambda: prefetch.need_more(shard, looked))
        adding.add(shard, links, refused, now)
        shard.meta.positions.update(positions)
        await self._commit(now)

    async def take_in(self, links: Sequence[Link], positions: Positions, now: float) -> int:
        """Accept links that came as messages, and remember how far these are read, in the same write."""
        before = self._open_shard.counts.added
        if len(links) > _LINKS_AT_ONCE:
            await self.add(links[:-_LINKS_AT_ONCE], (), now)
        async with self._verb():
            await self._add(links[-_LINKS_AT_ONCE:], (), positions, now)
        return self._open_shard.counts.added - before

    def positions(self) -> Mapping[str, str]:
        """How far messages are taken in."""
        return dict(self._open_shard.meta.positions)

    # -- visits out --------------------------------------------------------------------------------------------

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out what may be visited now."""
        async with self._verb() as shard:
            visits: list[Visit] = []
            if not shard.ahead:
                await self._until_known(
                    lambda: leasing.lease(shard, limit, now, visits),
                    lambda wanted: prefetch.look_ahead(shard, limit - len(visits), wanted, now),
                )
                await self._commit_changes(shard, now)
                return visits
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
        """Whether visits are taken out ahead now: it is time, or little is in flight, or there is much to be taken."""
        if now >= self._refill_at or len(shard.flights) < _FEW:
            return True
        return shard.agenda.ready_count >= max(_FEW, limit // 4)

    async def next_due(self, now: float) -> float | None:
        """The earliest host clock or retry."""
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
        """Close visits with all that came of them. Of one that an engine refuses, no more is kept than that, and why."""

        async def step(some: Sequence[Settlement]) -> list[bool]:
            await self.announce(some)
            async with self._verb() as shard:
                if self._at_hand is not None:
                    return await self._settle(some, mark, now)
                ids = [self._names.id_of(settlement.visit.link) for settlement in some]
                closed = {id16: lease for id16 in ids if (lease := shard.leases.get(id16)) and lease.handed}
                try:
                    return await self._settle(some, mark, now)
                except Unstorable:
                    await self._read_again(now, closed)
                    raise

        async def give_up(settlement: Settlement, problem: Unstorable) -> bool:
            return (await step([settling.unstorable(settlement, str(problem), now)]))[0]

        return await in_parts(settlements, step, give_up)

    async def _settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        shard = self._open_shard
        if self._at_hand is None:
            wanted = Wanted()
            looked = prefetch.need_settlements(shard, settlements, wanted)
            await self._fetch(wanted)
            await self._until_known(lambda: prefetch.need_hosts_of_pages(shard))
            await self._until_known(lambda: prefetch.need_more(shard, looked))
            await self._until_known(lambda: prefetch.need_hops(shard, settlements))
        shard.counts.elapsed += max(0.0, now - self._clock)
        self._clock = max(now, self._clock)
        shard.meta.mark = mark
        told = settling.settle(shard, settlements, now)
        if (
            shard.ahead and self._handed >= _SEVERAL
        ):  # more will be wanted at once, and this write is made anyway
            await self._take_ahead(shard, 0, now)
        await self._commit(now)
        return told

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Tell others what is about to be settled. Here there are none."""

    # -- links for other shards --------------------------------------------------------------------------------

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """The oldest links that wait to be forwarded."""
        # It is asked for where there is no `forwarding`.
        return await cast("Outbox", self._store).outbox(limit, after)

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Forget what its owner has."""
        async with self._verb() as shard:
            known = await self._waiting(set(ids)) if ids else []
            shard.batch.outbox.update(dict.fromkeys(known))
            shard.counts.outbox -= len(known)
            await self._commit_changes(shard, self._clock)

    async def _waiting(self, ids: set[int]) -> list[int]:
        known, after, last = [], min(ids) - 1, max(ids)
        while after < last and (some := await self.outbox(_LINKS_AT_ONCE, after)):
            known += [number for number, _ in some if number in ids]
            after = some[-1][0]
        return known

    # -- once more ---------------------------------------------------------------------------------------------

    async def reopen(self, mark: Mark, now: float) -> int:
        """Pages that the archive has lost are pending again."""
        again = await self.fetch_again(lambda page: is_behind(page.archive, mark), now)
        async with self._verb() as shard:
            shard.meta.mark = mark
            await self._commit(now)
        return again

    async def reopen_files(self, files: Collection[str], now: float) -> int:
        """Pages in files of the archive that are lost are pending again; says how many. For an owner that has just opened.

        So are pages that repeat a lost one byte for byte: of them the archive has no more than a word that they do. They
        come first: as long as the lost ones are there, it can be done again, from wherever it was broken off.
        """

        def lost(page: Page) -> bool:
            return page.archive is not None and page.archive.file in files

        gone = {
            row.page.url async for row in self._store.pages() if lost(row.page) and not row.page.identical
        }
        again = await self.fetch_again(lambda page: page.identical and page.duplicate_of in gone, now)
        again += await self.fetch_again(lost, now)
        async with (
            self._verb()
        ):  # even of nothing: who is not the owner any more shall not say that it is done
            await self._commit(now)
        return again

    async def fetch_again(self, lost: Callable[[Page], bool], now: float) -> int:
        """Pages of which something is lost are pending again; says how many."""
        again = 0
        async for rows in self._in_parts(row async for row in self._store.pages() if lost(row.page)):
            async with self._verb() as shard:
                await self._fetch(prefetch.need_pages(shard, rows))
                ids = [row.id for row in rows]
                await self._until_known(lambda ids=ids: prefetch.need_hosts_of_rows(shard, ids))  # type: ignore[misc]
                recovery.reopen(shard, rows)
                await self._commit(now)
            again += len(rows)
        return again

    async def judge_again(self, judge: Judge, settings: str, now: float) -> Judged:
        """Judge what waits, and what settings refused, if that was last done by other settings than these."""
        shard = self._open_shard
        if shard.meta.judged_by == settings:
            return Judged()
        came = went = 0
        if shard.meta.judged_by:
            async for rows in self._in_parts(
                row async for row in self._store.urls() if judging.concerns(row)
            ):
                async with self._verb():
                    ids = [row.id for row in rows]
                    await self._fetch(Wanted(urls=ids, hosts=[row.host for row in rows]))
                    some = judging.judge_again(shard, ids, judge)
                    await self._commit(now)
                came, went = came + some[0], went + some[1]
        async with self._verb():
            shard.meta.judged_by = settings
            await self._commit(now)
        return Judged(came, went)

    async def _in_parts(self, rows: AsyncIterator[T]) -> AsyncIterator[list[T]]:
        """A bounded number at a time."""
        some: list[T] = []
        async for row in rows:
            some.append(row)
            if len(some) == _ROWS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    # -- what its owner knows better ---------------------------------------------------------------------------

    async def counts(self) -> Counts:
        """The crawl in numbers. What is taken out ahead still waits, as far as anybody else is concerned."""
        shard = self._open_shard
        counts = copied(shard.counts)
        waiting = shard.waiting_ahead()
        counts.leased -= shard.reserve.size
        counts.queued += waiting
        return counts

    async def host(self, name: str) -> HostRecord | None:
        """What is known of a host."""
        row = self._open_shard.hosts.get(name)
        return await super().host(name) if row is None else self._host_record(row, self._out(name))

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt. Where it is known that there is none, nobody is asked."""
        known = self._open_shard.rules.get(origin)
        if known is not None and not known.access:
            return None
        return await super().robots(origin)

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """Pages that these repeat."""
        async with self._turn:
            shard = self._open_shard
            shard.compared = {}
            return await self._twins(pages, distance, shard.nearby, shard.compared)

    async def _leased(self) -> Collection[bytes]:
        return {id16 for id16, lease in self._open_shard.leases.items() if lease.handed}

    async def _all_out(self) -> Callable[[str], tuple[int, int]]:
        return self._out

    def _out(self, name: str) -> tuple[int, int]:
        shard = self._open_shard
        return shard.flights.get(name, IDLE).visits, shard.waiting_ahead(name)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Round trips, and how much is in memory."""
        return super().statistics() | self._open_shard.statistics()

"""The frontier of a cluster: the verbs of the port, each one load at most, where something is missing, and one write.

Verbs take turns. One that is cancelled while it writes has its write finished all the same, before the next begins. While
the engine is away they wait; when somebody else has taken the shard they raise `Fenced`, and change nothing.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

from skitter.engines.parts import in_parts
from skitter.frontier import adding, ahead, leasing, recovery, rules, settling
from skitter.frontier.held import IDLE
from skitter.frontier.mail import Positions
from skitter.frontier.patience import patiently
from skitter.frontier.reading import copied
from skitter.frontier.rows import PageRow, UrlRow, Wanted
from skitter.frontier.shard import Shard
from skitter.frontier.turns import Turns
from skitter.model import Counts, HostRecord, Link, Page, Reason, RobotsCopy, Settlement, Visit
from skitter.ports import Likeness, Mark, Opened, Twin, Unstorable

_LINKS_AT_ONCE = 2_000  # links that are added in one write
_PAGES_AT_ONCE = 500
_LEAST_AHEAD, _MOST_AHEAD = 64, 4_096  # visits that are taken out ahead
_FEW = 8  # hosts with visits in flight, or free hosts that nothing was taken out of yet
_SHOWN = 200  # characters of a URL that is complained of
_SEVERAL = 4  # visits that were handed out since some were taken out


class RemoteFrontier(Turns):
    """`skitter.ports.Frontier` on a store that is held under one epoch.

    `grace`: seconds for which requests of the last owner may still be under way when the shard is opened. `hand` is of
    the machine: a visit that kills the process is found out sooner where it is opened again.
    """

    # -- the shard's life --------------------------------------------------------------------------------------

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open."""
        opening = await patiently(self._store.open)
        shard = Shard(opening, self._settings, self._names, by_mail=self._mail is not None)
        self._shard, self._clock = shard, now
        async with self._verb():
            await self._fetch(recovery.need_lost(shard, opening.leases))
            hand = self._hand.read() if self._hand is not None else b""
            opened = recovery.recover(shard, opening.leases, hand, now + self._grace, now)
            await self._commit(now)
        self.in_hand(None)
        return opened

    async def close(self, now: float = 0.0) -> None:
        """Put open visits back, and let go of the engine."""
        try:
            if self._shard is not None:
                async with self._verb() as shard:
                    now = max(now, self._clock)
                    recovery.give_back(shard, now)
                    await self._commit(now)
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
        """What the engine has acknowledged is as safe as it ever will be."""
        await self._delivered()

    def in_hand(self, visit: Visit | None) -> None:
        """Leave word of what is worked on."""
        if self._hand is not None:
            self._hand.write(None if visit is None else self._names.id_of(visit.link))

    # -- the verbs ---------------------------------------------------------------------------------------------

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
        """Add links in one write, with how far the mail is read then. One that the engine refuses is left out, and told."""

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
        if links and positions.items() - self._open_shard.meta.mail.items():  # it was not one write
            await step(())

    async def _add_now(
        self,
        links: Sequence[Link],
        refused: Sequence[tuple[Link, Reason]],
        positions: Positions,
        now: float,
    ) -> None:
        shard = self._open_shard
        wanted = Wanted()
        looked = adding.need_all(shard, links, refused, wanted)
        await self._fetch(wanted)
        await self._until_known(lambda: adding.need_more(shard, looked))
        adding.add(shard, links, refused, now)
        shard.meta.mail.update(positions)
        await self._commit(now)

    async def take_in(self, links: Sequence[Link], positions: Positions, now: float) -> int:
        """Accept links that came by mail, and remember how far the mail is read, in the same write."""
        before = self._open_shard.counts.added
        if len(links) > _LINKS_AT_ONCE:
            await self.add(links[:-_LINKS_AT_ONCE], (), now)
        async with self._verb():
            await self._add(links[-_LINKS_AT_ONCE:], (), positions, now)
        return self._open_shard.counts.added - before

    def positions(self) -> Mapping[str, str]:
        """How far the mail is taken in."""
        return dict(self._open_shard.meta.mail)

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out what may be visited now."""
        async with self._verb() as shard:
            visits: list[Visit] = []
            if not shard.ahead:
                await self._until_known(lambda: leasing.lease(shard, limit, now, visits))
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
        await self._until_known(lambda: ahead.take_ahead(shard, target, now))
        self._refill_at, self._handed = now + shard.ahead / 2, 0

    def _worth_a_trip(self, shard: Shard, limit: int, now: float) -> bool:
        """Whether visits are taken out ahead now: it is time, or little is in flight, or there is much to be taken."""
        if now >= self._refill_at or len(shard.flights) < _FEW:
            return True
        return shard.agenda.ready_count >= max(_FEW, limit // 4)

    async def _commit_changes(self, shard: Shard, now: float) -> None:
        if shard.has_changes:
            await self._commit(now)

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits with all that came of them. Of one that an engine refuses, no more is kept than that, and why."""

        async def step(some: Sequence[Settlement]) -> list[bool]:
            await self.announce(some)
            async with self._verb() as shard:
                ids = [self._names.id_of(settlement.visit.link) for settlement in some]
                closed = {id16: lease for id16 in ids if (lease := shard.leases.get(id16)) and lease.handed}
                try:
                    return await self._settle(some, mark, now)
                except Unstorable:
                    await self._read_again(now, closed)
                    raise

        async def give_up(settlement: Settlement, problem: Unstorable) -> bool:
            return (await step([rules.unstorable(settlement, str(problem), now)]))[0]

        return await in_parts(settlements, step, give_up)

    async def _settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        shard, wanted = self._open_shard, Wanted()
        looked = settling.need(shard, settlements, wanted)
        await self._fetch(wanted)
        await self._fetch(settling.need_replaced(shard))
        await self._until_known(lambda: adding.need_more(shard, looked))
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

    async def next_due(self, now: float) -> float | None:
        """The earliest host clock or retry."""
        async with self._verb() as shard:
            refill_at = self._refill_at if len(shard.flights) >= _FEW else 0.0
            due = await self._until_known(lambda: leasing.next_due(shard, now, refill_at))
            await self._commit_changes(shard, now)
            return due

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """The oldest links that wait to be forwarded."""
        return await patiently(lambda: self._store.outbox(limit, after))

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

    async def reopen(self, mark: Mark, now: float) -> int:
        """Pages that the archive has lost are pending again."""
        gone = [row async for row in self._store.pages() if rules.behind(row.page.archive, mark)]
        for at in range(0, len(gone), _PAGES_AT_ONCE):
            await self._reopen(gone[at : at + _PAGES_AT_ONCE], now)
        async with self._verb() as shard:
            shard.meta.mark = mark
            await self._commit(now)
        return len(gone)

    async def reopen_files(self, files: Collection[str], now: float) -> int:
        """Pages in files of the archive that are lost are pending again; says how many. For an owner that has just opened.

        So are pages that repeat a lost one byte for byte: of them the archive has no more than a word that they do. They
        come first: as long as the lost ones are there, it can be done again, from wherever it was broken off.
        """

        def lost(page: Page) -> bool:
            return page.archive is not None and page.archive.file in files

        again, gone = 0, set[str]()
        async for rows in self._pages(lost):
            gone.update(row.page.url for row in rows if not row.page.identical)
        for wanted in (lambda page: page.identical and page.duplicate_of in gone, lost):
            async for rows in self._pages(wanted):
                await self._reopen(rows, now)
                again += len(rows)
        async with self._verb():
            await self._commit(
                now
            )  # even of nothing: who is not the owner any more shall not say that it is done
        return again

    async def _pages(self, wanted: Callable[[Page], bool]) -> AsyncIterator[list[PageRow]]:
        """Stored pages of some kind, a bounded number at a time."""
        some: list[PageRow] = []
        async for row in self._store.pages():
            if wanted(row.page):
                some.append(row)
                if len(some) == _PAGES_AT_ONCE:
                    yield some
                    some = []
        if some:
            yield some

    async def _reopen(self, pages: Sequence[PageRow], now: float) -> None:
        async with self._verb() as shard:
            await self._fetch(recovery.need_gone(shard, pages))
            await self._fetch(recovery.need_hosts(shard, pages))
            recovery.reopen(shard, pages)
            await self._commit(now)

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
        return await super().host(name) if row is None else self._host_record(row)

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt. Where it is known that there is none, nobody is asked."""
        known = self._open_shard.rules.get(origin)
        if known is not None and not known.access:
            return None
        return await super().robots(origin)

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """Pages that these repeat."""
        async with self._verb() as shard:
            shard.compared = {}
            return await self._twins(pages, distance, shard.nearby, shard.compared)

    def _is_leased(self, row: UrlRow) -> bool:
        lease = self._open_shard.leases.get(row.id)
        return lease is not None and lease.handed

    def _out(self, name: str) -> tuple[int, int]:
        shard = self._open_shard
        return shard.flights.get(name, IDLE).visits, shard.waiting_ahead(name)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Round trips, and how much is in memory."""
        return super().statistics() | self._open_shard.statistics()

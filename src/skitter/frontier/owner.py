"""The owner of a shard: opens it, works on it (`verbs`), repairs it, and gives it back.

Work on many rows is done in writes of bounded size; it can be interrupted and repeated.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from msgspec.structs import replace

from skitter.engines.retry import patiently
from skitter.frontier import budgets, depths, judging, linked, prefetch, recovery
from skitter.frontier.assets_only import AssetVerbs
from skitter.frontier.commands import ROWS_AT_ONCE
from skitter.frontier.held import IDLE
from skitter.frontier.pages import is_behind
from skitter.frontier.rows import CRAWLED, RETRY, Times, Wanted
from skitter.frontier.store import Outbox, Positions
from skitter.frontier.verbs import LINKS_AT_ONCE
from skitter.model import HostRecord, Link, Page, RobotsCopy
from skitter.politeness.budgets import is_tally
from skitter.ports import Judge, Judged, Mark, Opened
from skitter.runtime.metrics import Metrics


class ShardFrontier(AssetVerbs):
    """`skitter.ports.Frontier` on a store.

    `at_hand`: the local side of the store, if it is on this machine. `forwarding` sends links to other shards;
    without it they wait in the store's outbox. `grace`: seconds for which requests of the last owner may still be in
    flight when the shard is opened. `in_hand` is the machine's crash mark: reopened on the same machine, a visit that
    kills the process is found sooner.
    """

    # -- the shard's life --------------------------------------------------------------------------------------

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open."""
        try:
            return await self._open(now)
        except BaseException:
            await self.abandon()
            raise

    async def _open(self, now: float) -> Opened:
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
            hand = b""
            if self._hand is not None:
                self._mark = self._hand.open()
                hand = bytes(self._mark)
            asked = self.asked(list(opening.leases.values())) if opening.leases else {}
            opened = recovery.recover(shard, opening.leases, hand, now + self._grace, asked, now)
            await self._commit(now)
        await self._place_all(now)
        await patiently(self._store.sync)
        self.in_hand(None)
        return replace(opened, set_back=written_at - now) if set_back else opened

    async def close(self, now: float = 0.0) -> None:
        """Make open visits pending again, and close the store."""
        try:
            if self._shard is not None and not self._broken:
                async with self._verb() as shard:
                    now = max(now, self._clock)
                    recovery.give_back(shard, now)
                    await self._commit(now, last=True)
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Close the store as a crash would: open visits stay open."""
        self._shard = None
        if self._delivery is not None:
            self._delivery.cancel()  # nobody waits for it
        self._mark = None
        if self._hand is not None:
            self._hand.close()
            self._hand = None
        await self._store.close()

    async def sync(self) -> None:
        """Make everything acknowledged survive a power loss."""
        await self._delivered()
        await self._store.sync()

    # -- links for other shards --------------------------------------------------------------------------------

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """The oldest links waiting to be forwarded."""
        # Called only without `forwarding`.
        return await cast("Outbox", self._store).outbox(limit, after)

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Forget links that their owner has."""
        async with self._verb() as shard:
            known = await self._waiting(set(ids)) if ids else []
            shard.batch.outbox.update(dict.fromkeys(known))
            shard.counts.outbox -= len(known)
            await self._commit_changes(shard, self._clock)

    async def _waiting(self, ids: set[int]) -> list[int]:
        known, after, last = [], min(ids) - 1, max(ids)
        while after < last and (some := await self.outbox(LINKS_AT_ONCE, after)):
            known += [number for number, _ in some if number in ids]
            after = some[-1][0]
        return known

    # -- once more ---------------------------------------------------------------------------------------------

    async def reopen(self, mark: Mark, now: float) -> int:
        """Make pages pending again that the archive has lost."""
        again = await self.fetch_again(lambda page: is_behind(page.archive, mark), now)
        async with self._verb() as shard:
            shard.meta.mark = mark
            await self._commit(now)
        return again

    async def reopen_files(self, files: Collection[str], now: float) -> int:
        """Make pages pending again that were in lost archive files; returns how many. Call right after opening.

        So are pages that repeat a lost one byte for byte: the archive has only a reference for them. They come first:
        while the lost pages are still there, an interrupted run can be repeated.
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
        ):  # even if nothing was lost: an owner that lost the shard must not report success
            await self._commit(now)
        return again

    async def fetch_again(self, lost: Callable[[Page], bool], now: float) -> int:
        """Make pages pending again of which something is lost; returns how many."""
        again = 0
        async for rows in self._in_parts(row async for row in self._store.pages() if lost(row.page)):
            async with self._verb() as shard:
                if self._at_hand is None:
                    await self._fetch(prefetch.need_pages(shard, rows))
                    ids = [row.id for row in rows]
                    await self._until_known(lambda ids=ids: prefetch.need_hosts_of_rows(shard, ids))  # type: ignore[misc]
                recovery.reopen(shard, rows)
                await self._commit(now)
            again += len(rows)
        return again

    async def judge_again(self, judge: Judge, settings: str, now: float) -> Judged:
        """Judge waiting and refused URLs again, if they were last judged by other settings."""
        shard = self._open_shard
        await self._know_depths(judge, now)
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
                await asyncio.sleep(0)  # there may be millions, and other verbs want their turn
            await self._release_hosts(now)
            if shard.budgets is not None and shard.budgets.has_tallies:
                await self._recount(shard.budgets, now)
        async with self._verb():
            shard.meta.judged_by = settings
            await self._commit(now)
        return Judged(came, went)

    async def _know_depths(self, judge: Judge, now: float) -> None:
        """If settings limit depths, every URL has the least that is known before it is judged by them."""
        shard = self._open_shard
        positions = shard.meta.positions
        if shard.depths is None:
            positions.pop(depths.POSITION, None)  # written with the settings, if they are new
            return
        kept = shard.depths
        kept.judge = judge
        if positions.get(depths.POSITION) != depths.KEPT and shard.counts.crawled:
            async for rows in self._in_parts(row async for row in self._store.urls() if row.state == CRAWLED):
                kept.owed.update(dict.fromkeys(row.id for row in rows))
                await self._tell_depths(now)
        kept.complete = True
        async with self._verb() as shard:
            shard.meta.positions[depths.POSITION] = depths.KEPT
            await self._commit_changes(shard, now)

    async def _release_hosts(self, now: float) -> None:
        """Hosts whose pages wait, for a window maybe, or for the next day: other settings may let them go on."""
        names = [row.name async for row in self._store.hosts() if row.held > now or linked.is_waiting(row)]
        for at in range(0, len(names), ROWS_AT_ONCE):
            async with self._verb() as shard:
                some = names[at : at + ROWS_AT_ONCE]
                await self._fetch(Wanted(hosts=some, parked=some))
                judging.release(shard, some)
                linked.release_all(shard, some)
                await self._commit(now)

    async def _recount(self, kept: budgets.Budgets, now: float) -> None:
        sums: dict[str, budgets.Sum] = defaultdict(budgets.Sum)
        async for row in self._store.hosts():
            if is_tally(row.name):
                sums[row.name]  # it may have counted for others until now
                continue
            for name in kept.tallies(row.name, row.domain):
                sums[name].add(row)
        names = list(sums)
        for at in range(0, len(names), ROWS_AT_ONCE):
            async with self._verb() as shard:
                some = names[at : at + ROWS_AT_ONCE]
                await self._fetch(Wanted(hosts=some))
                budgets.recount(shard, {name: sums[name] for name in some})
                await self._commit(now)

    async def _set_clocks_back(self, by: float, now: float) -> None:
        """The clock was set back: times written by the old one would keep hosts waiting for as long."""
        names = [row.name async for row in self._store.hosts() if max(row.free_at, row.held) > now]
        for at in range(0, len(names), ROWS_AT_ONCE):
            async with self._verb() as shard:
                some = names[at : at + ROWS_AT_ONCE]
                await self._fetch(Wanted(hosts=some))
                recovery.move_clocks(shard, some, by)
                await self._commit(now)
        after = None
        while rows := (await self._load(Wanted(times=[Times(RETRY, after, ROWS_AT_ONCE)]))).times[0]:
            after = rows[-1].due or 0.0, rows[-1].id
            async with self._verb() as shard:
                ids = [row.id for row in rows if (row.due or 0.0) > now]
                await self._fetch(Wanted(urls=ids))
                recovery.move_retries(shard, ids, by)
                await self._commit(now)

    # -- messages from other shards -----------------------------------------------------------------------------

    async def take_in(self, links: Sequence[Link], positions: Positions, now: float) -> int:
        """Accept forwarded links, and store the position of their messages in the same write."""
        before = self._open_shard.counts.added
        if len(links) > LINKS_AT_ONCE:
            await self.add(links[:-LINKS_AT_ONCE], (), now)
        async with self._verb():
            await self._add(links[-LINKS_AT_ONCE:], (), positions, now)
        await self._tell_depths(now)
        return self._open_shard.counts.added - before

    def positions(self) -> Mapping[str, str]:
        """How far forwarded messages are stored."""
        return dict(self._open_shard.meta.positions)

    # -- what its owner knows better ---------------------------------------------------------------------------

    async def host(self, name: str) -> HostRecord | None:
        """The record of a host."""
        row = self._open_shard.hosts.get(name)
        return await super().host(name) if row is None else self._host_record(row, self._out(name))

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt. If it is known that there is none, the store is not asked."""
        known = self._open_shard.rules.get(origin)
        if known is not None and not known.access:
            return None
        return await super().robots(origin)

    async def _leased(self) -> Collection[bytes]:
        return {id16 for id16, lease in self._open_shard.leases.items() if lease.handed}

    async def _all_out(self) -> Callable[[str], tuple[int, int]]:
        return self._out

    def _out(self, name: str) -> tuple[int, int]:
        shard = self._open_shard
        return shard.flights.get(name, IDLE).visits, shard.waiting_ahead(name)

    def metrics(self) -> Metrics:
        """Round trips, and how much is in memory."""
        return self._open_shard.metrics(self._store.metrics())

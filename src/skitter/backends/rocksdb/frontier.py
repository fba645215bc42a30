"""The frontier on RocksDB: the verbs of the port, each one batch and one atomic write.

Verbs run to their end without giving way to other tasks, so they need no locks. The store is one directory, taken by one
process at a time; anybody may read it meanwhile (see `reading`).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

from skitter.backends.rocksdb import adding, leasing, recovery, settling
from skitter.backends.rocksdb.reading import RocksReader
from skitter.backends.rocksdb.records import decode_link
from skitter.backends.rocksdb.shard import Shard
from skitter.backends.rocksdb.store import Store
from skitter.frontier.in_hand import Hand
from skitter.frontier.sortable import number8, number_of
from skitter.model import Link, Page, Reason, Settlement, Visit
from skitter.ports import Mark, Opened, StateError
from skitter.settings import Settings


class RocksFrontier(RocksReader):
    """`skitter.ports.Frontier` in a directory of its own."""

    def __init__(
        self, path: Path, settings: Settings | None = None, *, shard: int = 0, shards: int = 1
    ) -> None:
        self._path = path
        self._settings = settings or Settings()
        self._number, self._shards = shard, shards
        self._shard: Shard | None = None
        self._hand: Hand | None = None
        self._clock = 0.0

    @property
    def _open_shard(self) -> Shard:
        if self._shard is None:
            raise StateError(f"the frontier in {self._path} is not open")
        return self._shard

    # -- the shard's life --------------------------------------------------------------------------------------

    async def open(self, now: float) -> Opened:
        """Take the directory, and recover what the last owner left open."""
        store = Store(self._path, self._settings.frontier.block_cache)
        super().__init__(store)
        with ExitStack() as undo:
            undo.callback(store.close)
            shard = Shard(store, self._settings, self._number, self._shards)
            hand = undo.enter_context(closing(Hand(self._path / "hand")))
            with shard.step(now):
                recovery.note_boot(shard, now)
                opened = recovery.recover(shard, hand.read(), now)
            store.sync()  # the word about this start of the machine is on the disk before any request
            hand.write(None)
            undo.pop_all()
        self._shard, self._hand, self._clock = shard, hand, now
        self._nearby = shard.nearby
        return opened

    async def close(self, now: float = 0.0) -> None:
        """Put open visits back, and let go of the directory."""
        shard, self._shard = self._shard, None
        if shard is None:
            return
        try:
            if not shard.broken:
                now = max(now, self._clock)
                with shard.step(now):
                    recovery.give_back(shard, now)
                    recovery.forget_boot(shard)
                shard.store.sync()
        finally:
            self._let_go(shard)

    def abandon(self) -> None:
        """Drop the store as a crash would: what was not committed is gone, open visits stay open."""
        shard, self._shard = self._shard, None
        if shard is not None:
            self._let_go(shard)

    def _let_go(self, shard: Shard) -> None:
        shard.store.close()
        if self._hand is not None:
            self._hand.close()
            self._hand = None

    async def sync(self) -> None:
        """Bring the log to the disk, in a thread: it may take a while."""
        await asyncio.to_thread(self._open_shard.store.sync)

    def in_hand(self, visit: Visit | None) -> None:
        """Leave word of what is worked on."""
        if self._hand is not None:
            self._hand.write(None if visit is None else self._open_shard.id_of(visit.link))

    # -- the verbs ---------------------------------------------------------------------------------------------

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Accept links, once each."""
        shard = self._open_shard
        before = shard.counts.added
        with shard.step(now):
            adding.add(shard, links, refused, now)
        return shard.counts.added - before

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out what may be visited now."""
        shard = self._open_shard
        with shard.step(now, counts_matter=False):
            return leasing.lease(shard, limit, now)

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits with all that came of them."""
        shard = self._open_shard
        with shard.step(now):
            shard.counts.elapsed += max(0.0, now - self._clock)
            self._clock = max(now, self._clock)
            shard.ledger.mark = mark
            return settling.settle(shard, settlements, now)

    async def next_due(self, now: float) -> float | None:
        """The earliest host clock or retry."""
        return leasing.next_due(self._open_shard, now)

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """The oldest links that wait to be forwarded."""
        shard = self._open_shard
        start = number8(after + 1) if after else shard.first_out
        rows = list(islice(shard.store.scan("outbox", start, b"\xff" * 9), limit))
        if rows and not after:
            shard.first_out = rows[0][0]
        return [(number_of(key), decode_link(packed)) for key, packed in rows]

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Forget what its owner has."""
        shard = self._open_shard
        with shard.step(self._clock):
            for key in map(number8, ids):
                if shard.batch.get("outbox", key) is not None:
                    shard.batch.delete("outbox", key)
                    shard.counts.outbox -= 1

    async def reopen(self, mark: Mark, now: float) -> int:
        """Pages that the archive has lost are pending again."""
        shard = self._open_shard
        with shard.step(now):
            return recovery.reopen(shard, mark)

    async def fetch_again(self, lost: Callable[[Page], bool], now: float) -> int:
        """Pages of which something is lost are pending again; says how many."""
        shard = self._open_shard
        with shard.step(now):
            return recovery.fetch_again(shard, lost)

    # -- what its owner knows better ---------------------------------------------------------------------------

    def statistics(self) -> dict[str, dict[str, float]]:
        """Caches and filters in numbers."""
        shard = self._open_shard
        return shard.seen.statistics() | {
            "hosts": shard.hosts.statistics(),
            "queue": shard.queue.statistics(),
            "agenda": shard.agenda.statistics(),
        }

"""One shard in PostgreSQL, held under one epoch: the `Store` port.

Every verb is one statement, so one round trip and one transaction, shared with the same verb of the worker's other
shards (`round_trips`). A write changes the owner's row if the epoch is still ours, and everything else only if that
happened (`sql/write.sql`). A load returns one row for each shard, with arrays of whole rows.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec.structs import replace

from skitter.backends.postgres import columns
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.round_trips import RoundTrips
from skitter.backends.postgres.statements import Texts
from skitter.frontier.crashes import Suspicion
from skitter.frontier.names import hash16
from skitter.frontier.rows import Batch, Found, HostRow, Meta, Opening, PageRow, UrlRow, Wanted
from skitter.ports import EngineError, Fenced
from skitter.runtime.metrics import StoreMetrics
from skitter.schedule.learning.learned import Learned

_AT_ONCE = 1000  # rows an iterator holds
_IDS_AT_ONCE = 5000


class PostgresStore:
    """`skitter.frontier.store.Store` on PostgreSQL. Reading alone needs no epoch, and no shared round trips."""

    def __init__(self, pool: Pool, shard: int, epoch: int = 0, round_trips: RoundTrips | None = None) -> None:
        self._pool = pool
        self._round_trips = round_trips or RoundTrips(pool)
        self._shard = shard
        self._epoch = epoch
        self._texts = Texts(pool.schema, shard)
        self._metrics = StoreMetrics()

    hash_key, secret = staticmethod(hash16), 0

    def domain_prefix(self, domain: str) -> bytes:  # noqa: ARG002  the same for all
        """None: a hash of the key is enough."""
        return b""

    # ------------------------------------------------------------------------------------------------ owner

    async def open(self) -> Opening:
        """Counts and positions, open leases, suspects."""
        self._round_trips.join(self._shard)
        row = await self._read_one("opening")
        suspicions = zip(row["crashes"], row["in_hand"], strict=True)
        return Opening(
            columns.meta_of(*row[:7]),
            dict(zip(row["lease_ids"], map(columns.visit, row["visits"]), strict=True)),
            dict(zip(row["suspect_ids"], (Suspicion(*pair) for pair in suspicions), strict=True)),
        )

    async def write(self, batch: Batch) -> None:
        """Write all of it, or nothing; Fenced if another worker owns the shard."""
        self._metrics.writes += 1
        if not await self._round_trips.write(self._shard, self._epoch, batch):
            raise Fenced(f"shard {self._shard}: epoch {self._epoch} is over")
        self._metrics.rows_written += sum(
            len(part) for part in (batch.urls, batch.hosts, batch.pages, batch.robots, batch.leases)
        )

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        if not wanted:
            return Found()
        self._metrics.reads += 1
        found = await self._round_trips.load(self._shard, wanted)
        self._metrics.rows_read += len(found.urls) + len(found.hosts) + sum(map(len, found.heads))
        return found

    async def sync(self) -> None:
        """Acknowledged writes are already as safe as they can be."""

    # ------------------------------------------------------------------------------------------------ reading

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        return columns.meta_of(*await self._read_one("meta"))

    async def _read_one(self, name: str) -> Any:  # noqa: ANN401
        self._metrics.reads += 1
        row = await self._pool.row(self._texts.one("read", name), {})
        if row is None:
            raise EngineError(
                f"PostgreSQL: the schema {self._pool.schema} has no shard {self._shard}; run `skitter cluster init`"
            )
        return row

    async def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        async for record in self._in_key_order("all_urls", b""):
            yield columns.url_row(record)

    async def ids(self) -> AsyncIterator[Sequence[bytes]]:
        """The ids of every URL, a bounded number at a time."""
        statement, after = self._texts.one("read", "all_ids"), b""
        while True:
            self._metrics.reads += 1
            rows = await self._pool.rows(statement, {"after": after, "limit": _IDS_AT_ONCE})
            found = [row["id"] for row in rows]
            if found:
                yield found
                after = found[-1]
            if len(found) < _IDS_AT_ONCE:
                return

    async def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        async for record in self._in_key_order("all_pages", b""):
            yield columns.page_row(record)

    async def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        async for record in self._in_key_order("all_hosts", ""):
            yield columns.host_row(record)

    async def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        async for record in self._in_key_order("all_learned", ""):
            yield columns.learned(record)

    async def _in_key_order(self, name: str, after: bytes | str) -> AsyncIterator[Any]:
        """Rows in the order of their keys, a bounded number at a time."""
        statement = self._texts.one("read", name)
        while True:
            self._metrics.reads += 1
            records = await self._pool.rows(statement, {"after": after, "limit": _AT_ONCE})
            for record in records:
                yield record
            if len(records) < _AT_ONCE:
                return
            after = records[-1][1]

    def metrics(self) -> StoreMetrics:
        """Round trips, alone or shared with other shards, and rows."""
        return replace(self._metrics)

    async def close(self) -> None:
        """The pool belongs to the worker; nothing is held here."""
        self._round_trips.leave(self._shard)

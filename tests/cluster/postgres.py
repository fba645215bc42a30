"""Schemas of their own for every test, on the real server."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.migrate import drop, migrate, open_pool
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.store import PostgresStore
from skitter.settings import Settings
from skitter.settings.engines import ClusterSettings, PostgresSettings
from tests.engines import Engine

SHARDS = 2


def settings_for(postgres: Engine, **changes) -> Settings:
    """A crawl that nobody else has a part in."""
    options = {"addresses": (f"{postgres.host}:{postgres.port}",), "database": "postgres", "user": "skitter"}
    cluster = ClusterSettings(size="full", name=f"test-{uuid.uuid4().hex[:12]}")
    return Settings(cluster=cluster, postgres=PostgresSettings(**{**options, **changes}))


@contextmanager
def schema(settings: Settings, shards: int = SHARDS) -> Iterator[Settings]:
    """The schema, for as long as the test lasts."""
    asyncio.run(migrate(settings, shards))
    try:
        yield settings
    finally:
        asyncio.run(drop(settings))


def empty(settings: Settings) -> None:
    """As if the schema had just been made, which takes a second."""

    async def clean() -> None:
        async with pool_of(settings) as pool:
            tables = ("urls", "pages", "hosts", "robots", "leases", "suspects", "workers", "learned")
            text = "".join(f'DELETE FROM "{pool.schema}".{table};' for table in tables)
            keep = "owner = '', lease_until = 0, seq = 0, mark_file = '', mark_end = 0, counts = '{}', mail = '{}', "
            keep += "clock = 0, judged_by = ''"
            text += f"UPDATE \"{pool.schema}\".ledger SET words = '';"
            await pool._pool.execute(f'{text} UPDATE "{pool.schema}".shards SET {keep}')

    asyncio.run(clean())


@asynccontextmanager
async def pool_of(settings: Settings) -> AsyncIterator[Pool]:
    pool = await open_pool(settings)
    try:
        yield pool
    finally:
        await pool.close()


class Owner(PostgresStore):
    """A store with a pool of its own, closed with it."""

    async def close(self) -> None:
        await self._pool.close()


async def claim(settings: Settings, shard: int = 0) -> Owner:
    """Take a shard, whoever has it, with connections of its own."""
    pool = await open_pool(settings)
    return Owner(pool, shard, await seize(pool, shard))


async def seize(pool: Pool, shard: int) -> int:
    """The new epoch. The last owner is given up for dead."""
    text = f'UPDATE "{pool.schema}".shards SET lease_until = 0 WHERE shard = $1'
    await pool._pool.execute(text, shard)
    for _ in range(1000):  # a shard that is being written is left for the next try
        for taken in await Claims(pool, uuid.uuid4().hex).take([shard], 1):
            return taken.epoch
    raise AssertionError(f"shard {shard} cannot be taken")

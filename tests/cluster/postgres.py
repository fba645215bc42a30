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
    """Take a shard, whoever has it: the last owner is given up for dead."""
    pool = await open_pool(settings)
    name = f'"{settings.cluster.name}"'
    await pool._pool.execute(f"UPDATE {name}.shards SET lease_until = 0 WHERE shard = $1", shard)
    [taken] = await Claims(pool, uuid.uuid4().hex).take([shard], 1)
    return Owner(pool, shard, taken.epoch)

"""A million roots: a heartbeat stays small, and a worker that joins reads them once, in bounded memory."""

import asyncio
import statistics
import time
from pathlib import Path

import pytest

from skitter.backends.postgres.claims import Claims as PostgresClaims
from skitter.backends.redis.claims import RedisClaims, prepare
from skitter.backends.redis.client import Client
from skitter.cluster.ports import Claims
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.settings import ScopeSettings, Settings
from tests.cluster import postgres, redis
from tests.cluster.postgres import pool_of, schema
from tests.cluster.redis import cleaned
from tests.engines import engine

MANY = 1_000_000
_RENEWAL = 0.05  # seconds
_BYTES = 300  # of memory for a root


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def join(claims: Claims, kind: str) -> tuple[float, int]:
    """Read every root into a scope, as a worker does; seconds, and bytes of memory."""
    settings = Settings(scope=ScopeSettings(kind=kind))
    judge = LinkJudge(settings, Scope(settings.scope))
    before, began, at = resident(), time.perf_counter(), 0
    while (found := await claims.roots(at, 5_000))[0]:
        judge.widen_all(found[0])
        at = found[1]
    return time.perf_counter() - began, resident() - before


async def measure(claims: Claims, engine_name: str) -> None:
    began = time.perf_counter()
    for start in range(0, MANY, 5_000):
        await claims.add_roots(
            [f"https://www.site-{number}.example/start" for number in range(start, start + 5_000)]
        )
    added = time.perf_counter() - began
    times = []
    for _ in range(30):
        began = time.perf_counter()
        seen = await claims.renew({0: 1}, {"rate": 1.0})
        times.append(time.perf_counter() - began)
    typical = statistics.median(times)
    seconds, size = await join(claims, "host")
    print(
        f"{engine_name}: {MANY:,} roots added in {added:.1f} s; a sign of life takes {typical * 1000:.1f} ms"
        f" (longest {max(times) * 1000:.1f}); a worker reads them in {seconds:.1f} s and {size / 2**20:.0f} MiB"
    )
    assert seen.roots >= MANY
    assert typical < _RENEWAL
    assert size < MANY * _BYTES
    await join(claims, "prefix")  # which took for ever


@pytest.mark.soak
def test_a_million_roots_on_postgresql():
    async def scenario(settings: Settings) -> None:
        async with pool_of(settings) as pool:
            await measure(PostgresClaims(pool, "one"), "PostgreSQL")

    with schema(postgres.settings_for(engine("postgres"))) as settings:
        asyncio.run(scenario(settings))


@pytest.mark.soak
def test_a_million_roots_on_redis():
    async def scenario(settings: Settings) -> None:
        client = Client(settings)
        await prepare(client, 1)
        await measure(RedisClaims(client, "one", 1), "Redis")
        await client.close()

    with cleaned(redis.settings_for(engine("redis"))) as settings:
        asyncio.run(scenario(settings))

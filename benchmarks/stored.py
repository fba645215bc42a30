"""Bytes that a cluster's state takes: per waiting URL and per stored page, in PostgreSQL and in Redis.

    python -m benchmarks.cluster bytes [--links 100000] [--hosts 40]

Waiting URLs are added by a worker that makes no requests, ten to a host. Pages are those of the web of
`fleet`, crawled to its end: the total divided by the pages, so a page's own URL, its host and its robots.txt
are included. For PostgreSQL it is what tables, indexes and TOAST take on disk, as the crawl leaves them and
after VACUUM FULL; for Redis it is `used_memory`, so nobody else should use that server meanwhile.
"""

import asyncio
import dataclasses
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks import cluster as bench
from benchmarks.webs import FLEET, Served, serving
from skitter.cluster.status import until_finished
from skitter.compose.cluster import joined
from skitter.compose.engines import opened
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.forwarding import owner_of
from skitter.events import Events
from skitter.model import Link
from skitter.settings import Settings

_TABLES = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'r'
"""


async def _of_postgres(settings: Settings, *, packed: bool = False) -> int:
    host, _, port = settings.postgres.addresses[0].partition(":")
    chosen = {"host": host, "port": int(port), "user": settings.postgres.user}
    connection = await asyncpg.connect(**chosen, database=settings.postgres.database)
    try:
        if packed:
            for table in ("urls", "pages", "hosts", "robots"):
                await connection.execute(f"VACUUM FULL {settings.cluster.name}.{table}", timeout=600)
        return int(await connection.fetchval(_TABLES, settings.cluster.name))
    finally:
        await connection.close()


def _of_redis(settings: Settings) -> int:
    """Deleted data is freed in the background: wait until two samples are equal."""
    host, _, port = settings.redis.addresses[0].partition(":")
    seen = -1
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for _ in range(100):
            time.sleep(0.3)
            connection.sendall(b"INFO memory\r\n")
            said = connection.recv(65536).decode()
            used = int(said.partition("\nused_memory:")[2].split()[0])
            pending = int(said.partition("\nlazyfree_pending_objects:")[2].split()[0])
            if not pending and abs(used - seen) < 1000:
                return used
            seen = used
    raise SystemExit("Redis is used by somebody else; measure when it is not")


async def _occupied(settings: Settings) -> int:
    return await _of_postgres(settings) if settings.cluster.size == "full" else _of_redis(settings)


async def _growth(settings: Settings, before: int, things: int) -> dict[str, float]:
    """Bytes for each of so many things."""
    figures = {"bytes": (await _occupied(settings) - before) / things}
    if settings.cluster.size == "full":
        figures["bytes_packed"] = (await _of_postgres(settings, packed=True) - before) / things
    return figures


_SHARDS = (
    2  # each table of each shard starts with a page of 8 KiB or two, which should not distort the figures
)


async def per_waiting_url(size: str, links: int) -> dict[str, float]:
    """Links that a worker has added, without visiting any."""
    with tempfile.TemporaryDirectory() as folder:
        async with bench.cluster(**{"cluster.size": size, "crawl.shards": _SHARDS}) as settings:
            before = await _occupied(settings)
            async with joined(CrawlDirectory(Path(folder) / "worker"), settings, Events()) as worker:
                worker.worker.held.closed = True
                working = asyncio.create_task(worker.run())
                await bench.push(settings, links, links // 10)
                await bench.taken_in(settings, 0, links)
                worker.leave()
                await working
            return {"links": links, **await _growth(settings, before, links)}


async def per_page(size: str, served: Served) -> dict[str, float]:
    """A web crawled to its end."""
    web = {
        "cluster.size": size,
        "crawl.shards": _SHARDS,
        "fetch.allow_private": ["127.0.0.0/8"],
        "politeness.delay": "0s",
        "politeness.per_address": "none",
    }
    with tempfile.TemporaryDirectory() as folder:
        async with bench.cluster(**web) as settings, opened(settings, "") as engines:
            before = await _occupied(settings)
            by_shard: dict[int, list[Link]] = {}
            for url in served.seeds:
                host = url.split("/")[2].partition(":")[0]
                link = Link(url=url, key=url, host=host, seed=True)
                by_shard.setdefault(owner_of(host, _SHARDS), []).append(link)
            await engines.claims.add_roots(served.seeds)
            await engines.forwarding.send(by_shard)
            async with joined(CrawlDirectory(Path(folder) / "worker"), settings, Events()) as worker:
                working = asyncio.create_task(worker.run())
                counts = (await until_finished(engines, settings)).counts
                worker.leave()
                await working
            return {"pages": counts.pages, **await _growth(settings, before, counts.pages)}


def stored(links: int, hosts: int) -> dict[str, Any]:
    """All figures, by the size of the cluster."""
    figures: dict[str, Any] = {}
    with serving(dataclasses.replace(FLEET, hosts=hosts, latency=0.0)) as served:
        for size in ("full", "redis"):
            figures[size] = {
                "waiting_url": asyncio.run(per_waiting_url(size, links)),
                "page": asyncio.run(per_page(size, served)),
            }
    return figures

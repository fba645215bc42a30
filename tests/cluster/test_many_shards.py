"""Thousands of shards: several share a partition of PostgreSQL, and a worker opens some at a time."""

import asyncio

import asyncpg
import pytest

from skitter.backends.postgres import migrate
from skitter.cluster.announce import AnnouncingFrontier
from skitter.cluster.opening import OPENING
from skitter.compose.cluster import joined
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.settings import SettingsError
from skitter.settings.file import load
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, cluster
from tests.crawl.harness import keys


@pytest.fixture(scope="module")
def server():
    """84 pages on 12 hosts."""
    features = Features.plain(foreign_share=0.3)
    with serve_process(SyntheticWeb(seed=41, hosts=12, pages_per_host=7, features=features)) as running:
        yield running


def definitions(settings) -> dict[str, str]:
    """The indexes of one partition of each table, by the name that they have on the table."""

    async def ask() -> dict[str, str]:
        host, port = settings.postgres.addresses[0].split(":")
        chosen = {"host": host, "port": int(port), "user": settings.postgres.user}
        connection = await asyncpg.connect(**chosen, database=settings.postgres.database)
        try:
            rows = await connection.fetch(
                "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = $1", settings.cluster.name
            )
            return {row["indexname"]: row["indexdef"] for row in rows}
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_shards_that_share_partitions_crawl_the_same_pages(tmp_path, server, monkeypatch):
    monkeypatch.setattr(migrate, "_PARTITIONS", 3)
    with cluster(tmp_path, server, crawl__shards=8, **QUICK) as crawl:
        crawl.add(server.seeds())
        crawl.work()
        crawl.work()
        crawl.wait()
        crawl.leave()
        assert crawl.judged().pages == keys(server.truth("any").pages)
        indexes = definitions(crawl.settings)
        assert len([name for name in indexes if name.endswith("_pkey") and name.startswith("urls_0")]) == 3
        # What is read of one shard in an order is found without reading what its neighbours have.
        for name in ("urls_retry", "urls_recrawl", "hosts_agenda"):
            assert "(shard, " in indexes[name]


def test_a_worker_opens_only_so_many_shards_at_once_and_all_of_them(tmp_path, server, monkeypatch):
    """All at once would wait for its few connections, and its signs of life behind them."""
    opening, most = 0, 0
    real = AnnouncingFrontier.open

    async def counted(self, now):
        nonlocal opening, most
        opening += 1
        most = max(most, opening)
        try:
            return await real(self, now)
        finally:
            opening -= 1

    monkeypatch.setattr(AnnouncingFrontier, "open", counted)
    with cluster(tmp_path, server, "redis", crawl__shards=100) as crawl:

        async def work() -> None:
            async with joined(CrawlDirectory(tmp_path / "alone"), crawl.settings, Events()) as worker:
                working = asyncio.create_task(worker.run())
                while len(worker.worker.held.shards) < 100:
                    assert not working.done()
                    await asyncio.sleep(0.05)
                worker.leave()
                await working

        asyncio.run(work())
    assert 1 < most <= OPENING < 100


def test_a_cluster_may_have_4096_shards_and_one_machine_256(tmp_path):
    cluster_of = {"cluster.size": "full", "crawl.shards": 4096}
    assert load(None, {}, cluster_of).crawl.shards == 4096
    with pytest.raises(SettingsError, match=r"crawl\.shards"):
        load(None, {}, cluster_of | {"crawl.shards": 4097})
    assert load(None, {}, {"crawl.shards": 256}).crawl.shards == 256
    with pytest.raises(
        SettingsError, match=r"crawl\.shards: 257 is too many for one machine.* write at most 256"
    ):
        load(None, {}, {"crawl.shards": 257})

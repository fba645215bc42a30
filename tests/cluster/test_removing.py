"""`skitter cluster remove`: a crawl is gone from the engines, its neighbours are not, and nobody is at work meanwhile."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.client import connection
from skitter.backends.redis.client import Client
from skitter.claims import NoCrawl
from skitter.compose.engines import make, opened
from skitter.settings import Settings
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import SIZES, Cluster, cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(seed=5, hosts=4, pages_per_host=5, features=Features.plain(foreign_share=0.3))
    with serve_process(web) as running:
        yield running


def remove(config: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "skitter", "cluster", "remove", "--config", str(config), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ)


def keys(settings: Settings) -> set[bytes]:
    """Everything in Redis that has the crawl's name in it."""

    async def ask() -> set[bytes]:
        client = Client(settings)
        try:
            (found,) = await client.send(lambda: [("KEYS", f"*{settings.cluster.name}*")])
        finally:
            await client.close()
        return set(found)

    return asyncio.run(ask())


def of_kafka(settings: Settings) -> set[str]:
    there = AdminClient(connection(settings.kafka)).list_topics(timeout=10).topics
    return {topic.name for topic in topics.wanted(settings.kafka, 1)} & set(there)


def is_there(settings: Settings) -> bool:
    async def look() -> bool:
        try:
            async with opened(settings, "", looking=True) as engines:
                return bool(await engines.claims.standing())
        except NoCrawl:
            return False

    return asyncio.run(look())


def with_longer_names(settings: Settings) -> Settings:
    named = ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
    kafka = {topic: f"{getattr(settings.kafka, topic)}2" for topic in named}
    return structs.replace(
        settings,
        cluster=structs.replace(settings.cluster, name=f"{settings.cluster.name}2"),
        kafka=structs.replace(settings.kafka, **kafka),
    )


def crawled(crew: Cluster, server) -> None:
    crew.add(server.seeds())
    crew.work()
    crew.wait()


@pytest.mark.parametrize("size", SIZES)
def test_a_crawl_is_gone_and_one_with_a_longer_name_is_not(server, tmp_path, size):
    with cluster(tmp_path, server, size, crawl__shards=2) as crew:
        longer = with_longer_names(crew.settings)
        neighbour = tmp_path / "neighbour.toml"
        neighbour.write_text(dump(longer))
        asyncio.run(make(longer))
        crawled(crew, server)
        crew.leave()
        ours = keys(crew.settings) - keys(longer)
        assert ours
        others = keys(longer)

        done = remove(crew.config)
        assert done.returncode == 2
        assert "would be gone for good, with every URL that it knows; say --yes to do it" in done.stderr
        assert is_there(crew.settings)

        done = remove(crew.config, "--yes")
        assert done.returncode == 0, done.stderr
        assert f"Redis: {len(ours)} keys removed" in done.stdout
        assert not is_there(crew.settings)
        assert is_there(longer)
        assert keys(crew.settings) == others
        if size == "full":
            assert f"PostgreSQL: schema {crew.settings.cluster.name} removed" in done.stdout
            assert of_kafka(crew.settings) == set()

        again = remove(crew.config, "--yes")
        assert (again.returncode, "there is no crawl" in again.stdout) == (0, True)
        assert remove(neighbour, "--yes").returncode == 0


def test_nothing_is_removed_while_a_worker_is_at_work(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2, cluster__lease="3s", cluster__renew="500ms") as crew:
        crawled(crew, server)
        (worker,) = crew.workers
        done = remove(crew.config, "--yes")
        assert done.returncode == 1
        assert done.stderr == f"skitter: 1 worker at work; stop them first: {worker.name}\n"
        assert is_there(crew.settings)
        assert len(of_kafka(crew.settings)) == 6
        crew.leave()
        assert remove(crew.config, "--yes").returncode == 0


def test_what_an_engine_kept_while_it_was_away_is_removed_the_next_time(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2) as crew:
        nowhere = structs.replace(
            crew.settings, kafka=structs.replace(crew.settings.kafka, addresses=("127.0.0.1:1",))
        )
        half = tmp_path / "half.toml"
        half.write_text(dump(nowhere))
        done = remove(half, "--yes")
        assert done.returncode == 2
        assert "kafka.addresses" in done.stderr
        assert len(of_kafka(crew.settings)) == 6
        done = remove(crew.config, "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Kafka: topic ") == 6
        assert of_kafka(crew.settings) == set()

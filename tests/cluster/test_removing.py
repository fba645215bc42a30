"""`skitter cluster remove` deletes a crawl from the engines, not its neighbours, and only when nobody works on it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from confluent_kafka.admin import AdminClient
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.client import connection
from skitter.backends.postgres.pool import options
from skitter.backends.redis.client import Client
from skitter.cluster.ports import NoCrawl
from skitter.compose.engines import make, opened
from skitter.ports import EngineError
from skitter.settings import Settings
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.archiving import archiving
from tests.cluster.crawling import SIZES, Cluster, cluster, until

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


def asked(settings: Settings, question: str) -> int:
    """PostgreSQL itself."""

    async def ask() -> int:
        connection = await asyncpg.connect(**options(settings.postgres))
        try:
            return int(await connection.fetchval(question) or 0)
        finally:
            await connection.close()

    return asyncio.run(ask())


@contextmanager
def own_schema(settings: Settings) -> Iterator[str]:
    """A schema of somebody else's."""
    name = f"{settings.cluster.name}_bills"
    asked(settings, f"CREATE SCHEMA {name} CREATE TABLE bills (number integer)")
    try:
        yield name
    finally:
        asked(settings, f"DROP SCHEMA {name} CASCADE")


def crawled(crawl: Cluster, server) -> None:
    crawl.add(server.seeds())
    crawl.work()
    crawl.wait()


@pytest.mark.parametrize("size", SIZES)
def test_removing_a_crawl_keeps_one_with_a_longer_name(server, tmp_path, size):
    with cluster(tmp_path, server, size, crawl__shards=2) as crawl:
        longer = with_longer_names(crawl.settings)
        neighbour = tmp_path / "neighbour.toml"
        neighbour.write_text(dump(longer))
        asyncio.run(make(longer))
        crawled(crawl, server)
        crawl.leave()
        ours = keys(crawl.settings) - keys(longer)
        assert ours
        others = keys(longer)

        done = remove(crawl.config)
        assert done.returncode == 2
        assert "for good, with every URL in it; confirm with --yes" in done.stderr
        assert is_there(crawl.settings)

        done = remove(crawl.config, "--yes")
        assert done.returncode == 0, done.stderr
        assert f"Redis: {len(ours)} keys removed" in done.stdout
        assert not is_there(crawl.settings)
        assert is_there(longer)
        assert keys(crawl.settings) == others
        if size == "full":
            assert f"PostgreSQL: schema {crawl.settings.cluster.name} removed" in done.stdout
            assert of_kafka(crawl.settings) == set()

        again = remove(crawl.config, "--yes")
        assert (again.returncode, "there is no crawl" in again.stdout) == (0, True)
        assert remove(neighbour, "--yes").returncode == 0


def test_nothing_is_removed_while_a_worker_is_at_work(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2, cluster__lease="3s", cluster__renew="500ms") as crawl:
        crawled(crawl, server)
        (worker,) = crawl.workers
        done = remove(crawl.config, "--yes")
        assert done.returncode == 1
        assert done.stderr == f"skitter: 1 worker running; stop them first: {worker.name}\n"
        assert is_there(crawl.settings)
        assert len(of_kafka(crawl.settings)) == 6
        crawl.leave()
        assert remove(crawl.config, "--yes").returncode == 0


def test_nothing_is_removed_while_segments_are_on_a_workers_disk_alone(server, tmp_path):
    with archiving(tmp_path, server) as crawl:
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("doomed", s3__segment_time="1h")
        crawl.cluster("wait")
        (name,) = [each["name"] for each in crawl.status()["workers"]]
        worker.kill()
        worker.wait()

        def refused() -> str:
            done = crawl.skitter("cluster", "remove", "--yes", "--config", crawl.config)
            assert done.returncode == 1, done.stdout
            return str(done.stderr)

        until(lambda: "stop them first" not in refused(), "the leases are over")
        assert f"not in the bucket yet, of {name}; upload them" in refused()
        until(
            lambda: "given up" in crawl.skitter("cluster", "abandon", name, "--config", crawl.config).stdout,
            "the worker is given up",
        )
        assert "removed" in crawl.cluster("remove", "--yes")


def test_a_foreign_schema_and_its_topics_are_not_touched(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2) as crawl, own_schema(crawl.settings) as name:
        other = structs.replace(
            crawl.settings, cluster=structs.replace(crawl.settings.cluster, name=name)
        )  # with the topics of a crawl that is there
        config = tmp_path / "other.toml"
        config.write_text(dump(other))
        done = remove(config, "--yes")
        assert (done.returncode, done.stdout) == (0, f"there is no crawl {name} on these engines\n")
        assert len(of_kafka(crawl.settings)) == 6
        with pytest.raises(EngineError, match=f"the schema {name} is there and is no crawl's"):
            asyncio.run(make(other))
        assert asked(crawl.settings, f"SELECT count(*) FROM {name}.bills") == 0


def test_a_second_crawl_does_not_begin_on_the_topics_of_the_first(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2) as crawl:
        second = structs.replace(
            crawl.settings,
            cluster=structs.replace(crawl.settings.cluster, name=f"{crawl.settings.cluster.name}2"),
        )
        crawl.add(server.seeds())
        with pytest.raises(
            EngineError,
            match=f"Kafka: topics .* by the crawl '{crawl.settings.cluster.name}'; name topics of its own",
        ):
            asyncio.run(make(second))
        assert not is_there(second)
        asyncio.run(make(crawl.settings))  # the first one may be made again


def test_a_crawl_of_the_same_name_has_higher_epochs(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2) as crawl:
        epochs = f"SELECT min(epoch) FROM {crawl.settings.cluster.name}.shards"
        first = asked(crawl.settings, epochs)
        asyncio.run(asyncio.sleep(1.1))
        assert remove(crawl.config, "--yes").returncode == 0
        asyncio.run(make(crawl.settings))
        assert asked(crawl.settings, epochs) > first


def test_a_crawl_being_read_is_removed_afterwards(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2, postgres__timeout="2s") as crawl:

        async def read() -> "subprocess.CompletedProcess[str]":
            connection = await asyncpg.connect(**options(crawl.settings.postgres))
            try:
                async with connection.transaction():
                    await connection.execute(f"LOCK {crawl.settings.cluster.name}.urls IN ACCESS SHARE MODE")
                    return remove(crawl.config, "--yes")
            finally:
                await connection.close()

        done = asyncio.run(read())
        assert done.returncode == 2
        assert f"somebody else reads the schema {crawl.settings.cluster.name}; wait until" in done.stderr
        assert remove(crawl.config, "--yes").returncode == 0
        assert not is_there(crawl.settings)


def test_data_on_an_engine_that_was_away_is_removed_the_next_time(server, tmp_path):
    with cluster(tmp_path, server, crawl__shards=2) as crawl:
        nowhere = structs.replace(
            crawl.settings, kafka=structs.replace(crawl.settings.kafka, addresses=("127.0.0.1:1",))
        )
        half = tmp_path / "half.toml"
        half.write_text(dump(nowhere))
        done = remove(half, "--yes")
        assert done.returncode == 2
        assert "kafka.addresses" in done.stderr
        assert is_there(crawl.settings)
        assert len(of_kafka(crawl.settings)) == 6
        done = remove(crawl.config, "--yes")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Kafka: topic ") == 6
        assert of_kafka(crawl.settings) == set()

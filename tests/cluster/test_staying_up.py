"""Engines go away for longer than anybody's patience, in a running crawl: every worker says so once, `cluster status` shows it,
and when they are back the breakers close and nothing is lost.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.documents import Documents
from skitter.backends.kafka.sending import Sender
from skitter.backends.opensearch.http import Cluster as SearchCluster
from skitter.settings import Settings
from skitter.settings.engines import SearchSettings
from skitter.settings.file import dump
from skitter.testing.contracts.search import entry
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster import kafka
from tests.cluster.archiving import archiving
from tests.cluster.crawling import QUICK, Cluster, until
from tests.cluster.test_chaos import running, small_web
from tests.crawl.harness import keys
from tests.engines import engine, frozen, killed, our_engine

ROOT = Path(__file__).resolve().parents[2]


def is_missed(status: dict[str, Any], name: str) -> bool:
    """Whether the status, and every worker in it, has an engine for away, and knows since when."""
    told = status["engines"][name]
    breakers = [worker["engines"][name] for worker in status["workers"]]
    open_ones = [each for each in breakers if each["breaker"] in ("open", "half-open")]
    if told["up"] or len(open_ones) < len(breakers):
        return False
    assert all(each["since"] for each in breakers)
    assert told["since"] == min(each["since"] for each in breakers)
    return True


def is_back(status: dict[str, Any], name: str) -> bool:
    """Whether everybody is content with an engine."""
    told = status["engines"][name]
    breakers = [worker["engines"][name] for worker in status["workers"]]
    return told["up"] and all(each == {"breaker": "closed", "since": None} for each in breakers)


def seen(crawl: Cluster) -> dict[str, Any]:
    """The status of a cluster in which all workers live."""
    crawl.check_workers()
    return crawl.status()


def assert_said_once(crawl: Cluster, *names: str) -> None:
    for worker in crawl.workers:
        for name in names:
            assert worker.said.count(f"{name} is away since 20") == 1, worker.said
            assert worker.said.count(f"{name} is back after ") == 1, worker.said


def until_said(crawl: Cluster, words: str) -> None:
    until(lambda: all(words in worker.said for worker in crawl.workers), words)


def refused_status(config: Path) -> tuple[str, dict[str, Any], str]:
    """What `cluster status` prints while the engine is away that knows of shards and workers."""
    command = [sys.executable, "-m", "skitter", "cluster", "status", "--config", str(config)]
    shown, listed = (
        subprocess.run([*command, *more], capture_output=True, text=True, check=False, cwd=ROOT)
        for more in ((), ("--json",))
    )
    assert shown.returncode == listed.returncode == 2
    [line] = shown.stderr.splitlines()
    return shown.stdout, json.loads(listed.stdout), line


def test_each_engine_of_a_full_cluster_is_missed_shown_and_found_again(tmp_path):
    for name in ("kafka", "redis", "postgres"):
        our_engine(name)
    with running(tmp_path, small_web(), "full", 2, **QUICK) as (crawl, _server):
        for name, called, trouble in (("kafka", "Kafka", frozen), ("redis", "Redis", killed)):
            with trouble(name):
                until(lambda called=called: is_missed(seen(crawl), called), f"{called} is missed")
                shown = crawl.command("cluster", "status", "--config", crawl.config)
                assert f"{called} open (" in shown or f"{called} half-open (" in shown
                assert any(line.split()[:3] == [called, "away", "since"] for line in shown.splitlines())
                assert "PostgreSQL  up" in shown
            until(lambda called=called: is_back(seen(crawl), called), f"{called} is back")
        with killed("postgres"):
            until_said(crawl, "PostgreSQL is away since ")
            shown, listed, line = refused_status(crawl.config)
            assert "PostgreSQL  away: PostgreSQL: postgres.addresses: no server that takes writes" in shown
            assert "Kafka       up (1 broker)" in shown
            assert (listed["engines"]["PostgreSQL"]["up"], listed["engines"]["Kafka"]["up"]) == (False, True)
            assert (listed["counts"], listed["shards"]) == (None, [])
            assert line.startswith("skitter: PostgreSQL: postgres.addresses: no server that takes writes")
        until_said(crawl, "PostgreSQL is back after ")  # what they told of themselves before would say so too
        until(lambda: is_back(seen(crawl), "PostgreSQL"), "PostgreSQL is back")
        assert_said_once(crawl, "Kafka", "Redis", "PostgreSQL")
        assert "all closed" in crawl.command("cluster", "status", "--config", crawl.config)


@pytest.mark.soak
@pytest.mark.parametrize("trouble", [killed, frozen])
@pytest.mark.parametrize(
    ("size", "name", "called"), [("full", "postgres", "PostgreSQL"), ("redis", "redis", "Redis")]
)
def test_a_truth_that_is_away_is_missed_and_found_again(tmp_path, size, name, called, trouble):
    our_engine(name)
    with running(tmp_path, small_web(), size, 2, **QUICK) as (crawl, _server):
        with trouble(name):
            until_said(crawl, f"{called} is away since ")
            _, listed, _ = refused_status(crawl.config)
            assert listed["engines"][called]["up"] is False
        until_said(crawl, f"{called} is back after ")
        until(lambda: is_back(seen(crawl), called), f"{called} is back")
        assert_said_once(crawl, called)


def test_a_bucket_that_is_away_is_missed_shown_and_found_again(tmp_path):
    our_engine("s3")
    features = Features(foreign_share=0.3)
    with (
        serve_process(SyntheticWeb(seed=9, hosts=10, pages_per_host=8, features=features)) as server,
        archiving(tmp_path, server, politeness__delay="800ms") as crawl,
    ):
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("w", s3__segment_time="1s")
        until(crawl.ground.objects, "a segment is in the bucket")
        with killed("s3"):
            until(lambda: is_missed(crawl.status(), "S3"), "S3 is missed")
        crawl.cluster("wait", "--timeout", "300s")
        until(lambda: is_back(crawl.status(), "S3"), "S3 is back")
        crawl.leave(worker)
        assert crawl.said("w").count("S3 is away since 20") == crawl.said("w").count("S3 is back after ") == 1
        pages = crawl.pages()
        assert {page.key for page in pages if 200 <= page.status < 300} == keys(server.truth("any").pages)
        crawl.check_bucket(pages)


# ------------------------------------------------------------------------------------------------ the index


async def send_pages(settings: Settings, numbers: range) -> None:
    sender = Sender(settings.kafka)
    try:
        await Documents(settings, sender).send([entry(f"https://a.example/{number}") for number in numbers])
    finally:
        await sender.close()


async def indexed(settings: Settings) -> int:
    cluster = SearchCluster(settings.search, "")
    try:
        await cluster.ask("POST", f"/{settings.search.index}/_refresh")
        answer = await cluster.ask("GET", f"/{settings.search.index}/_count")
        return int(answer.body.get("count", 0))
    finally:
        await cluster.close()


def indexing(config: Path, log: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "skitter", "index", "--config", str(config), *more]
    with log.open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, cwd=ROOT)


@pytest.fixture
def feeding(tmp_path):
    """A topic of documents, an index for it, and a settings file that names both."""
    search = engine("opensearch").address
    with kafka.crawl_on(engine("kafka")) as settings:
        asyncio.run(topics.create(settings.kafka, 1))
        index = SearchSettings(addresses=(search,), index=settings.cluster.name)
        name = settings.cluster.name.replace("-", "_")
        cluster = structs.replace(settings.cluster, name=name)
        with_index = structs.replace(settings, search=index, cluster=cluster)
        (tmp_path / "cluster.toml").write_text(dump(with_index))
        yield with_index
        asyncio.run(_forget(with_index))


async def _forget(settings: Settings) -> None:
    cluster = SearchCluster(settings.search, "")
    for kind in ("", "/_index_template"):
        await cluster.ask("DELETE", f"{kind}/{settings.search.index}")
    await cluster.close()


def test_an_index_outage_is_reported_and_all_pages_arrive_afterwards(tmp_path, feeding):
    our_engine("opensearch")
    log = tmp_path / "index.log"
    asyncio.run(send_pages(feeding, range(100)))
    process = indexing(tmp_path / "cluster.toml", log)
    try:
        until(lambda: asyncio.run(indexed(feeding)) == 100, "the first pages are in", every=0.5)
        with killed("opensearch"):
            asyncio.run(send_pages(feeding, range(100, 200)))
            until(lambda: "OpenSearch is away since " in log.read_text(), "OpenSearch is missed")
        until(lambda: asyncio.run(indexed(feeding)) == 200, "all pages are in", every=0.5)
        until(lambda: "OpenSearch is back after " in log.read_text(), "OpenSearch is found again")
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert log.read_text().count("OpenSearch is away since ") == 1, log.read_text()


def test_a_kafka_outage_does_not_look_like_the_end_of_pages(tmp_path, feeding):
    our_engine("kafka")
    log = tmp_path / "index.log"
    asyncio.run(send_pages(feeding, range(100)))
    with frozen("kafka"):
        process = indexing(tmp_path / "cluster.toml", log, "--once")
        until(
            lambda: process.poll() is not None or "Kafka is away since " in log.read_text(), "Kafka is missed"
        )
        assert process.poll() is None, log.read_text()
    assert process.wait(300) == 0, log.read_text()
    assert asyncio.run(indexed(feeding)) == 100
    assert "Kafka is back after " in log.read_text()

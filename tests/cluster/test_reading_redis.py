"""A small cluster, read from a worker's directory: records from Redis, answers from the files that the worker has."""

import asyncio
import json
import signal
import subprocess
import sys
import uuid

import pytest

from skitter.compose.engines import make
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.redis import cleaned
from tests.crawl.harness import keys, settings_for
from tests.engines import engine


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(
        seed=9, hosts=6, pages_per_host=6, features=Features(duplicates=True, foreign_share=0.3)
    )
    with serve_process(web) as running:
        yield running


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "skitter", *map(str, words)]


def skitter(*words: object) -> str:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_a_workers_directory_stands_for_the_whole_crawl(tmp_path, server):
    redis = engine("redis")
    settings = settings_for(
        server,
        cluster__size="redis",
        cluster__name=f"test_{uuid.uuid4().hex[:12]}",
        crawl__shards=3,
        redis__addresses=(f"{redis.host}:{redis.port}",),
        scope__kind="any",
    )
    config, directory = tmp_path / "cluster.toml", tmp_path / "w"
    config.write_text(dump(settings))
    with cleaned(settings):
        asyncio.run(make(settings))
        skitter("cluster", "add", "--config", config, *server.seeds())
        worker = subprocess.Popen(command("work", "-q", "--config", config, "-o", directory))
        try:
            skitter("cluster", "wait", "--config", config, "--timeout", "300s")
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        pages = [
            json.loads(line) for line in skitter("export", directory, "--format", "jsonl", "-q").splitlines()
        ]
        truth = keys(server.truth("any").pages)
        assert keys({page["url"] for page in pages if 200 <= page["status"] < 300}) == truth
        assert all(page["text"] is not None for page in pages)
        assert json.loads(skitter("status", directory, "--json"))["counts"]["pages"] == len(truth)
        told = json.loads(skitter("why", directory, pages[0]["url"], "--json"))
        assert told["page"]["url"] == pages[0]["url"]
        index = skitter("export", directory, "--format", "cdxj", "-q").splitlines()
        assert {json.loads(line.split(" ", 2)[2])["url"] for line in index} >= {page["url"] for page in pages}

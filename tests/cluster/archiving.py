"""A crawl on all engines with its archive in a bucket: settings, commands, and a look into the bucket afterwards."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skitter import urls
from skitter.backends.s3 import SegmentReader
from skitter.compose.engines import opened, unmake
from skitter.frontier import ShardReader
from skitter.model import Page
from skitter.settings import Settings
from skitter.settings.file import dump
from skitter.testing import warc_check
from skitter.testing.web import Server
from tests.crawl.harness import settings_for
from tests.engines import engine
from tests.s3 import Ground, real_ground

_PATIENCE = 300.0  # seconds: a bound for loops, not a promise


class Archiving:
    """A cluster with a bucket."""

    def __init__(self, path: Path, settings: Settings, ground: Ground) -> None:
        self.path, self.settings, self.ground = path, settings, ground
        self.config = path / "cluster.toml"
        self.config.write_text(dump(settings))
        self.environ = os.environ | ground.environ
        self.workers: list[subprocess.Popen[bytes]] = []

    def skitter(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """A command, to its end."""
        command = [sys.executable, "-m", "skitter", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=self.environ)

    def cluster(self, *words: object) -> str:
        """`skitter cluster …`, which must work; what it prints."""
        done = self.skitter("cluster", *words, "--config", self.config)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> Any:
        """What `cluster status` knows."""
        return json.loads(self.cluster("status", "--json"))

    def work(self, name: str, **changes: object) -> "subprocess.Popen[bytes]":
        """A worker in the directory of this name; what it says is in NAME.log."""
        more = [f"--set={key.replace('__', '.')}={value}" for key, value in changes.items()]
        command = [
            sys.executable,
            "-m",
            "skitter",
            "work",
            "--config",
            self.config,
            "-o",
            self.path / name,
            *more,
        ]
        with (self.path / f"{name}.log").open("ab") as log:
            worker = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=self.environ)
        self.workers.append(worker)
        return worker

    def said(self, name: str) -> str:
        return (self.path / f"{name}.log").read_text()

    def leave(self, worker: "subprocess.Popen[bytes]") -> None:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(_PATIENCE) == 0

    def pages(self) -> list[Page]:
        """Every page in the store."""

        async def read() -> list[Page]:
            async with opened(self.settings, "") as engines:
                readers = [ShardReader(engines.store(shard)) for shard in range(engines.shards)]
                return [page for reader in readers async for page in reader.pages()]

        return asyncio.run(read())

    def check_bucket(self, pages: list[Page]) -> None:
        """Every page lies in the bucket where it says, and all of the bucket is as a WARC file should be."""
        files = self.ground.download(self.path / f"bucket-{uuid.uuid4().hex[:8]}")
        assert warc_check.check(*files) == []
        reader = SegmentReader(self.path / "nowhere", self.ground.bucket)
        for page in pages:
            assert page.archive is not None
            assert urls.key(reader.record(page.archive).fields["warc-target-uri"]) == page.key


@contextmanager
def archiving(path: Path, server: Server, **changes: object) -> Iterator[Archiving]:
    """A cluster that nobody else has a part in, gone at the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres, kafka, redis = engine("postgres"), engine("kafka"), engine("redis")
    ground = real_ground(crawl=name)
    own: dict[str, object] = {
        "cluster__size": "full",
        "cluster__name": name,
        "cluster__lease": "2s",
        "cluster__renew": "300ms",
        "crawl__shards": 4,
        "fetch__deadline": "2s",
        "postgres__addresses": (f"{postgres.host}:{postgres.port}",),
        "postgres__database": postgres.parts.path.strip("/"),
        "postgres__user": str(postgres.parts.username),
        "kafka__addresses": (kafka.address,),
        "kafka__documents_partitions": 2,
        "kafka__errors_partitions": 2,
        "redis__addresses": (f"{redis.host}:{redis.port}",),
        "scope__kind": "any",
        "s3__bucket": ground.settings.bucket,
        "s3__endpoint": ground.settings.endpoint,
        "s3__region": ground.settings.region,
        "s3__access_key": ground.settings.access_key,
    }
    for topic in ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters"):
        own[f"kafka__{topic}"] = f"{name}-{topic}"
    settings = settings_for(server, **own | changes)
    crawl = Archiving(path, settings, ground)
    try:
        crawl.cluster("init")
        yield crawl
    finally:
        for worker in crawl.workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        asyncio.run(unmake(settings))


def until(happens: Callable[[], object], what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + _PATIENCE
    while not happens():
        assert time.monotonic() < deadline, f"{what}: not within {_PATIENCE:.0f} seconds"
        time.sleep(0.1)

"""Whole crawls by a cluster: real engines and processes, judged by the web server and the store.

    with cluster(tmp_path, server, crawl__shards=8) as crawl:
        crawl.add(server.seeds())
        first, second = crawl.work(), crawl.work()
        crawl.wait()
        assert crawl.judged(server).pages == keys(server.truth("any").pages)

Every cluster has names of its own on the engines, and nothing is left of it afterwards. Every worker has a user agent of its
own, so that the server's log says who asked.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skitter import urls
from skitter.backends.warc import Reader
from skitter.compose.engines import make, opened, unmake
from skitter.crawl.forwarding import owner_of
from skitter.frontier import ShardReader
from skitter.model import Page, UrlRecord
from skitter.ports import EngineError
from skitter.settings import Settings
from skitter.settings.file import dump, load
from skitter.testing.warc_check import check
from skitter.testing.web import Request, Server
from tests.cluster.redis import judge_lists
from tests.crawl.harness import settings_for
from tests.engines import engine

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0  # seconds: a bound for loops, not a promise
SIZES = ("redis", "full")
DELAY = 0.2

# Leases that a test can wait for. A request has to be over soon, because whoever takes a shard waits for that.
QUICK: dict[str, object] = {
    "cluster__lease": "3s",
    "cluster__renew": "500ms",
    "fetch__deadline": "2s",
}


@dataclass
class Worker:
    """A process of `skitter work`, its directory, and what it says."""

    number: int
    path: Path
    process: "subprocess.Popen[bytes]"
    log: Path
    expected: int | None = None  # how it may end; None: it may not

    @property
    def agent(self) -> str:
        """What the server knows it by."""
        return agent(self.number)

    @property
    def said(self) -> str:
        """Its standard error so far."""
        return self.log.read_text()

    @property
    def name(self) -> str:
        """What the cluster calls it, as soon as it has joined."""
        until(lambda: " has joined " in self.said or self.process.poll() is not None, "the worker joins")
        assert " has joined " in self.said, self.said
        return self.said.split(" has joined ")[0].split()[-1]

    def send(self, sign: int) -> None:
        """A signal."""
        os.kill(self.process.pid, sign)

    def kill(self) -> None:
        """kill -9; returns when it is gone."""
        self.expected = -signal.SIGKILL
        self.send(signal.SIGKILL)
        self.process.wait()

    def leave(self) -> None:
        """Ask it to leave; returns when it is gone."""
        self.expected = 0
        self.send(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.said


def agent(number: int) -> str:
    return f"Skitter/worker{number} (+http://tests.example/)"


@dataclass
class Judged:
    """What is there afterwards."""

    pages: set[str]  # keys of those with 2xx
    records: dict[str, UrlRecord]
    unsettled: (
        int  # answers in the archive that belong to no page: left by workers that were not started again
    )


@dataclass
class Cluster:
    """A crawl on the engines, and the workers that were started for it."""

    settings: Settings
    path: Path
    config: Path
    workers: list[Worker] = field(default_factory=list)
    finished: bool = False

    # -- acting ------------------------------------------------------------------------------------------------

    def command(self, *words: object) -> str:
        """`skitter` in a process of its own; what it prints."""
        done = subprocess.run(_words(*words), capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def say(self, *words: object) -> str:
        """As `command`; what it prints and complains of."""
        done = subprocess.run(_words(*words), capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def add(self, seeds: Sequence[str]) -> None:
        """Bring seeds."""
        file = self.path / "seeds.txt"
        file.write_text("\n".join(seeds))
        self.command("cluster", "add", "--config", self.config, "--seeds", file)

    def change(self, **changes: object) -> str:
        """Change settings for all workers; what the command prints. Those that come later have a file that agrees."""
        values = {name.replace("__", "."): str(value) for name, value in changes.items()}
        words = [f"{name}={value}" for name, value in values.items()]
        said = self.command("cluster", "set", "--config", self.config, *words)
        self.settings = load(self.config, {}, values)
        self.config.write_text(dump(self.settings))
        return said

    def work(self, path: Path | None = None, flags: Sequence[str] = (), **changes: object) -> Worker:
        """One more worker."""
        number = len(self.workers)
        path = path or self.path / f"worker{number}"
        log = self.path / f"worker{number}.log"
        more = [f"--set={name.replace('__', '.')}={value}" for name, value in changes.items()]
        words = _words("work", "--config", self.config, "-o", path, *more, *flags)
        environ = os.environ | {"SKITTER_FETCH_USER_AGENT": agent(number)}
        with log.open("wb") as said:
            process = subprocess.Popen(words, stdout=said, stderr=said, cwd=ROOT, env=environ)
        worker = Worker(number, path, process, log)
        self.workers.append(worker)
        return worker

    def wait(self, code: int = 0) -> str:
        """Until `cluster wait` says that nothing is left to do, or what its exit code says.

        No worker may end before, but those that are expected to.
        """
        words = _words("cluster", "wait", "--config", self.config, "--timeout", f"{PATIENCE:.0f}s")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as waiting:
            try:
                while waiting.poll() is None:
                    self.check_workers()
                    time.sleep(0.1)
                said = waiting.communicate()[0]
                assert waiting.returncode == code, f"{said}\n{self.story()}"
                self.finished = True
                return said
            finally:
                waiting.kill()

    def check_workers(self) -> None:
        """Those that should live do."""
        for worker in self.workers:
            code = worker.process.poll()
            assert code in (None, worker.expected), f"worker {worker.number} ended with {code}: {worker.said}"

    def leave(self) -> None:
        """All that are left go as they should, and without complaint."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.expected = 0
                worker.send(signal.SIGTERM)
        for worker in self.workers:
            worker.process.wait(PATIENCE)
        self.check_workers()
        for worker in self.workers:
            assert "Traceback" not in worker.said, worker.said

    def start_again(self, worker: Worker) -> None:
        """Another life in the directory of a worker that has ended; it leaves at once."""
        again = self.work(worker.path)
        assert again.name
        again.leave()

    # -- looking -----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What `cluster status` knows."""
        found: dict[str, Any] = json.loads(
            self.command("cluster", "status", "--json", "--config", self.config)
        )
        return found

    def shards_of(self, worker: Worker) -> set[int]:
        """What it holds now."""
        return {shard for shard, owner in enumerate(self.owners()) if owner == worker.name}

    def owners(self) -> list[str]:
        """Who has which shard now, by an engine that may have been away a moment ago."""

        async def ask() -> list[str]:
            async with opened(self.settings, "") as engines:
                return [shard.owner for shard in await engines.claims.standing()]

        return asyncio.run(ask())

    def until_shared(self, *workers: Worker) -> None:
        """Until each of these has its shards, give or take one."""
        each = self.settings.crawl.shards // len(workers)
        names = [worker.name for worker in workers]

        def shared() -> bool:
            self.check_workers()
            owners = self.owners()
            return all(owners.count(name) >= each for name in names)

        until(shared, "the shards are shared", every=0.3)

    def links_offered(self) -> int:
        """Links found on pages, repeated ones among them."""

        async def ask() -> int:
            async with opened(self.settings, "") as engines:
                readers = [ShardReader(engines.store(shard)) for shard in range(engines.shards)]
                return sum([sum([page.links_count async for page in reader.pages()]) for reader in readers])

        return asyncio.run(ask())

    def story(self) -> str:
        """What the workers and the engines say, for whoever has to find out."""
        said = [f"worker {worker.number}: {worker.said}" for worker in self.workers]
        return "\n".join([*said, self.command("cluster", "status", "--config", self.config)])

    def judged(self) -> Judged:
        """Read everything back: the store, and the files of every worker."""
        pages, records = asyncio.run(self.read_back())
        assert max(Counter(page.key for page in pages).values(), default=1) == 1
        unsettled = self._judge_archive(pages)
        if self.settings.cluster.size == "redis":
            asyncio.run(judge_lists(self.settings))
        return Judged({page.key for page in pages if 200 <= page.status < 300}, records, unsettled)

    async def read_back(self) -> tuple[list[Page], dict[str, UrlRecord]]:
        """Everything in the store."""
        pages: list[Page] = []
        records: dict[str, UrlRecord] = {}
        async with opened(self.settings, "") as engines:
            for shard in range(engines.shards):
                reader = ShardReader(engines.store(shard))
                pages += [page async for page in reader.pages()]
                records |= {record.key: record async for record in reader.urls()}
        return pages, records

    def _judge_archive(self, pages: Sequence[Page]) -> int:
        """Every page lies where it says, in the directory of one worker, and nowhere else.

        Only who was killed may have left something that nobody settled; it is gone with its next start.
        """
        folders = {worker.path: worker for worker in self.workers}
        files = {file.name: file for path in folders for file in _segments(path)}
        assert len(files) == sum(len(_segments(path)) for path in folders)
        assert len({page.archive for page in pages}) == len(pages)
        for page in pages:
            assert page.archive is not None
            record = Reader(files[page.archive.file].parent).record(page.archive)
            assert urls.key(record.fields["warc-target-uri"]) == page.key
        tidy = {path for path, last in folders.items() if last.expected == 0}
        whole = [file for file in files.values() if file.parents[1] in tidy]
        assert check(*whole) == []
        places = {page.archive for page in pages}
        left = {file: [place for place in _answers(file) if place not in places] for file in files.values()}
        assert {file: answers for file, answers in left.items() if answers and file in whole} == {}
        return sum(map(len, left.values()))


def _segments(path: Path) -> list[Path]:
    return sorted((path / "archive").glob("*.warc.gz"))


def _answers(file: Path) -> Iterator[object]:
    """Where a file holds an answer that is stored as a page; a redirect is no page, nor is a robots.txt wherever it lies."""
    for record in Reader(file.parent).records(file.name):
        kind, status = record.fields.get("warc-type"), record.block[9:10]
        rules = "/robots" in record.fields.get("warc-target-uri", "")
        if kind in ("response", "revisit") and status in (b"2", b"4") and not rules:
            yield record.place


def _words(*words: object) -> list[str]:
    return [sys.executable, "-m", "skitter", *map(str, words)]


# ------------------------------------------------------------------------------------------------ making one


@contextlib.contextmanager
def cluster(path: Path, server: Server | None, size: str = "full", **changes: object) -> Iterator[Cluster]:
    """A cluster for one crawl of the served web, gone at the end with all its workers."""
    settings = cluster_settings(server, size, **changes)
    config = path / "cluster.toml"
    config.write_text(dump(settings))
    asyncio.run(make(settings))
    crawl = Cluster(settings, path, config)
    try:
        yield crawl
    finally:
        for worker in crawl.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        asyncio.run(_forget(settings))


def cluster_settings(server: Server | None, size: str = "full", **changes: object) -> Settings:
    """Settings of a crawl that nobody else has a part in."""
    name, redis = f"test_{uuid.uuid4().hex[:12]}", engine("redis")
    own: dict[str, object] = {
        "cluster__size": size,
        "cluster__name": name,
        "crawl__shards": 8,
        "redis__addresses": (f"{redis.host}:{redis.port}",),
        "scope__kind": "any",
        "politeness__delay": f"{DELAY}s",
    }
    if size == "full":
        own |= _full(name)
    return settings_for(server, **own | changes)


def _full(name: str) -> dict[str, object]:
    postgres, kafka = engine("postgres"), engine("kafka")
    topic_names = ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
    return {
        "postgres__addresses": (f"{postgres.host}:{postgres.port}",),
        "postgres__database": postgres.parts.path.strip("/"),
        "postgres__user": str(postgres.parts.username),
        "kafka__addresses": (kafka.address,),
        "kafka__documents_partitions": 2,
        "kafka__errors_partitions": 2,
        **{f"kafka__{topic}": f"{name}-{topic}" for topic in topic_names},
    }


async def _forget(settings: Settings) -> None:
    for _ in range(100):  # an engine that was in trouble may need a moment
        with contextlib.suppress(EngineError):
            await unmake(settings)
            return
        await asyncio.sleep(0.3)
    await unmake(settings)


# ------------------------------------------------------------------------------------------------ waiting, measuring


def until(happens: Callable[[], object], what: str, every: float = 0.05) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} seconds"
        time.sleep(every)


def until_requests(server: Server, count: int, crawl: Cluster) -> None:
    """Until the server has had so many requests."""

    def enough() -> bool:
        crawl.check_workers()
        return len(server.log()) >= count

    until(enough, f"{count} requests")


def recovered(log: Sequence[Request], since: float, crawl: Cluster, lost: set[int], by: set[str]) -> float:
    """Seconds until hosts of these shards were asked again by these workers."""
    found = [
        request.start - since
        for request in log
        if request.start > since
        and request.agent in by
        and owner_of(request.host, crawl.settings.crawl.shards) in lost
    ]
    return min(found, default=float("nan"))

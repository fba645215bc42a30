"""The limits of a crawl, kept by many workers together: never more pages than were asked for, and not fewer either.

And what a worker does that is short of disk.
"""

import asyncio
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from skitter.cluster.quota import read
from skitter.compose.cluster import joined
from skitter.compose.engines import opened
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.model import Stop
from skitter.testing.web import Features, Server, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, Cluster, Worker, cluster, until

ENOUGH = 83  # pages; no multiple of anything, and fewer than half of what there is


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """About 200 pages on 16 hosts, and some errors between them."""
    features = Features(robots=True, redirects=True, statuses=True, foreign_share=0.3)
    with serve_process(SyntheticWeb(seed=31, hosts=16, pages_per_host=14, features=features)) as running:
        yield running


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """24 pages on 6 hosts, nothing else."""
    with serve_process(SyntheticWeb(seed=32, hosts=6, pages_per_host=4)) as running:
        yield running


@contextmanager
def begun(path, server: Server, size: str, workers: int, **limits: object) -> Iterator[Cluster]:
    """A crawl with limits, and workers that stop at them."""
    with cluster(path, server, size, crawl__shards=8, **QUICK, **limits) as crawl:
        crawl.add(server.seeds())
        for _ in range(workers):
            crawl.work().expected = 3
        yield crawl


def stopped(crawl: Cluster) -> str:
    """What `wait` says; then all that live have left, and said why."""
    said = crawl.wait(code=3)
    for worker in crawl.workers:
        assert worker.process.wait(60) == worker.expected, worker.said
        if worker.expected == 3:
            assert "stopping: " in worker.said
    return said


def stored(crawl: Cluster) -> int:
    counts = crawl.status()["counts"]
    assert counts["pages"] == len(crawl.judged().pages)
    assert counts["leased"] == 0
    return int(counts["pages"])


def in_hand(crawl: Cluster, shards: set[int]) -> int:
    """Pages that these shards may store and have not."""

    async def ask() -> int:
        async with opened(crawl.settings, "") as engines:
            ledger = read(await engines.claims.swap("", ""))
            assert ledger is not None
            stored = {shard.shard: shard.counts.pages for shard in await engines.claims.standing()}
            return sum(
                ledger.allowed[shard].pages - stored[shard] for shard in shards & ledger.allowed.keys()
            )

    return asyncio.run(ask())


def stop_with_some_in_hand(crawl: Cluster, victim: Worker) -> None:
    """Freeze a worker in a moment in which it may store some pages."""
    crawl.until_shared(*crawl.workers)

    def caught() -> bool:
        victim.send(signal.SIGSTOP)
        if in_hand(crawl, crawl.shards_of(victim)):
            return True
        victim.send(signal.SIGCONT)
        return False

    until(caught, "it is allowed some pages")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", [1, 2])
def test_pages_are_counted_over_all_workers_and_exact(tmp_path, server, size, workers):
    with begun(tmp_path, server, size, workers, crawl__max_pages=ENOUGH) as crawl:
        assert f"stopped at a limit: {ENOUGH} pages of {ENOUGH} are stored (crawl.max_pages)" in stopped(
            crawl
        )
        assert stored(crawl) == ENOUGH
        shown = crawl.command("cluster", "status", "--config", crawl.config)
        assert f"limits: {ENOUGH} of {ENOUGH} pages; reached" in shown

        # A worker that joins now has nothing to do; with a higher limit the crawl goes on, and ends as exactly.
        late = crawl.work()
        late.expected = 3
        assert late.process.wait(60) == 3
        assert f"crawl.max_pages = {ENOUGH + 10}, was {ENOUGH}" in crawl.change(crawl__max_pages=ENOUGH + 10)
        again = crawl.work()
        again.expected = 3
        assert again.process.wait(600) == 3
        assert stored(crawl) == ENOUGH + 10


@pytest.mark.parametrize("size", SIZES)
def test_pages_are_exact_also_when_a_worker_is_killed_with_some_in_hand(tmp_path, server, size):
    with begun(tmp_path, server, size, 2, crawl__max_pages=ENOUGH, politeness__delay="1s") as crawl:
        victim = crawl.workers[0]
        stop_with_some_in_hand(crawl, victim)
        victim.kill()
        stopped(crawl)
        assert stored(crawl) == ENOUGH


def test_a_worker_that_was_frozen_for_longer_than_its_lease_stores_nothing_beyond(tmp_path, server):
    with begun(tmp_path, server, "redis", 2, crawl__max_pages=ENOUGH, politeness__delay="1s") as crawl:
        victim = crawl.workers[0]
        stop_with_some_in_hand(crawl, victim)
        until(lambda: victim.name not in crawl.owners(), "its shards are taken")
        victim.send(signal.SIGCONT)
        stopped(crawl)
        assert stored(crawl) == ENOUGH


def test_a_limit_that_keeps_nothing_back_is_none(tmp_path, small):
    everything = len(small.truth("any").pages)
    with begun(tmp_path, small, "redis", 2, crawl__max_pages=everything) as crawl:
        for worker in crawl.workers:
            worker.expected = 0  # as if they had been told to leave when all was done
        assert crawl.wait().startswith(f"finished: {everything} pages, ")
        for worker in crawl.workers:
            assert worker.process.wait(60) == 0, worker.said
        assert stored(crawl) == everything


@pytest.mark.parametrize("size", SIZES)
def test_time_counts_from_the_first_worker_on(tmp_path, server, size):
    with begun(tmp_path, server, size, 1, crawl__max_time="5s", politeness__delay="1s") as crawl:
        first = crawl.workers[0]
        until(lambda: crawl.status()["limits"]["elapsed"] > 0, "it has begun")
        crawl.work().expected = 3
        assert "have passed (crawl.max_time)" in stopped(crawl)
        limits = crawl.status()["limits"]
        assert limits["max_time"] == 5
        assert limits["elapsed"] > 5
        # One that comes later does not begin anew: it does not take a single shard.
        requests = len(server.log())
        late = crawl.work()
        late.expected = 3
        assert late.process.wait(60) == 3
        assert len(server.log()) == requests
        assert first.process.returncode == 3


@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_counted_over_all_workers(tmp_path, server, size):
    """What is in flight comes on top, and what was settled since the last look: much less than the whole."""
    with begun(tmp_path, server, size, 2, crawl__max_bytes="100kB") as crawl:
        assert "are received (crawl.max_bytes)" in stopped(crawl)
        status = crawl.status()
        assert status["counts"]["bytes"] >= 100_000
        assert status["counts"]["queued"] > 0
        assert status["limits"]["reached"]


# ------------------------------------------------------------------------------------------------ the disk


def test_a_worker_whose_disk_is_short_hands_its_shards_over_and_others_finish(tmp_path, small, monkeypatch):
    usage, short = shutil.disk_usage(tmp_path), threading.Event()
    room = {True: 2**19, False: 2**40}
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=room[short.is_set()]))
    with cluster(tmp_path, small, "redis", crawl__shards=8, politeness__delay="1s", **QUICK) as crawl:
        crawl.add(small.seeds())

        async def work() -> tuple[Stop, str]:
            async with joined(CrawlDirectory(tmp_path / "poor"), crawl.settings, Events()) as worker:
                working = asyncio.create_task(worker.run())
                while not worker.worker.held.counts.pages:
                    await asyncio.sleep(0.05)
                short.set()
                return await working, worker.why

        stop, why = asyncio.run(work())
        assert stop is Stop.DISK
        assert why.startswith("only 0 MiB are free on the disk of ")
        assert crawl.owners() == [""] * 8
        status = crawl.status()
        assert (status["workers"], status["counts"]["leased"]) == ([], 0)
        assert status["counts"]["queued"] > 0

        crawl.work()
        crawl.wait()
        crawl.leave()
        assert crawl.status()["counts"]["pages"] == len(small.truth("any").pages)


def test_a_worker_whose_disk_is_short_does_not_begin(tmp_path, server):
    with cluster(tmp_path, server, "redis", **QUICK) as crawl:
        free = shutil.disk_usage(tmp_path).free
        poor = crawl.work(crawl__min_free_disk=2 * free)
        poor.expected = 4
        assert poor.process.wait(60) == 4
        assert "(crawl.min_free_disk); free some space" in poor.said
        assert "Traceback" not in poor.said


def test_a_worker_may_stay_at_the_limit_until_it_is_told_to_end(tmp_path, small):
    """For what starts workers again whatever their exit code: without this they would come and go for ever."""
    with cluster(tmp_path, small, "redis", crawl__shards=2, crawl__max_pages=5, **QUICK) as crawl:
        crawl.add(small.seeds())
        worker = crawl.work(flags=("--stay-at-limit",))
        assert "stopped at a limit" in crawl.wait(code=3)
        until(lambda: "waiting for a signal to exit" in worker.said, "it says that it stays")
        assert worker.process.poll() is None
        assert set(crawl.owners()) == {""}, "it has handed its shards over"
        again = crawl.work(flags=("--stay-at-limit",))  # as after a restart of the machine
        until(lambda: "waiting for a signal to exit" in again.said, "the limit is reached before it begins")
        for each in (worker, again):
            each.expected = 3
            each.send(signal.SIGTERM)
            assert each.process.wait(60) == 3, each.said
        assert crawl.status()["counts"]["pages"] == 5

"""Hosts that share one IP address are limited together, judged by the server's own log."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from skitter import reasons
from skitter.compose import open_reader
from skitter.fleet.processes import COMMAND
from skitter.ports import StateError
from skitter.testing.web import Features, Request, SyntheticWeb, crowds, overlaps, serve_process
from tests.crawl.harness import crawl, crawl_on_this_loop, crawl_with, keys, settings_for

HERE = "127.0.0.1"


def too_early(log: Sequence[Request], delay: float) -> list[int]:
    """Requests that began before their turn, if turns are a delay apart. Any may be late on its way, the first by a turn."""
    starts = sorted(request.start for request in log)
    return [turn for turn, start in enumerate(starts) if start < starts[0] + (turn - 1) * delay]


def neighbours(hosts: int = 200, pages: int = 3) -> SyntheticWeb:
    """Many names on one address."""
    return SyntheticWeb(seed=8, hosts=hosts, pages_per_host=pages, features=Features(links_per_page=4))


@pytest.mark.parametrize("workers", [0, 4], ids=["in one process", "4 workers"])
@pytest.mark.parametrize("limit", [8, 1])
def test_two_hundred_names_on_one_address_share_its_limit(tmp_path, workers, limit):
    with serve_process(neighbours(200 if limit > 1 else 30), latency=0.02) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_address=limit)
        path, starts = tmp_path / "c", server.seeds()
        result = crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    assert crowds(log) == {HERE: limit}
    assert overlaps(log) == []
    counts, put_off = result.report.counts, result.report.metrics.permits.put_off
    print(f"\n{workers} workers, limit {limit}: {put_off / counts.requests:.2f} put off per request")
    assert counts.requests == len(log)  # what was put off is no request


@pytest.mark.soak
@pytest.mark.parametrize("workers", [0, 2, 4], ids=["in one process", "2 workers", "4 workers"])
def test_a_thousand_names_on_one_address_share_its_limit(tmp_path, workers):
    with serve_process(neighbours(1000, 2), latency=0.02) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_address=8)
        path, starts = tmp_path / "c", server.seeds()
        result = crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)
        log, truth = server.log(), server.truth("any")
    assert len({request.host for request in log}) == 1000
    assert result.keys == keys(truth.pages)
    assert crowds(log) == {HERE: 8}
    assert overlaps(log) == []


@pytest.mark.parametrize("workers", [0, 4], ids=["in one process", "4 workers"])
def test_requests_to_one_address_begin_apart_if_that_is_asked_for(tmp_path, workers):
    delay = 0.25
    with serve_process(neighbours(10, 2), latency=1.0) as server:
        settings = settings_for(server, scope__kind="any", politeness__address_delay=f"{delay}s")
        path, starts = tmp_path / "c", server.seeds()
        result = crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    assert too_early(log, delay) == []
    assert crowds(log)[HERE] > 2  # they still overlap


def test_a_fleet_with_a_worker_killed_in_the_middle_keeps_the_limit_and_uses_it(tmp_path):
    with serve_process(neighbours(60, 8), latency=0.05) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_address=6)
        path = tmp_path / "c"
        killed = []

        def kill_again_and_again() -> None:
            for _ in range(3):
                seen = len(server.log())
                while len(server.log()) < seen + 60:
                    time.sleep(0.02)
                (victim, *_) = children()
                os.kill(victim, signal.SIGKILL)
                killed.append(time.time())

        killing = threading.Thread(target=kill_again_and_again)
        killing.start()
        result = crawl_with(2, path, server.seeds(), settings, command=[*COMMAND])
        killing.join()
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    assert len(killed) == 3
    assert crowds(log)[HERE] == 6
    after = [request for request in log if request.start > killed[-1] + 1]
    assert crowds(after)[HERE] == 6, "the permits of the dead are lost"


def children() -> list[int]:
    """The workers: processes that this one has started."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        found += (task / "children").read_text().split()
    return [int(pid) for pid in found if b"fleet_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_why_says_that_the_address_is_busy(tmp_path):
    """While a crawl runs, for a page whose turn has not come."""
    path = tmp_path / "c"
    with serve_process(neighbours(12, 6), latency=0.2) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_address=1)

        async def look() -> set[str]:
            told: set[str] = set()

            async def ask() -> None:
                while not told:
                    await asyncio.sleep(0.3)
                    told.update(await waiting_for(path))

            asking = asyncio.create_task(ask())
            await crawl_on_this_loop(path, server.seeds(), settings)
            asking.cancel()
            return told

        assert asyncio.run(look()) == {reasons.ADDRESS_BUSY}


async def waiting_for(path) -> set[str]:
    """Why pages wait, as a reader sees it while the crawl runs."""
    try:
        reader = open_reader(path)
    except (StateError, OSError):
        return set()
    try:
        return {record.reason.code async for record in reader.frontier.urls() if record.reason is not None}
    finally:
        await reader.close()

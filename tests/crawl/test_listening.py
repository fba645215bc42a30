"""The delay that listens, against a real server, across `kill -9`. The waits are a tenth as long as the usual ones."""

import asyncio
import os
import signal
import time
from itertools import pairwise

import pytest

from skitter.compose import open_reader
from tests.crash.test_kill import start
from tests.crawl.harness import HASTY
from tests.fetching import ok, run, serving

FIRST = 0.1  # politeness.adaptive_first
REFUSALS = 7
PRECISION = 0.01  # of two clocks: the crawler's end of an answer is later than the server's


@pytest.mark.parametrize("workers", [0, 2], ids=["in one process", "2 workers"])
def test_refusals_count_across_kill_9_and_seven_are_followed_by_sixty_four_times_the_first_wait(
    tmp_path, workers
):
    refused = []  # (start, end) of each request that was refused

    async def talk(server, reader, writer):
        while head := await server.hear(reader):
            began, path = time.time(), head.split()[1].decode()
            if path == "/robots.txt":
                writer.write(ok(b"", status=b"404 Not Found"))
            elif path == "/":
                links = b"".join(b"<a href='/%d'>x</a>" % number for number in range(40))
                writer.write(ok(links, b"Content-Type: text/html"))
            else:
                writer.write(ok(b"", status=b"429 Too Many Requests"))
                refused.append((began, time.time()))

    def plan(server):
        overrides = dict(HASTY) | {
            "politeness.adaptive": True,
            "politeness.adaptive_first": f"{FIRST}s",
            "politeness.adaptive_jitter": 0,
            "schedule.retry_base": "1ms",  # else every 429 stops the host for half a minute besides
        }
        path, starts = str(tmp_path / "c"), [server.url("/")]
        return {"path": path, "starts": starts, "overrides": overrides, "workers": workers}

    async def crawl_until(server, number):
        """Crawl until so many refusals, and a part of the wait that is owed then; and die."""
        child = await asyncio.to_thread(start, plan(server))
        try:
            while len(refused) < number:
                assert child.poll() is None, child.stderr.read()
                await asyncio.sleep(0.01)
            await asyncio.sleep(min(2.0, FIRST * 2 ** (number - 2)))
        finally:
            os.kill(child.pid, signal.SIGKILL)
            await asyncio.to_thread(child.communicate, timeout=60)

    async def main():
        async with serving(talk) as server:
            for number in (4, REFUSALS, REFUSALS + 1):
                await crawl_until(server, number)
        reader = open_reader(tmp_path / "c")
        try:
            return await reader.frontier.host("127.0.0.1")
        finally:
            await reader.close()

    host = run(main())
    gaps = [after[0] - before[1] for before, after in pairwise(refused)]
    owed = [FIRST * 2**number for number in range(len(gaps))]
    assert [gap for gap, least in zip(gaps, owed, strict=True) if gap < least - PRECISION] == []
    assert gaps[REFUSALS - 1] >= 64 * FIRST - PRECISION
    assert host.pace.doubled == len(refused) == REFUSALS + 1
    assert host.delay == pytest.approx(128 * FIRST)

"""Kills by the hundred: a worker, the parent, or everybody at the same moment. Judged by the server's log and the archive."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve_process
from skitter.testing.web.log import gaps, overlaps
from tests.crash.test_fleet_kill import kill, workers_of
from tests.crash.test_kill import CONCURRENCY, ROOT, check_after_kills

DELAY = 1.0  # seconds; longer than a new start takes, so that a forgotten host would show
_SLACK = 0.02  # seconds by which the server may see a gap shorter than the crawler kept it
_KILLS_IN_A_CRAWL = 60
_WAYS = ("worker", "worker", "parent", "everybody", "everybody")


class Starter:
    """A process that starts the same crawl again and again."""

    def __init__(self, process):
        self._process = process

    def start(self):
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def code(self):
        """What the crawl came to; waits for it."""
        return int(self._process.stdout.readline())


@contextmanager
def starter(*words, errors):
    command = [sys.executable, "-m", "tests.crash.starter", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process:
        yield Starter(process)


def command_for(server, path, workers):
    resolve = [f"--resolve={host}:{address}" for host, address in server.web.resolve_map().items()]
    return [
        "crawl", *server.seeds(), "-o", str(path), f"--workers={workers}", f"--concurrency={CONCURRENCY}",
        "--scope=any", f"--delay={DELAY}s", "--per-address=none", "--allow-private=127.0.0.0/8", "--set=crawl.min_free_disk=1MiB",
        "--set=schedule.retry_base=50ms", "--quiet", *resolve,
    ]  # fmt: skip


def strike(parent, way, dice):
    """Kill. Says whether there was somebody to kill, and whether the crawl is over, by this or by itself."""
    workers = workers_of(parent)
    if not workers and not Path(f"/proc/{parent}/exe").exists():
        return False, True
    if way == "worker":
        return bool(workers) and kill(dice.choice(workers)), False
    if way == "parent":
        return kill(parent), True
    struck = [kill(pid) for pid in (parent, *workers)]
    return any(struck), True


def size_of(log):
    """It grows with every request."""
    return sum(file.stat().st_size for file in log.glob("requests-*"))


def killed_again_and_again(starting, dice, kills, log):
    """Kill a crawl so often, or until it is over before its killer comes; then let it come to its end. Kills by way."""
    done = Counter()
    parent, code = starting.start(), None
    while done.total() < kills and code is None:
        had, deadline = size_of(log), time.monotonic() + 60
        while size_of(log) == had and time.monotonic() < deadline and Path(f"/proc/{parent}/exe").exists():
            time.sleep(0.005)  # a kill before anything was asked proves nothing
        time.sleep(dice.uniform(0.0, 0.3))
        way = dice.choice(_WAYS)
        struck, over = strike(parent, way, dice)
        done[way] += bool(struck)
        if over:
            code = starting.code()
            if code == -signal.SIGKILL:
                parent, code = starting.start(), None
    if code is None:
        code = starting.code()
    return done, code


def one_crawl(folder, seed, kills):
    dice = random.Random(seed)
    workers = dice.choice([1, 2, 4])
    web = SyntheticWeb(
        seed=seed, hosts=100, pages_per_host=8, features=Features(page_bytes=2000, foreign_share=0.2)
    )
    path = folder / f"crawl{seed}"
    with serve_process(web, latency=0.02) as server, (folder / "errors").open("wb") as errors:
        with starter(*command_for(server, path, workers), errors=errors) as starting:
            done, code = killed_again_and_again(starting, dice, kills, path / "log")
        assert code == 0, (folder / "errors").read_text()[-2000:]
        log = server.log()
        repeated = check_after_kills(server, path, done.total(), workers)
    shortest = min(gap for host in gaps(log).values() for gap in host)
    assert shortest >= DELAY - _SLACK
    assert overlaps(log) == []
    shutil.rmtree(path)
    print(
        f"{workers} workers: {dict(done)}, {repeated} requests repeated, shortest gap {shortest:.3f} s",
        flush=True,
    )
    return done


def rounds(folder, kills, seed):
    done = Counter()
    while done.total() < kills:
        more = one_crawl(folder, seed + done.total(), min(_KILLS_IN_A_CRAWL, kills - done.total()))
        assert more, "the crawl ends before anybody is killed"
        done += more
    return done


def test_kills_of_workers_of_the_parent_and_of_everybody_lose_nothing_and_shorten_no_gap(tmp_path):
    assert rounds(tmp_path, kills=15, seed=7).total() == 15


@pytest.mark.soak
def test_a_thousand_kills_of_workers_of_the_parent_and_of_everybody_lose_nothing(tmp_path):
    done = rounds(tmp_path, kills=1000, seed=5000)
    assert min(done[way] for way in _WAYS) >= 100

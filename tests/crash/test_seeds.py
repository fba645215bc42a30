"""Seed intake interrupted again and again, by Ctrl-C or `kill -9`: all seeds are stored in the end."""

import asyncio
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

from skitter.compose import open_reader
from skitter.testing.web import SyntheticWeb, serve_process
from tests.crash.test_fleet_kill import kill, workers_of
from tests.crash.test_kill import ROOT

PYTHON = """
import sys, skitter
urls = open(sys.argv[1]).read().split()
for page in skitter.crawl(*urls, directory=sys.argv[2], delay="300s", allow_private=["127.0.0.0/8"], resolve=sys.argv[3:]):
    pass
"""


@pytest.fixture(scope="module")
def server():
    with serve_process(SyntheticWeb(seed=3, hosts=8, pages_per_host=3)) as running:
        yield running


class Crawl:
    """A crawl of many seeds that fetches next to nothing: the hosts are asked every five minutes."""

    def __init__(self, server, tmp_path, way, number):
        hosts = [seed.rstrip("/") for seed in server.seeds()]
        self.urls = [f"{hosts[one % len(hosts)]}/made/up/{one}" for one in range(number)]
        self.path = tmp_path / "c"
        self.file = tmp_path / "urls.txt"
        self.file.write_text("".join(f"{url}\n" for url in self.urls))
        self._resolve = [f"{host}:{address}" for host, address in server.web.resolve_map().items()]
        self._way = way

    def start(self):
        """The first time with the seeds, from then on without."""
        resolve = [f"--resolve={one}" for one in self._resolve]
        polite = ["--delay=300s", "--allow-private=127.0.0.0/8", "--set=crawl.min_free_disk=1MiB", "--quiet"]
        command = [sys.executable, "-m", "skitter"]
        given = ["-"] if self._way == "pipe" else [str(self.file)]
        if self._way == "python":
            urls = "/dev/null" if self.path.exists() else str(self.file)
            command = [sys.executable, "-c", PYTHON, urls, str(self.path), *self._resolve]
        elif self.path.exists():
            command += ["resume", str(self.path), "--quiet"]
        else:
            command += ["crawl", "-o", str(self.path), "--workers=2", "--seeds", *given, *polite, *resolve]
        feeding = contextlib.nullcontext()
        if self._way == "pipe" and "crawl" in command:
            feeding = subprocess.Popen(["/bin/cat", str(self.file)], stdout=subprocess.PIPE)
        with feeding as pipe:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL if pipe is None else pipe.stdout,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )

    def wait_until_copied(self, child):
        """Until the crawl is there, with its seeds: who ends it before is told that there is none."""
        while not (self.path / "crawl.toml").exists() or not (self.path / "seeds" / "000001").exists():
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.01)

    def wait_until_taken(self, child):
        """Until the directory is in its hands. An interrupt of an interpreter that is still loading says nothing about seeds."""
        while (self.path / "lock").read_text() != f"{child.pid}\n":
            assert child.poll() is None, child.stderr.read()
            time.sleep(0.01)

    def left(self):
        return sorted(path.name for path in (self.path / "seeds").iterdir())

    def stored(self):
        async def read():
            reader = open_reader(self.path)
            found = [record.url async for record in reader.frontier.urls()]
            await reader.close()
            return found

        return asyncio.run(read())


def end(child, sign):
    """Interrupt it as a person would, or end it and its workers at the same moment."""
    workers = workers_of(child.pid)
    if sign is signal.SIGINT:
        os.kill(child.pid, sign)
    else:
        for pid in (child.pid, *workers):
            kill(pid)
    _, errors = child.communicate(timeout=300)
    assert child.returncode in (-signal.SIGKILL, -signal.SIGINT, 1, 130), errors
    return child.returncode


def interrupted_intake(server, tmp_path, way, number, times, longest):
    """Interrupt an intake so often, and let it come to its end. How often it was not at its end yet; its memory; its time."""
    dice, crawl, early, began = (
        random.Random(number),
        Crawl(server, tmp_path, way, number),
        0,
        time.monotonic(),
    )
    for time_number in range(times):
        child = crawl.start()
        if not time_number:
            crawl.wait_until_copied(child)
        time.sleep(dice.uniform(0.0, longest))
        sign = signal.SIGINT if time_number % 2 and way != "python" else signal.SIGKILL
        if sign is signal.SIGINT:
            crawl.wait_until_taken(child)
        assert child.poll() is None, child.stderr.read()
        end(child, sign)
        early += bool(crawl.left())
    child = crawl.start()
    deadline = time.monotonic() + 600
    while crawl.left() and time.monotonic() < deadline:
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.05)
    took = time.monotonic() - began
    end(child, signal.SIGKILL)
    found = crawl.stored()
    made_up = [url for url in found if "/made/up/" in url]
    assert len(made_up) == len(set(made_up)) == number
    assert set(made_up) == set(crawl.urls)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(
        f"{way}: {number} seeds, {times} interruptions, {early} of them before the end; {took:.1f} s; {memory} MiB at most"
    )
    return early


@pytest.mark.parametrize("way", ["file", "pipe", "python"])
def test_seeds_of_an_interrupted_intake_are_all_stored(server, tmp_path, way):
    assert interrupted_intake(server, tmp_path, way, number=20_000, times=3, longest=0.6)


@pytest.mark.soak
def test_a_million_seeds_survive_five_interrupted_intakes(server, tmp_path):
    assert interrupted_intake(server, tmp_path, "file", number=1_000_000, times=5, longest=8.0) == 5

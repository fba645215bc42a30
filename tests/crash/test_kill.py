"""`kill -9` at any moment loses nothing, stores nothing twice, and blames no innocent page."""

import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from skitter.model import State
from skitter.settings import CrawlSettings
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crash.child import POINTS
from tests.crawl.harness import HASTY, archives, keys, read_back
from tests.warc_readers import assert_all_readers_agree

ROOT = Path(__file__).resolve().parents[2]
CONCURRENCY = 40


def plan_for(server, path, **more):
    resolve = [f"{host}:{address}" for host, address in server.web.resolve_map().items()]
    overrides = dict(HASTY) | {
        "scope.kind": "any",
        "fetch.resolve": resolve,
        "crawl.concurrency": CONCURRENCY,
    }
    overrides |= more.pop("overrides", {})
    return {"path": str(path), "starts": server.seeds(), "overrides": overrides} | more


def start(plan):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.child", json.dumps(plan)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_until_it_ends(plan):
    child = start(plan)
    _, errors = child.communicate(timeout=300)
    assert child.returncode in (0, -signal.SIGKILL), errors
    return child.returncode


def kill_after(plan, seconds):
    """Kill from outside, this long after the crawl says that it runs; it may have ended by then."""
    child = start(plan)
    assert child.stdout.readline() in ("running\n", "")
    time.sleep(seconds)
    if child.poll() is None:
        os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)
    return child.returncode


def state_of(path):
    return asyncio.run(read_back(path, report=None, heard=[]))


def archived_targets(path):
    """How often each URL has an answer in the archive; every record of every file is read, by three readers."""
    files = archives(path)
    assert_all_readers_agree(*files)
    answers = Counter()
    for file in files:
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type in ("response", "revisit"):
                    answers[record.rec_headers.get_header("WARC-Target-URI")] += 1
    return answers


def check_after_kills(server, path, kills, workers=1):
    truth = server.truth("any")
    left = state_of(path)
    assert left.keys == keys(truth.pages)
    innocent = [record.url for record in left.records.values() if record.state is State.FAILED]
    assert innocent == []
    answers = archived_targets(path)
    expected = {page.url for page in left.pages}
    once = {url: count for url, count in answers.items() if not url.endswith("/robots.txt")}
    assert {url for url, count in once.items() if count != 1} == set()
    assert set(once) == expected
    asked = Counter((request.host, request.page) for request in server.log())
    repeated = sum(count - 1 for (_, page), count in asked.items() if page != "/robots.txt")
    assert repeated <= kills * (CONCURRENCY + workers * CrawlSettings().commit_visits)
    return repeated


def deaths(seed):
    """A seeded mix without end: every other one inside a commit, at each of its points in turn, the rest at any time."""
    dice = random.Random(seed)
    for number in itertools.count():
        if number % 2:
            yield {"commit": dice.randint(1, 25), "point": POINTS[(number // 2) % len(POINTS)]}
        else:
            yield dice.uniform(0.0, 0.6)


def crawl_killed_again_and_again(server, path, seed, kills):
    """Kill a crawl so often, or until it ends before its killer comes; then let it end. (kills, inside a commit)"""
    killed = inside = 0
    for death in itertools.islice(deaths(seed), kills):
        plan = plan_for(server, path)
        at_a_time = isinstance(death, float)
        code = kill_after(plan, death) if at_a_time else run_until_it_ends(plan | {"die_at": death})
        if code == 0:
            break
        killed += 1
        inside += not at_a_time
    assert run_until_it_ends(plan_for(server, path)) == 0
    return killed, inside


def rounds(tmp_path, kills, seed):
    """Crawls of 2,000 pages and more on 40 hosts, killed up to eight times each, until there were so many kills."""
    total = inside = 0
    for number in range(kills):
        web = SyntheticWeb(
            seed=seed + number,
            hosts=40,
            pages_per_host=52,
            features=Features(page_bytes=2000, foreign_share=0.2),
        )
        path = tmp_path / f"crawl{number}"
        with serve_process(web) as server:
            assert len(server.truth("any").pages) >= 2000
            killed, within = crawl_killed_again_and_again(server, path, seed + number, min(8, kills - total))
            repeated = check_after_kills(server, path, killed)
        shutil.rmtree(path)
        total, inside = total + killed, inside + within
        print(f"crawl {number}: {killed} kills, {within} inside a commit; {repeated} requests repeated")
        if total >= kills:
            break
    return total, inside


def test_twenty_kills_lose_nothing(tmp_path):
    total, inside = rounds(tmp_path, kills=20, seed=100)
    assert total == 20
    assert inside >= 6


@pytest.mark.soak
def test_a_hundred_kills_lose_nothing(tmp_path):
    total, inside = rounds(tmp_path, kills=100, seed=1000)
    assert total == 100
    assert inside >= 30


def test_a_page_that_kills_the_process_is_set_aside_and_the_crawl_ends(tmp_path):
    web = SyntheticWeb(
        seed=5, hosts=6, pages_per_host=10, features=Features(poison="hemlock and more hemlock")
    )
    with serve_process(web) as server:
        plan = plan_for(server, tmp_path / "c", poison="hemlock and more hemlock")
        runs = 0
        while run_until_it_ends(plan) != 0:
            runs += 1
            assert runs < 10, "the crawl never ends"
        truth = server.truth("any")
    left = state_of(tmp_path / "c")
    aside = [record for record in left.records.values() if record.state is State.FAILED]
    assert [record.reason.code for record in aside] == ["crash"]
    assert left.keys == keys(truth.pages) - {aside[0].key}
    assert runs == 3

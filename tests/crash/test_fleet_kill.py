"""A fleet under fire: any worker, any number of times, inside a commit and outside, and the parent too."""

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

from skitter.model import State
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crash.child import POINTS
from tests.crash.test_kill import check_after_kills, plan_for, run_until_it_ends, start, state_of
from tests.crawl.harness import keys


def workers_of(parent):
    """The processes that a process has started."""
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except OSError:
        return []


def kill(pid):
    """Whoever has just ended by himself is no longer there to be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def wait_until_at_work(server, parent):
    """Until some requests were made, or the crawl is over: a kill before that proves nothing."""
    wanted = len(server.log()) + 30
    while len(server.log()) < wanted and parent.poll() is None:
        time.sleep(0.02)


def under_fire(server, plan, seed, kills):
    """Kill workers and now and then the parent, until it is enough or the crawl is over; then let it end."""
    dice = random.Random(seed)
    killed = parents = 0
    while killed < kills:
        parent = start(plan)
        assert parent.stdout.readline() == "running\n"
        while parent.poll() is None and killed < kills:
            wait_until_at_work(server, parent)
            time.sleep(dice.uniform(0.0, 0.2))
            if dice.random() < 0.25:
                parents += kill(parent.pid)
                killed += 1
            elif workers := workers_of(parent.pid):
                killed += kill(dice.choice(workers))
        _, errors = parent.communicate(timeout=300)
        assert parent.returncode in (0, -signal.SIGKILL), errors
        if parent.returncode == 0:
            break
    assert run_until_it_ends(plan) == 0
    return killed, parents


def fire(tmp_path, workers, seed, kills):
    web = SyntheticWeb(
        seed=seed, hosts=40, pages_per_host=52, features=Features(page_bytes=2000, foreign_share=0.2)
    )
    path = tmp_path / f"crawl{seed}"
    with serve_process(web) as server:
        plan = plan_for(server, path, workers=workers)
        killed, parents = under_fire(server, plan, seed, kills)
        repeated = check_after_kills(server, path, killed, workers)
    print(f"{workers} workers: {killed} kills, {parents} of the parent; {repeated} requests repeated")
    return killed, parents


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_kills_of_workers_and_of_the_parent_lose_nothing(tmp_path, workers):
    killed, _ = fire(tmp_path, workers, seed=200 + workers, kills=8)
    assert killed >= 4


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_hundred_kills_of_a_fleet_lose_nothing(tmp_path, workers):
    killed = parents = 0
    for number in itertools.count():
        more, of_parents = fire(tmp_path, workers, seed=1000 * workers + number, kills=8)
        killed, parents = killed + more, parents + of_parents
        if killed >= 100:
            break
    assert parents >= 10


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_in_a_commit_is_restarted_and_the_crawl_continues(tmp_path, point):
    web = SyntheticWeb(seed=31, hosts=20, pages_per_host=25, features=Features(foreign_share=0.2))
    with serve_process(web) as server:
        dying = {"commit": 7, "point": point, "once": str(tmp_path / "dead")}
        plan = plan_for(server, tmp_path / "c", workers=2, die_at=dying)
        assert run_until_it_ends(plan) == 0
        assert (tmp_path / "dead").exists()
        check_after_kills(server, tmp_path / "c", 1, workers=2)


@pytest.mark.parametrize("effect", ["poison", "opium"])
def test_a_page_that_kills_or_hangs_its_worker_is_set_aside(tmp_path, effect):
    web = SyntheticWeb(
        seed=5, hosts=6, pages_per_host=10, features=Features(poison="hemlock and more hemlock")
    )
    with serve_process(web) as server:
        plan = plan_for(
            server,
            tmp_path / "c",
            workers=2,
            overrides={"crawl.worker_patience": "2s"},
            **{effect: "hemlock and more hemlock"},
        )
        assert run_until_it_ends(plan) == 0
        truth = server.truth("any")
    left = state_of(tmp_path / "c")
    aside = [record for record in left.records.values() if record.state is State.FAILED]
    assert [record.reason.code for record in aside] == ["crash"]
    assert left.keys == keys(truth.pages) - {aside[0].key}

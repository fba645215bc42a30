"""Workers die, freeze, come and go, engines stop in the middle of a crawl: nothing is lost, no page is in the archive twice,
and no host is asked too soon. How long it took to recover is printed.

The short forms have leases of 3 seconds, the long ones those of life: 15, and whoever is stopped is stopped for 30.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from math import inf, isnan
from pathlib import Path

import pytest

from skitter.crawl.forwarding import owner_of
from skitter.testing.web import Server, SyntheticWeb, serve_process
from tests.cluster.crawling import (
    QUICK,
    SIZES,
    Cluster,
    Worker,
    cluster,
    recovered,
    until,
    until_requests,
)
from tests.cluster.relay import Relay
from tests.cluster.test_crawls import FEATURES, assert_complete, assert_polite
from tests.crawl.test_stopping import fill, small_disk  # noqa: F401  a fixture
from tests.engines import engine, freeze, frozen, killed, our_engine, restart, thaw

STOPPED, FROZEN = 30.0, 20.0  # seconds of the long forms
SHORT = [pytest.param("redis", marks=pytest.mark.soak), "full"]
BEGUN = 50  # requests until trouble comes


def small_web() -> SyntheticWeb:
    """A few seconds of work."""
    robots = ("allow", "rules", "crawl-delay", "missing", "moved", "groups")
    return SyntheticWeb(seed=24, hosts=24, pages_per_host=9, features=FEATURES, robots=robots)


def slow_web() -> SyntheticWeb:
    """Enough to do for a minute and more: the long forms need the time."""
    return SyntheticWeb(seed=23, hosts=60, pages_per_host=60, features=FEATURES)


@contextmanager
def running(
    tmp_path: Path,
    web: SyntheticWeb,
    size: str,
    workers: int,
    *,
    begun: int = BEGUN,
    latency: float = 0.0,
    **changes,
) -> Iterator[tuple[Cluster, Server]]:
    """A crawl in its middle. Afterwards it is finished, and judged."""
    with serve_process(web, latency=latency) as server:
        with cluster(tmp_path, server, size, **changes) as crawl:
            crawl.add(server.seeds())
            started = [crawl.work() for _ in range(workers)]
            crawl.until_shared(*started)
            until_requests(server, begun, crawl)
            yield crawl, server
            if not crawl.finished:
                crawl.wait()
            crawl.leave()
            unsettled = crawl.judged().unsettled
            for worker in [each for each in crawl.workers if each.expected in (130, -signal.SIGKILL)]:
                crawl.start_again(worker)
            judged = crawl.judged()
        assert judged.unsettled == 0
        assert_complete(server, judged)
        # Who died in the moment between a robots.txt and its settlement has not learnt what it asks for.
        assert_polite(server, forgiven=("/robots.txt",))
        print(f"answers that nobody settled, until their workers were started again: {unsettled}")


def told(what: str, seconds: float, most: float = inf) -> None:
    """The time to recover. A crawl that was over before anybody had to take over proves nothing."""
    print(f"\n{what}: {seconds:.1f} s until the hosts concerned were asked again")
    assert not isnan(seconds), "nobody asked them again"
    assert seconds < most


def agents(*workers: Worker) -> set[str]:
    return {worker.agent for worker in workers}


# ------------------------------------------------------------------------------------------------ workers


def kill_one(tmp_path, web, size, *, most=inf, **changes):
    with running(tmp_path, web, size, 2, **changes) as (crawl, server):
        victim, other = crawl.workers
        lost = crawl.shards_of(victim)
        victim.kill()
        killed = time.time()
        crawl.wait()
        told("kill -9", recovered(server.log(), killed, crawl, lost, agents(other)), most)


def stop_one(tmp_path, web, size, seconds, **changes):
    with running(tmp_path, web, size, 2, **changes) as (crawl, server):
        zombie, other = crawl.workers
        lost = crawl.shards_of(zombie)
        zombie.send(signal.SIGSTOP)
        stopped = time.time()
        until(lambda: time.time() > stopped + seconds and not crawl.shards_of(zombie), "its shards are taken")
        thawed = time.time()
        zombie.send(signal.SIGCONT)
        crawl.wait()
        told("stopped", recovered(server.log(), stopped + 1, crawl, lost, agents(other, zombie)) + 1)
        asked = [r for r in server.log() if stopped + 1 < r.start < thawed and r.agent == zombie.agent]
        assert asked == []
        assert "has another owner" in zombie.said


@pytest.mark.parametrize("size", SHORT)
def test_a_worker_that_is_killed_loses_nothing(tmp_path, size):
    """Its process is gone, and so are its requests: nobody waits for as long as one may take."""
    kill_one(tmp_path, small_web(), size, most=50, **QUICK | {"fetch__deadline": "60s"})


@pytest.mark.parametrize("size", SIZES)
def test_a_worker_that_was_frozen_for_longer_than_its_lease_does_no_harm(tmp_path, size):
    stop_one(tmp_path, small_web(), size, 4.0, **QUICK)


@pytest.mark.parametrize(
    ("size", "name"), [("redis", "redis"), pytest.param("full", "postgres", marks=pytest.mark.soak)]
)
def test_what_a_worker_stored_while_it_was_cut_off_is_in_the_archive_once(tmp_path, size, name):
    """It finishes what is in flight, and cannot settle it. Others take its shards, and fetch these pages again."""
    truth = engine(name)
    web = SyntheticWeb(seed=24, hosts=24, pages_per_host=40)
    with (
        Relay(truth.host, truth.port).running() as wire,
        running(tmp_path, web, size, 1, **QUICK) as (crawl, server),
    ):
        lonely = crawl.work(**{f"{name}__addresses": f"127.0.0.1:{wire.port}"})
        crawl.until_shared(*crawl.workers)
        wire.cut_before(b"text/html")  # answers are in its file, and their pages are about to be settled
        until(lambda: wire.is_cut, "it settles a page")
        began, lost, other = time.time(), crawl.shards_of(lonely), agents(crawl.workers[0])
        # Were it back before anything else is settled in a shard, it would find its own mark, and cut by that.
        until(lambda: recovered(server.log(), began, crawl, lost, other) > 0, "others have its shards")
        time.sleep(2)
        wire.mend()
        crawl.wait()
        assert "has another owner" in lonely.said
        until(lambda: "did not settle" in lonely.said, "it cuts its files")


@pytest.mark.parametrize("size", ["redis", pytest.param("full", marks=pytest.mark.soak)])
def test_requests_of_a_frozen_worker_are_waited_for(tmp_path, size):
    """Servers that need longer for an answer than its lease runs are still at work for it, and are not asked twice at once."""
    web = SyntheticWeb(seed=24, hosts=8, pages_per_host=2)
    slow = {"cluster__lease": "2s", "cluster__renew": "400ms", "fetch__deadline": "7s"}
    with running(tmp_path, web, size, 2, begun=8, latency=5.0, **slow) as (crawl, server):
        zombie, other = crawl.workers
        time.sleep(1)  # the next requests are under way
        zombie.send(signal.SIGSTOP)
        stopped, lost = time.time(), crawl.shards_of(zombie)
        until(
            lambda: recovered(server.log(), stopped, crawl, lost, agents(other)) > 0, "they are asked again"
        )
        zombie.send(signal.SIGCONT)
        crawl.wait()


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
def test_a_worker_that_is_killed_loses_nothing_with_leases_of_life(tmp_path, size):
    kill_one(tmp_path, slow_web(), size, most=30, fetch__deadline="30s")


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
def test_a_worker_that_was_frozen_for_half_a_minute_does_no_harm(tmp_path, size):
    stop_one(tmp_path, slow_web(), size, STOPPED, fetch__deadline="10s")


@pytest.mark.parametrize("size", SHORT)
def test_workers_come_and_go_in_the_middle(tmp_path, size):
    with running(tmp_path, small_web(), size, 1, **QUICK) as (crawl, server):
        first, second = crawl.workers[0], crawl.work()
        joined = time.time()
        crawl.until_shared(first, second)
        took = crawl.shards_of(second)
        first.leave()
        left = time.time()
        until(lambda: len(crawl.shards_of(second)) == crawl.settings.crawl.shards, "it has them all")
        assert took
        print(f"\na worker joined: {left - joined:.1f} s until it had its share and the other had left")
        crawl.wait()
        assert any(request.agent == second.agent for request in server.log())
        assert crawl.judged().unsettled == 0
        # Who takes a shard finds the rules of its hosts there, and asks nobody again.
        rules = Counter(request.host for request in server.log() if request.path == "/robots.txt")
        assert set(rules.values()) == {1}


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
def test_a_worker_whose_disk_is_full_goes_and_the_others_do_its_work(tmp_path, size, small_disk):  # noqa: F811
    with running(tmp_path, slow_web(), size, 1, **QUICK) as (crawl, server):
        poor = crawl.work(small_disk / "worker", crawl__min_free_disk="0")
        poor.expected = 4
        crawl.until_shared(*crawl.workers)
        lost = crawl.shards_of(poor)
        fill(small_disk / "filler", 20_000)
        filled = time.time()
        until(lambda: poor.process.poll() is not None, "it has no room")
        assert poor.process.returncode == 4, poor.said
        crawl.wait()
        told("disk full", recovered(server.log(), filled, crawl, lost, agents(crawl.workers[0])))


# ------------------------------------------------------------------------------------------------ engines


TROUBLE = [("full", "postgres"), ("full", "kafka"), ("redis", "redis")]
CACHE = ("full", "redis")  # there it is no truth, only a cache


def killed_and_started(name: str) -> None:
    """What a restart is at its worst, and sooner over."""
    with killed(name):
        pass


def restart_one(tmp_path, web, size, name, bring_back=restart, **changes):
    our_engine(name)
    with running(tmp_path, web, size, 2, **changes) as (crawl, server):
        began = time.time()
        bring_back(name)
        back = time.time()
        crawl.wait()
        after = [request.start for request in server.log() if request.start > back]
        assert after, "the crawl was over before"
        print(
            f"\n{name} restarted in {back - began:.1f} s; the next request came {min(after) - back:.1f} s later"
        )


def freeze_one(tmp_path, web, size, name, seconds, **changes):
    our_engine(name)
    with running(tmp_path, web, size, 2, **changes) as (crawl, server):
        freeze(name)
        try:
            time.sleep(seconds)
        finally:
            thaw(name)
        back = time.time()
        crawl.wait()
        after = [request.start for request in server.log() if request.start > back]
        assert after, "the crawl was over before"
        print(f"\n{name} frozen for {seconds:.0f} s; the next request came {min(after) - back:.1f} s later")


@pytest.mark.parametrize(("size", "name"), TROUBLE)
def test_an_engine_that_is_killed_and_comes_back_loses_nothing(tmp_path, size, name):
    restart_one(tmp_path, small_web(), size, name, killed_and_started, **QUICK)


def test_a_cache_that_is_lost_while_shards_change_hands_costs_nothing_but_time(tmp_path):
    """What the last owner knew of URLs that are new is not to be had: all of them are looked up."""
    our_engine("redis")
    with running(tmp_path, small_web(), "full", 2, **QUICK) as (crawl, server):
        first, second = crawl.workers
        had = crawl.shards_of(first)
        with killed("redis"):
            left = time.time()
            first.leave()
            # Who wants to join now is refused, so nobody but the other worker can have them.
            until(
                lambda: any(
                    request.start > left
                    and request.agent == second.agent
                    and owner_of(request.host, crawl.settings.crawl.shards) in had
                    for request in server.log()
                ),
                "their hosts are asked by the other worker",
            )
        crawl.wait()


@pytest.mark.soak
@pytest.mark.parametrize(("size", "name"), [*TROUBLE, CACHE])
def test_an_engine_that_is_frozen_for_longer_than_a_lease_loses_nothing(tmp_path, size, name):
    freeze_one(tmp_path, slow_web(), size, name, FROZEN, fetch__deadline="10s")


@pytest.mark.soak
@pytest.mark.parametrize(("size", "name"), [*TROUBLE, CACHE])
def test_an_engine_that_is_restarted_again_and_again_loses_nothing(tmp_path, size, name):
    our_engine(name)
    with running(tmp_path, slow_web(), size, 2, **QUICK) as (crawl, server):
        for _, more in zip(range(3), count(1), strict=False):
            restart(name)
            until_requests(server, BEGUN + 100 * more, crawl)


def test_a_worker_is_stopped_at_once_also_while_its_engine_is_away(tmp_path):
    """The second interrupt waits for nobody: what could not be saved is done again by whoever takes the shard."""
    our_engine("redis")
    with running(tmp_path, small_web(), "redis", 2, **QUICK) as (crawl, _server):
        victim = crawl.workers[0]
        victim.expected = 130
        with frozen("redis"):
            time.sleep(1)
            for _ in range(2):
                victim.send(signal.SIGINT)
                time.sleep(0.5)
            assert victim.process.wait(60) == 130, victim.said

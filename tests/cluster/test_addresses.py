"""Hosts that share one IP address are limited together, by all workers of a cluster."""

import time

import pytest

from skitter.testing.web import crowds, gaps, overlaps, serve_process
from tests.cluster.crawling import QUICK, cluster, until, until_requests
from tests.crawl.harness import keys
from tests.crawl.test_addresses import HERE, neighbours, too_early
from tests.crawl.test_politeness import PRECISION
from tests.engines import frozen, our_engine

SIZE = pytest.mark.parametrize("size", ["redis", pytest.param("full", marks=pytest.mark.soak)])


@SIZE
@pytest.mark.parametrize(
    ("limit", "delay", "hosts"), [(8, 0.0, 200), (1, 0.0, 20), (4, 0.25, 10)], ids=["8", "1", "4, apart"]
)
def test_two_workers_share_the_limit_of_an_address(tmp_path, size, limit, delay, hosts):
    with serve_process(neighbours(hosts), latency=0.05) as server:
        changes = {"politeness__per_address": limit, "politeness__address_delay": f"{delay}s"}
        with cluster(tmp_path, server, size, politeness__delay="0s", **changes) as crawl:
            crawl.add(server.seeds())
            first, second = crawl.work(), crawl.work()
            crawl.wait()
            log = server.log()
            trips = {worker["name"]: worker["trips"] for worker in crawl.status()["workers"]}
            crawl.leave()
            judged = crawl.judged()
        assert judged.pages == keys(server.truth("any").pages)
    assert {request.agent for request in log} == {first.agent, second.agent}
    assert crowds(log)[HERE] <= limit
    if not delay:
        assert crowds(log)[HERE] == limit
    assert too_early(log, delay) == []
    spent = log[-1].start - log[0].start
    print(f"\n{size}, limit {limit}: {len(log)} requests in {spent:.1f} s, round trips {trips}")


@pytest.mark.parametrize(
    ("size", "pages"),
    [("redis", 1), *(pytest.param(size, 3, marks=pytest.mark.soak) for size in ("redis", "full"))],
)
def test_two_workers_crawl_a_thousand_names_on_one_address(tmp_path, size, pages):
    """By the server's log: never more in flight than allowed, one at a time per host, its delay kept, robots.txt first."""
    delay, limit = 0.3, 8
    with serve_process(neighbours(1000, pages), latency=0.01) as server:
        changes = {"politeness__per_address": limit, "politeness__delay": f"{delay}s"}
        with cluster(tmp_path, server, size, **changes) as crawl:
            crawl.add(server.seeds())
            first, second = crawl.work(), crawl.work()
            crawl.wait()
            log = server.log()
            crawl.leave()
            assert crawl.judged().pages == keys(server.truth("any").pages)
    assert {request.agent for request in log} == {first.agent, second.agent}
    assert crowds(log) == {HERE: limit}
    assert overlaps(log) == []
    assert len(gaps(log)) == 1000
    assert min(gap for host in gaps(log).values() for gap in host) >= delay - PRECISION
    assert {each.path for each in {each.host: each for each in reversed(log)}.values()} == {"/robots.txt"}
    spent = log[-1].start - log[0].start
    print(f"\n{size}: {len(log)} requests to 1000 hosts in {spent:.1f} s")


@SIZE
def test_a_killed_worker_takes_no_permits_with_it(tmp_path, size):
    with (
        serve_process(neighbours(60, 6), latency=0.1) as server,
        cluster(tmp_path, server, size, politeness__delay="0s", politeness__per_address=4, **QUICK) as crawl,
    ):
        crawl.add(server.seeds())
        victim, other = crawl.work(), crawl.work()
        crawl.until_shared(victim, other)
        until_requests(server, 40, crawl)
        victim.kill()
        killed = time.time()
        crawl.wait()
        log = server.log()
        crawl.leave()
        crawl.start_again(victim)
        assert crawl.judged().pages == keys(server.truth("any").pages)
    assert crowds(log)[HERE] == 4
    later = [request for request in log if request.start > killed + 15]
    assert later, "nothing was left to do for whoever got the permits"
    assert crowds(later)[HERE] == 4


def test_without_redis_each_worker_keeps_to_its_part_and_the_crawl_goes_on(tmp_path):
    """Only a full cluster goes on without Redis at all."""
    our_engine("redis")
    changes = {"politeness__delay": "0s", "politeness__per_address": 4}
    with (
        serve_process(neighbours(80, 10), latency=0.1) as server,
        cluster(tmp_path, server, "full", **changes) as crawl,
    ):
        crawl.add(server.seeds())
        workers = [crawl.work(), crawl.work()]
        crawl.until_shared(*workers)
        until_requests(server, 40, crawl)
        with frozen("redis"):
            gone = time.time()
            until(lambda: time.time() > gone + 25, "every lease has ended")
            back = time.time()
        crawl.wait()
        log = server.log()
        crawl.leave()
        assert crawl.judged().pages == keys(server.truth("any").pages)
    assert crowds(log)[HERE] <= 4
    alone = [request for request in log if gone + 15 < request.start < back]
    for worker in workers:
        assert crowds([each for each in alone if each.agent == worker.agent])[HERE] == 2

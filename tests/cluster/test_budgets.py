"""Budgets hold for all workers of a cluster, judged by the server's log."""

import time
from collections import Counter
from collections.abc import Sequence

import pytest

from skitter.testing.web import Features, Request, SyntheticWeb, serve_process
from tests.cluster.crawling import cluster, until
from tests.crawl.harness import keys
from tests.crawl.test_addresses import too_early
from tests.crawl.test_budgets import pages_of
from tests.crawl.test_keys import by, domain_of, families, most_in_flight
from tests.engines import frozen, our_engine

SIZE = pytest.mark.parametrize("size", ["redis", pytest.param("full", marks=pytest.mark.soak)])


@SIZE
def test_two_workers_share_the_budget_of_a_domain(tmp_path, size):
    web = SyntheticWeb(
        seed=3, hosts=80, pages_per_host=12, hosts_per_domain=10, features=Features(foreign_share=0.3)
    )
    with serve_process(web, latency=0.3) as server:
        group = {"some": {"hosts": ["h*5.site*", "h*6.site*"], "pages": 40}}
        changes = {"politeness__delay": "0s", "budget__domain_pages": 60, "group": group}
        with cluster(tmp_path, server, size, **changes) as crawl:
            crawl.add(server.seeds())
            first, second = crawl.work(), crawl.work()
            crawl.until_shared(first, second)
            crawl.wait()
            log = server.log()
            crawl.leave()
            seed = next(url for url in server.seeds() if "h0005." in url)
            why = crawl.command("why", "--config", crawl.config, seed)
            refused = [each.reason for each in crawl.judged().records.values() if each.reason]
    assert {request.agent for request in log} == {first.agent, second.agent}
    assert set(pages_of(log).values()) == {60}
    assert sum(pages_of([each for each in log if each.host.partition(".")[0][-1] in "56"]).values()) == 40
    assert {"budget.domain", "budget.group"} <= {reason.code for reason in refused}
    assert "budget of its group some: 40 of 40 pages" in why
    assert "budget of its domain: 60 of 60 pages" in why


@SIZE
def test_two_workers_share_the_permits_of_domains_and_groups(tmp_path, size):
    delay = 0.25
    group = {
        "some": {"hosts": ["h*5.site*", "h*6.site*"], "in_flight": 3},
        "slow": {"hosts": ["h*7.site*"], "delay": f"{delay}s"},
    }
    with serve_process(families(80, 4), latency=0.1) as server:
        changes = {"politeness__delay": "0s", "politeness__per_domain": 4, "group": group}
        with cluster(tmp_path, server, size, **changes) as crawl:
            crawl.add(server.seeds())
            first, second = crawl.work(), crawl.work()
            crawl.until_shared(first, second)
            crawl.wait()
            log = server.log()
            crawl.leave()
            assert crawl.judged().pages == keys(server.truth("any").pages)
    assert {request.agent for request in log} == {first.agent, second.agent}
    for requests in by(log, domain_of).values():
        assert most_in_flight(requests) <= 4
    assert most_in_flight([each for each in log if each.host.partition(".")[0][-1] in "56"]) <= 3
    assert too_early([each for each in log if each.host.partition(".")[0][-1] == "7"], delay) == []


def made(log: Sequence[Request], since: float = 0.0) -> Counter[str]:
    """Requests since a time, by who made them."""
    return Counter(each.agent for each in log if each.start > since)


def test_without_redis_each_shard_spends_its_share_of_the_budget_of_a_group(tmp_path):
    """Only a full cluster goes on without Redis. When it is back, the rest is spent: exactly the budget, and no page more."""
    our_engine("redis")
    budget = 700
    group = {"all": {"hosts": ["*"], "pages": budget}}
    with (
        serve_process(families(40, 30), latency=0.05) as server,
        cluster(tmp_path, server, "full", politeness__delay="500ms", group=group) as crawl,
    ):
        crawl.add(server.seeds())
        first, second = crawl.work(), crawl.work()
        crawl.until_shared(first, second)
        both = {first.agent, second.agent}
        until(lambda: all(made(server.log())[agent] >= 40 for agent in both), "both have set a share aside")
        with frozen("redis"):
            gone = time.time()
            until(lambda: set(made(server.log(), gone + 1.5)) == both, "both go on without Redis")
            alone = [each for each in server.log() if each.start > gone + 1.5]
        crawl.wait()
        log = server.log()
        crawl.leave()
        refused = {each.reason.code for each in crawl.judged().records.values() if each.reason}
    assert sum(pages_of(log).values()) == budget
    assert "budget.group" in refused
    print(f"\nwithout Redis: {len(alone)} requests, {sum(pages_of(alone).values())} pages of {budget}")

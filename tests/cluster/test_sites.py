"""Settings of single sites in a cluster: every worker keeps them, and they change for all at once."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest

from skitter import reasons
from skitter.testing.web import Request, Server, SyntheticWeb, serve_process
from tests.cluster.crawling import SIZES, cluster

SLOW, QUICK = 0.5, 0.05
_PRECISION = 0.01  # of the server's log


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_process(SyntheticWeb(seed=43, hosts=4, pages_per_host=8)) as running:
        yield running


def gaps(log: list[Request]) -> dict[str, list[float]]:
    hosts: dict[str, list[Request]] = {}
    for request in sorted(log, key=lambda request: request.start):
        hosts.setdefault(request.host, []).append(request)
    return {
        host: [after.start - (before.end or before.start) for before, after in pairwise(requests)]
        for host, requests in hosts.items()
    }


@pytest.mark.parametrize("size", SIZES)
def test_two_workers_keep_the_delay_and_the_scope_of_a_site(size, server, tmp_path):
    before = len(server.log())
    seeds = server.seeds()
    slow = seeds[0].split("/")[2].split(":")[0]
    sites = [{"match": slow, "politeness.delay": f"{SLOW}s", "scope.exclude": [r"/p/\d*[02468]\.html"]}]
    with cluster(tmp_path, server, size, crawl__shards=2, politeness__delay=f"{QUICK}s", site=sites) as crawl:
        workers = [crawl.work(), crawl.work()]
        crawl.until_shared(*workers)
        crawl.add(seeds)
        crawl.wait()
        log = server.log()[before:]
        _, records = asyncio.run(crawl.read_back())
    found = gaps(log)
    assert len(found) == len(seeds)
    assert all(gap >= SLOW - _PRECISION for gap in found[slow])
    assert any(gap < SLOW for host, all_gaps in found.items() if host != slow for gap in all_gaps)
    excluded = [
        record.reason.detail
        for record in records.values()
        if record.reason is not None and record.reason.code == reasons.SCOPE_EXCLUDE
    ]
    assert excluded
    assert {detail.partition(", ")[2] for detail in excluded} == {f"set by [[site]] 1 ({slow})"}

"""A worker joins while many links are on their way: none is lost, none is stored twice, and hardly a page is fetched twice."""

from collections import Counter

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, cluster, until_requests
from tests.cluster.test_crawls import assert_complete
from tests.crawl.harness import keys


def rebalance(tmp_path, size, hosts, pages, links, delay, **changes):
    """Most links of a page lead to other hosts, so most of them are forwarded."""
    features = Features(page_words=60, page_bytes=1000, links_per_page=links, foreign_share=0.8)
    web = SyntheticWeb(seed=31, hosts=hosts, pages_per_host=pages, features=features)
    with serve_process(web) as server:
        with cluster(tmp_path, server, size, politeness__delay=delay, **changes) as crawl:
            crawl.add(server.seeds())
            crawl.work()
            until_requests(server, hosts + 20, crawl)
            for _ in range(2):
                crawl.work()
            crawl.until_shared(*crawl.workers)
            early = len(server.log())
            crawl.wait()
            offered = crawl.links_offered()
            crawl.leave()
            judged = crawl.judged()
        truth, log = server.truth("any"), server.log()
        assert_complete(server, judged)
        assert judged.unsettled == 0
        asked = Counter((request.host, request.page) for request in log)
        twice = sum(number - 1 for number in asked.values())
        print(
            f"\n{offered} links for {len(keys(truth.pages))} pages; {early} requests when all had joined; {twice} were repeated"
        )
        assert early < len(log) - hosts, "the crawl was over before they joined"
        assert twice == 0, "shards were handed over, not lost: nothing in flight was given up"
        return offered


@pytest.mark.parametrize("size", [pytest.param("redis", marks=pytest.mark.soak), "full"])
def test_a_rebalance_with_thousands_of_links_in_flight_loses_none(tmp_path, size):
    assert rebalance(tmp_path, size, 40, 20, 12, "500ms", **QUICK) >= 5_000


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
def test_a_rebalance_with_a_hundred_thousand_links_in_flight_loses_none(tmp_path, size):
    assert rebalance(tmp_path, size, 200, 40, 20, "1s") >= 100_000

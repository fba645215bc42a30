"""Workers with narrower settings do not fetch links that were accepted under wider ones."""

import re

import pytest

from skitter import urls
from skitter.model import State
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, cluster, until_requests

EXCLUDE = r"h0*[4-7]\."
NARROWER: dict[str, tuple[dict[str, object], str]] = {
    "scope.exclude": ({"scope__exclude": f"['{EXCLUDE}']"}, EXCLUDE),
    "scope.host": ({"scope__kind": "host"}, r"h0*[1-7]\."),  # the seed is on the first host
}


@pytest.mark.parametrize(
    ("size", "code"), [*((size, "scope.exclude") for size in SIZES), ("redis", "scope.host")]
)
def test_waiting_urls_that_are_no_longer_wanted_are_not_requested(tmp_path, size, code):
    changes, unwanted = NARROWER[code]
    web = SyntheticWeb(
        seed=41, hosts=8, pages_per_host=10, features=Features(foreign_share=0.3), hosts_per_domain=1
    )
    with serve_process(web) as server, cluster(tmp_path, server, size, crawl__shards=2, **QUICK) as crawl:
        crawl.add(server.seeds(1))
        first = crawl.work()
        until_requests(server, 30, crawl)
        first.leave()
        before = len(server.log())

        crawl.change(**changes)
        second = crawl.work()
        crawl.wait()
        crawl.leave()
        later = server.log()[before:]
        assert [request for request in later if re.search(unwanted, request.host)] == []  # nor its robots.txt
        assert later
        records = crawl.judged().records
    dropped = [
        record
        for record in records.values()
        if record.reason and record.reason.detail.endswith("accepted under earlier settings")
    ]
    assert dropped
    assert {(record.state, record.reason.code) for record in dropped} == {(State.REFUSED, code)}
    said = re.search(r"(\d+) waiting URLs are no longer wanted", second.said)
    assert said, second.said
    # Whoever finds a link again that it does not want has a record of its own, which may be the one that was read.
    assert int(said[1]) >= len(dropped)


@pytest.mark.parametrize("size", SIZES)
def test_urls_that_earlier_settings_refused_are_crawled_when_they_are_wanted(tmp_path, size):
    web = SyntheticWeb(
        seed=41, hosts=8, pages_per_host=10, features=Features(foreign_share=0.3), hosts_per_domain=1
    )
    narrow = {"scope__exclude": f"['{EXCLUDE}']"}
    with (
        serve_process(web) as server,
        cluster(tmp_path, server, size, crawl__shards=2, **QUICK | narrow) as crawl,
    ):
        crawl.add(server.seeds(1))
        crawl.work()
        crawl.wait()
        crawl.leave()
        before = {request.host for request in server.log()}
        assert not any(re.search(EXCLUDE, host) for host in before)

        crawl.change(scope__exclude="[]")
        second = crawl.work()
        crawl.wait()
        crawl.leave()
        records = crawl.judged().records
    crawled = {urls.host(url) for url, record in records.items() if record.state is State.CRAWLED}
    assert len(crawled) == 8
    assert not [
        record for record in records.values() if record.reason and record.reason.code == "scope.exclude"
    ]
    assert re.search(r"\d+ URLs? that earlier settings refused", second.said), second.said

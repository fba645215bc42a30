"""Whole pages in a cluster: assets of other hosts are forwarded to the shards that own them, and no scope holds there either."""

import asyncio
from collections import Counter

import pytest

from skitter.model import Purpose
from tests.cluster.crawling import SIZES, cluster
from tests.crawl.test_assets import ELSEWHERE, NEEDED, whole_site


@pytest.mark.parametrize("size", SIZES)
def test_two_workers_fetch_all_that_a_page_needs_once(size, tmp_path):
    resolve = tuple(f"{host}:127.0.0.1" for host in ("a.test", "static.test"))
    options = {"crawl__shards": 2, "archive__assets": "all", "fetch__resolve": resolve, "scope__kind": "host"}
    with whole_site() as served, cluster(tmp_path, None, size, **options) as crawl:
        workers = [crawl.work(), crawl.work()]
        crawl.until_shared(*workers)
        crawl.add([served.url("a.test/")])
        crawl.wait()
        pages, _ = asyncio.run(crawl.read_back())
        wanted = [*NEEDED, *ELSEWHERE, "a.test/favicon.ico"]
        others = ["a.test/", "a.test/next.html", "a.test/robots.txt", "static.test/robots.txt"]
        assert Counter(served.log) == Counter([*wanted, *others])
        assets = {page.url for page in pages if page.purpose is Purpose.ASSET}
        assert assets == {served.url(name) for name in wanted}

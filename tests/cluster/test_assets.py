"""Whole pages in a cluster: assets of other hosts are forwarded to the shards that own them, and no scope holds there either."""

import asyncio
from collections import Counter

import pytest

from skitter import urls
from skitter.model import Purpose
from tests.cluster.crawling import QUICK, SIZES, cluster, until
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("killed", [False, True])
def test_at_a_page_limit_the_assets_of_stored_pages_are_still_fetched(size, killed, tmp_path):
    """By two workers, of which the one with the assets may be killed in the midst of it."""
    resolve = tuple(f"{host}:127.0.0.1" for host in ("a.test", "static.test"))
    options = {"crawl__shards": 2, "archive__assets": "all", "fetch__resolve": resolve, "scope__kind": "host"}
    options |= QUICK | {"crawl__max_pages": 1}
    with whole_site() as served, cluster(tmp_path, None, size, **options) as crawl:
        workers = [crawl.work(), crawl.work()]
        crawl.until_shared(*workers)
        for worker in workers:
            worker.expected = 3
        crawl.add([served.url("a.test/")])
        if killed:
            until(lambda: len(served.log) >= 8, "some assets are fetched")
            shards = crawl.owners()
            busy = next(each for each in workers if each.name == shards[urls.shard("a.test", 2)])
            busy.kill()
        crawl.wait(code=3)
        robots = ["a.test/robots.txt", "static.test/robots.txt"]
        asked = Counter(served.log)
        assert set(asked) == {"a.test/", *robots, *NEEDED, *ELSEWHERE}
        # What was in flight when its worker died is asked for again.
        assert sum(asked.values()) - len(asked) <= (2 if killed else 0)
        counts = crawl.status()["counts"]
        assert (counts["pages"], counts["queued"], counts["leased"]) == (1, 1, 0)
        crawl.change(crawl__max_pages=5)  # nothing was lost: the rest comes with a higher limit
        served.log.clear()
        crawl.work()
        crawl.wait()
        assert Counter(served.log) == Counter(["a.test/next.html", "a.test/favicon.ico"])

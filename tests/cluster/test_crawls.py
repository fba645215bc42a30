"""One crawl, on one machine or on a cluster of any size: the same pages, the same reasons, the same politeness."""

import pytest

from skitter import urls
from skitter.testing.web import Features, Server, SyntheticWeb, overlaps, serve_process
from tests.cluster.crawling import DELAY, QUICK, SIZES, Cluster, Judged, cluster
from tests.crawl.harness import Crawled, crawl_with, keys, settings_for
from tests.crawl.test_politeness import requests_by_host, too_fast

FEATURES = Features(
    robots=True,
    redirects=True,
    statuses=True,
    duplicates=True,
    unfollowed=True,
    foreign_share=0.3,
    crawl_delay=0.4,
)


def small_web() -> SyntheticWeb:
    """About 400 pages on 30 hosts."""
    robots = (
        "allow",
        "rules",
        "crawl-delay",
        "missing",
        "disallow",
        "moved",
        "moved-away",
        "groups",
        "forbidden",
        "bom",
    )
    return SyntheticWeb(seed=21, hosts=30, pages_per_host=12, features=FEATURES, robots=robots)


def large_web() -> SyntheticWeb:
    """More than 5,000 pages on 200 hosts."""
    return SyntheticWeb(seed=22, hosts=200, pages_per_host=28, features=FEATURES)


def story(records) -> dict[str, tuple[object, str]]:
    """What became of every URL, and why. What a page is worth to a host's budget depends on who came first."""
    return {
        key: (record.state, record.reason.code if record.reason else "") for key, record in records.items()
    }


def assert_polite(server: Server, forgiven: tuple[str, ...] = ()) -> None:
    """By the server's own log: no host was asked sooner than it is owed, nor twice at once, nor before its robots.txt.

    `forgiven` are paths behind which only the general delay is owed: a worker that died with its first robots.txt in hand
    has never learnt of the Crawl-delay in it.
    """
    log, truth = server.log(), server.truth("any")

    def owed(host, before):
        knows = before.path not in forgiven and (before.path != "/robots.txt" or before.status == 200)
        return max(DELAY, truth.delays.get(host, 0.0) if knows else 0.0)

    assert too_fast(log, owed) == []
    assert overlaps(log) == []
    for host, requests in requests_by_host(log).items():
        assert requests[0].path.startswith("/robots"), host
    asked = {f"http://{request.host}:{server.port}{request.page}" for request in log}
    assert not asked & set(truth.refused)


def assert_complete(server: Server, judged: Judged) -> None:
    truth = server.truth("any")
    missing = {key: judged.records.get(key) for key in keys(truth.pages) - judged.pages}
    assert missing == {}
    assert judged.pages - keys(truth.unjudged) == keys(truth.pages)


def crawled_by_a_cluster(crawl: Cluster, server: Server, workers: int) -> Judged:
    crawl.add(server.seeds())
    for _ in range(workers):
        crawl.work()
    crawl.wait()
    crawl.leave()
    return crawl.judged()


def crawled_alone(path, web: SyntheticWeb) -> tuple[int, Crawled]:
    """By a fleet on this machine, and the port at which the web was."""
    with serve_process(web) as server:
        settings = settings_for(server, scope__kind="any", politeness__delay=f"{DELAY}s")
        return server.port, crawl_with(2, path, server.seeds(), settings)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return crawled_alone(tmp_path_factory.mktemp("alone") / "c", small_web())


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return crawled_alone(tmp_path_factory.mktemp("alone") / "c", large_web())


def compare(tmp_path, web: SyntheticWeb, beside, size: str, workers: int, **changes) -> None:
    port, alone = beside
    with serve_process(web, port) as server:
        with cluster(tmp_path, server, size, **changes) as crawl:
            together = crawled_by_a_cluster(crawl, server, workers)
        assert_complete(server, together)
        assert together.pages == alone.keys
        assert story(together.records) == story(alone.records)
        assert together.unsettled == 0
        assert_polite(server)
        hosts = {request.host for request in server.log() if request.path != "/robots.txt"}
        assert {urls.host(url) for url in server.truth("any").pages} <= hosts


@pytest.mark.parametrize(("size", "workers"), [("redis", 2), ("full", 1), ("full", 2)])
def test_a_cluster_crawls_what_a_machine_does(tmp_path, small, size, workers):
    compare(tmp_path, small_web(), small, size, workers, **QUICK)


@pytest.mark.soak
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cluster_crawls_a_larger_web_as_a_machine_does(tmp_path, large, size, workers):
    compare(tmp_path, large_web(), large, size, workers)

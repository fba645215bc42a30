"""Hosts that share one IP address are limited together, judged by the server's own log."""

import pytest

from skitter.testing.web import Features, SyntheticWeb, crowds, overlaps, serve_process
from tests.crawl.harness import crawl, crawl_with, keys, settings_for

HERE = "127.0.0.1"
# As in test_politeness: of two clocks.
PRECISION = 0.01


def neighbours(hosts: int = 200, pages: int = 3) -> SyntheticWeb:
    """Many names on one address."""
    return SyntheticWeb(seed=8, hosts=hosts, pages_per_host=pages, features=Features(links_per_page=4))


@pytest.mark.parametrize("workers", [0, 4], ids=["in one process", "4 workers"])
@pytest.mark.parametrize("limit", [8, 1])
def test_two_hundred_names_on_one_address_share_its_limit(tmp_path, workers, limit):
    with serve_process(neighbours(200 if limit > 1 else 30), latency=0.02) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_address=limit)
        path, starts = tmp_path / "c", server.seeds()
        result = crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    assert crowds(log) == {HERE: limit}
    assert overlaps(log) == []
    counts, put_off = result.report.counts, result.report.caches["permits"]["put_off"]
    print(f"\n{workers} workers, limit {limit}: {put_off / counts.requests:.2f} put off per request")
    assert counts.requests == len(log)  # what was put off is no request

"""The metrics of a cluster are the sums of what its workers, the server and the store say."""

import pytest

from skitter.testing.web import SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, cluster, until


@pytest.mark.parametrize("size", SIZES)
def test_the_metrics_of_two_workers_are_what_the_server_and_the_store_say(tmp_path, size):
    with (
        serve_process(SyntheticWeb(seed=32, hosts=12, pages_per_host=8)) as server,
        cluster(tmp_path, server, size, crawl__shards=4, **QUICK) as crawl,
    ):
        crawl.add(server.seeds())
        crawl.work()
        crawl.work()
        crawl.wait()
        asked = len(server.log())

        def measured() -> dict[str, int]:
            metrics = crawl.status()["metrics"]
            return {
                "seconds": sum(metrics["requests"]["seconds"]["counts"]),
                "sent": metrics["connections"]["requests"],
            }

        until(lambda: measured() == {"seconds": asked, "sent": asked}, "the last heartbeats")
        status = crawl.status()
        parts = [sum(worker["metrics"]["requests"]["seconds"]["counts"]) for worker in status["workers"]]
        assert len(parts) == 2
        assert sum(parts) == asked
        assert status["counts"]["requests"] == asked
        assert status["metrics"]["requests"]["bytes"]["sum"] == status["counts"]["bytes"]
        crawl.leave()

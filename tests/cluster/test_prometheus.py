"""A real Prometheus scrapes the workers of a cluster: sums that agree with it, engines, lag, and those that are gone."""

import time
from pathlib import Path

import pytest

from skitter.testing.web import SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, SIZES, Worker, cluster, until
from tests.prometheus import prometheus

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "skitter.rules.yml"


def address_of(worker: Worker) -> str:
    file = worker.path / "log" / "metrics.url"
    until(lambda: file.is_file() and file.read_text().endswith("\n"), "the worker serves its metrics")
    return file.read_text().strip().removeprefix("http://").removesuffix("/metrics")


@pytest.mark.parametrize("size", SIZES)
def test_prometheus_scrapes_the_workers_of_a_cluster(tmp_path, size):
    with (
        serve_process(SyntheticWeb(seed=33, hosts=10, pages_per_host=60)) as server,
        cluster(tmp_path, server, size, crawl__shards=4, metrics__address="127.0.0.1:0", **QUICK) as crawl,
    ):
        crawl.add(server.seeds())
        first, second = crawl.work(), crawl.work()
        addresses = [address_of(worker) for worker in (first, second)]
        with prometheus(tmp_path / "prometheus", {"skitter": addresses}, [RULES]) as scraping:
            scraping.until("sum(up) == 2")
            scraping.until("sum(skitter_crawl_pages_total) > 50")
            engines = {"redis": {"Redis"}, "full": {"Redis", "PostgreSQL", "Kafka"}}[size]
            phases = scraping.until("skitter_engine_phase")
            assert {each["metric"]["engine"] for each in phases} == engines
            assert {each["value"][1] for each in phases} == {"0"}
            topics = {each["metric"]["topic"] for each in scraping.until("skitter_lag_messages")}
            assert topics == ({"all"} if size == "redis" else {"high", "medium", "low"})
            crawl.wait()
            asked = len(server.log())
            scraping.until(f"sum(skitter_requests_seconds_count) == {asked}")
            found = scraping.until(f"sum(skitter_crawl_requests_total) >= {0.9 * asked}")
            assert float(found[0]["value"][1]) <= asked, (
                "what a worker found when it took a shard is not its own"
            )
            assert scraping.value("sum(skitter_politeness_violations_total)") == 0
            assert abs(scraping.value("max(skitter_clock_offset_seconds)") or 9.0) < 1.0
            second.kill()
            scraping.until("sum(up) == 1")
            end = time.monotonic() + 90
            while not scraping.query("skitter_cluster_silent_workers == 1"):
                assert time.monotonic() < end, "nobody misses the dead worker"
                time.sleep(0.5)
        crawl.leave()

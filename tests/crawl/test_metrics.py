"""The metrics of a fleet are the sums of what its workers, the server and the store say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from skitter.compose import open_reader
from skitter.crawl.directory import CrawlDirectory
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl_with, settings_for


@pytest.fixture(scope="module")
def server():
    features = Features(duplicates=True, statuses=True, redirects=True, foreign_share=0.3)
    with serve_process(SyntheticWeb(seed=31, hosts=16, pages_per_host=12, features=features)) as running:
        yield running


@pytest.mark.parametrize("workers", [1, 3])
def test_the_metrics_of_a_crawl_are_what_the_server_and_the_store_say(server, tmp_path, workers):
    before = len(server.log())
    result = crawl_with(workers, tmp_path / "c", server.seeds(1), settings_for(server, scope__kind="any"))
    log, measured, counts = server.log()[before:], result.report.metrics, result.report.counts
    asked, robots = len(log), sum(request.path.startswith("/robots") for request in log)
    assert measured.requests.seconds.number == measured.connections.requests == counts.requests == asked
    assert measured.requests.bytes.total == counts.bytes
    assert measured.connections.opened + measured.connections.reused == asked
    assert sum(counts.statuses.values()) == asked - robots
    assert counts.pages == sum(200 <= page.status < 300 for page in result.pages)
    assert measured.links.hits + measured.links.misses >= counts.added
    written = CrawlDirectory(tmp_path / "c").read_statistics()
    assert written.requests.seconds.number <= asked, "the file may be a second old"


def test_status_and_the_report_show_the_same_metrics(server, tmp_path):
    path = tmp_path / "c"
    result = crawl_with(1, path, server.seeds(1), settings_for(server))
    shown = json.loads(skitter("status", path, "--json"))
    assert shown["metrics"]["requests"]["seconds"]["counts"] == result.report.metrics.requests.seconds.counts
    assert "connections: requests" in skitter("status", path, "-v")


def test_statistics_of_another_version_are_passed_over(tmp_path):
    directory = CrawlDirectory(tmp_path)
    directory.statistics_file.parent.mkdir()
    directory.statistics_file.write_text('{"requests": 7}')
    assert directory.read_statistics().requests.seconds.number == 0


def skitter(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *map(str, words)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_reader_has_metrics_as_well(server, tmp_path):
    crawl_with(2, tmp_path / "c", server.seeds(1), settings_for(server))
    assert open_reader(Path(tmp_path / "c")).frontier.metrics().store.reads == 0

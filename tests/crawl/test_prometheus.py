"""A real Prometheus scrapes a running fleet: numbers that agree with the crawl, rules, and every query of the dashboard."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from skitter.reporting.exposition import families
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import settings_for
from tests.prometheus import prometheus
from tests.unit.test_reporting_exposition import fullest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "skitter.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "skitter.json"
ONLY_IN_CLUSTERS = {"skitter_engine_phase", "skitter_lag_messages", "ALERTS"}


@pytest.fixture(scope="module")
def server():
    features = Features(statuses=True, duplicates=True)
    with serve_process(SyntheticWeb(seed=17, hosts=12, pages_per_host=400, features=features)) as running:
        yield running


@contextmanager
def crawling(server, tmp_path, *words, **settings):
    """A crawl on the command line, with two workers."""
    config, directory = tmp_path / "crawl.toml", tmp_path / "c"
    values = {"scope__kind": "any", "politeness__delay": "100ms", "crawl__workers": 2, **settings}
    config.write_text(dump(settings_for(server, **values)))
    starts = [seed if isinstance(seed, str) else seed.url for seed in server.seeds()]
    command = [
        sys.executable,
        "-m",
        "skitter",
        "crawl",
        *starts,
        "-o",
        str(directory),
        "--config",
        str(config),
    ]
    process = subprocess.Popen(
        [*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process, directory
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def url_of(directory: Path) -> str:
    """Where a crawl serves its metrics."""
    file, end = directory / "log" / "metrics.url", time.monotonic() + 60
    while time.monotonic() < end:
        if file.is_file() and (text := file.read_text()).endswith("\n"):
            return text.strip()
        time.sleep(0.05)
    raise AssertionError("no metrics are served")


def scraped(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        told = answer.read().decode()
    return {
        sample.name + "".join(f"{{{value}}}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
    }


def queries() -> list[str]:
    found = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in found["panels"] for target in panel.get("targets", ())]


def names_in(query: str) -> set[str]:
    return set(re.findall(r"\b(?:skitter_\w+|ALERTS)\b", query))


def test_the_dashboard_asks_for_nothing_that_is_not_there():
    told = {family.name + point.suffix for family in families(fullest()) for point in family.points}
    assert set().union(*map(names_in, queries())) - told == {"ALERTS"}
    layout = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in layout}) == len(layout) > 25
    only = runpy.run_path(str(ROOT / "scripts" / "dashboard.py"))["ONLY_IN_CLUSTERS"]
    assert {*only, "ALERTS"} == ONLY_IN_CLUSTERS


def test_prometheus_scrapes_a_crawl_and_answers_every_query_of_the_dashboard(server, tmp_path):
    with crawling(server, tmp_path, "--metrics", "127.0.0.1:0") as (_, directory):
        address = url_of(directory).removeprefix("http://").removesuffix("/metrics")
        with prometheus(tmp_path / "prometheus", {"skitter": [address]}, [RULES]) as scraping:
            scraping.until("skitter_crawl_pages_total > 20")
            scraping.until("rate(skitter_requests_seconds_count[10s]) > 0")
            assert scraping.value('up{job="skitter"}') == 1
            assert scraping.value("sum(skitter_worker_up)") == 2
            assert scraping.value("skitter_politeness_violations_total") == 0
            assert (scraping.value("sum(skitter_crawl_levels)") or 0) > 0
            told = {family.name + point.suffix for family in families(fullest()) for point in family.points}
            assert told - scraping.metric_names() <= {
                *ONLY_IN_CLUSTERS,
                "skitter_crawl_others_total",
                "skitter_crawl_again",
            }
            for query in queries():
                found = scraping.query(query.replace("$__rate_interval", "10s"))
                assert found or names_in(query) & ONLY_IN_CLUSTERS, query
            rules = scraping.get("/api/v1/rules")["data"]["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
            assert not [rule["name"] for rule in rules if rule["state"] == "firing"]


def test_no_counter_falls_when_a_worker_is_killed(server, tmp_path):
    with crawling(server, tmp_path, "--metrics", "127.0.0.1:0") as (process, directory):
        url = url_of(directory)

        def until(holds) -> dict[str, float]:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                if holds(seen := scraped(url)):
                    return seen
                time.sleep(0.6)
            raise AssertionError(seen)

        before = until(lambda seen: seen["skitter_requests_seconds_count"] > 100)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        after = until(
            lambda seen: seen["skitter_worker_deaths_total"] == 1 and seen["skitter_worker_up{1}"] == 1
        )
        fell = [
            name
            for name, value in before.items()
            if name.split("{")[0].endswith(("_total", "_count", "_bucket"))
            and "worker_cpu" not in name
            and after[name] < value
        ]
        assert fell == []


def test_an_address_that_is_taken_ends_the_crawl_before_it_begins(server, tmp_path):
    with crawling(server, tmp_path, "--metrics", "127.0.0.1:0") as (_, directory):
        address = url_of(directory).removeprefix("http://").removesuffix("/metrics")
        (tmp_path / "other").mkdir()
        with crawling(server, tmp_path / "other", "--metrics", address) as (second, _):
            _, said = second.communicate(timeout=60)
            assert second.returncode == 2
            assert f"metrics.address: {address}: " in said
            assert "Traceback" not in said

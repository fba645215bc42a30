"""Whole crawls in another order than breadth first: real workers, real files, a real server."""

import json
import subprocess
import sys

import pytest

from skitter.events import Warned
from skitter.model import Level, State
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl_with, keys, settings_for


@pytest.fixture(scope="module")
def server():
    with serve_process(
        SyntheticWeb(seed=16, hosts=6, pages_per_host=8, features=Features.plain())
    ) as running:
        yield running


def why(path, url):
    command = [sys.executable, "-m", "skitter", "why", str(path), url, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("workers", [1, 2])
def test_importance_finds_every_page_and_says_what_it_took_from_the_file(server, tmp_path, workers):
    host = next(iter(server.web.resolve_map()))
    file = tmp_path / "ranks.csv"
    file.write_text(f"1,{host}\nrubbish\n")
    chosen = settings_for(
        server, scope__kind="any", schedule__strategy="importance", schedule__rank_file=str(file)
    )
    found = crawl_with(workers, tmp_path / "c", server.seeds(), chosen)
    assert found.keys == keys(server.truth("any").pages)
    said = [event.text for event in found.events if isinstance(event, Warned)]
    assert said == [
        f"{file} ranks 1 domains; 1 of its lines are neither rank,domain nor domain score (0 to 1)"
    ]
    ranked = [record for record in found.records.values() if record.state is State.CRAWLED]
    assert {record.level for record in ranked if f"//{host}" in record.url} <= {Level.CRITICAL, Level.HIGH}
    assert {record.level for record in ranked if f"//{host}" not in record.url} <= {
        Level.HIGH,
        Level.NORMAL,
        Level.LOW,
    }
    record = next(record for record in ranked if f"//{host}" in record.url and record.depth)
    told = why(tmp_path / "c", record.url)
    assert sum(term["points"] for term in told["score"]) == pytest.approx(record.score)

"""Whole crawls in another order than breadth first: real workers, real files, a real server."""

import json
import random
import subprocess
import sys
from collections import Counter

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


@pytest.mark.parametrize("strategy", ["larger-sites", "opic"])
def test_no_order_of_hosts_loses_a_page(server, tmp_path, strategy):
    chosen = settings_for(
        server, scope__kind="any", schedule__strategy=strategy, schedule__pressure=0.1, budget__linked_first=1,
        budget__linked_more=1_000,
    )  # fmt: skip
    found = crawl_with(2, tmp_path / "c", server.seeds(), chosen)
    assert found.keys == keys(server.truth("any").pages)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_links_do_not_allow_waits_and_goes_on_without_the_budget(server, tmp_path, workers):
    limited = {"scope__kind": "any", "budget__linked_first": 3, "budget__linked_more": 0}
    found = crawl_with(workers, tmp_path / "c", server.seeds(), settings_for(server, **limited))
    stored = Counter(page.domain for page in found.pages if 200 <= page.status < 300)
    assert max(stored.values()) == 3
    assert len(stored) > 1
    waiting = [
        record for record in found.records.values() if record.reason and record.reason.code == "budget.linked"
    ]
    assert found.report.counts.refused["budget.linked"] == len(waiting) > 0
    told = why(tmp_path / "c", waiting[0].url)
    assert "which allows 3; it waits until more do" in told["record"]["reason"]["detail"]
    allowance = told["budgets"][0]
    assert (allowance["limit"], allowance["used"], allowance["unit"]) == (3, 3, "pages")
    assert "others link" in allowance["of"]
    again = crawl_with(workers, tmp_path / "c", [], settings_for(server, scope__kind="any"))
    assert again.keys == keys(server.truth("any").pages)
    assert "budget.linked" not in again.report.counts.refused


# ------------------------------------------------------------------------------------------------ bad input


def test_a_scorer_that_returns_no_number_costs_no_page_and_is_written_down(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = tmp_path / "odd.py"
    plugin.write_text(
        "VALUES = [float('nan'), float('inf'), float('-inf'), 1e400 * 0, 10**400]\n"
        "def score(link): return VALUES[len(link.url) % len(VALUES)]\n"
    )
    chosen = settings_for(
        server, scope__kind="any", schedule__strategy="odd:score", crawl__plugins=[str(plugin)]
    )
    found = crawl_with(1, tmp_path / "c", server.seeds(), chosen)
    assert found.keys == keys(server.truth("any").pages)
    assert {record.score for record in found.records.values()} == {0.0}
    failures = [
        json.loads(line) for line in (tmp_path / "c" / "log" / "scorer.jsonl").read_text().splitlines()
    ]
    assert any("nan is not a finite number" in line["problem"] for line in failures)
    warned = [event.text for event in found.events if isinstance(event, Warned) and "scorer" in event.text]
    assert 1 <= len(warned) <= 3
    url = next(record.url for record in found.records.values() if record.state is State.CRAWLED)
    assert "is not a finite number" in why(tmp_path / "c", url)["unscored"]["problem"]


def test_a_rank_file_of_nothing_but_rubbish_is_reported_once_and_costs_no_page(server, tmp_path):
    file = tmp_path / "ranks.csv"
    dice = random.Random(1)
    lines = [dice.randbytes(dice.randrange(40)).replace(b"\n", b"") for _ in range(5_000)]
    file.write_bytes(
        b"\n".join([*lines, b"nan,nan.test", b"a.test inf", b"\x00" * 100_000, b"9" * 5_000 + b",x.test"])
    )
    chosen = settings_for(
        server, scope__kind="any", schedule__strategy="importance", schedule__rank_file=str(file)
    )
    found = crawl_with(1, tmp_path / "c", server.seeds(), chosen)
    assert found.keys == keys(server.truth("any").pages)
    said = [event.text for event in found.events if isinstance(event, Warned)]
    assert len(said) == 1
    assert "of its lines are neither rank,domain nor domain score" in said[0]
    assert all(0 <= record.score <= 1.5 for record in found.records.values())

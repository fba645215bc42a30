"""`skitter pages`: failures with the page that links to them, in any order, by type; read from a real crawl."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.export import ordering
from skitter.export.choosing import is_type
from skitter.testing.web import Features, Server, SyntheticWeb, serve
from tests.crawl.harness import crawl, settings_for


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=2, pages_per_host=6, features=Features(statuses=True))) as running:
        yield running


@pytest.fixture(scope="module")
def finished(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "crawl"
    settings = settings_for(server, crawl__shards=2, schedule__retry_base="1ms", schedule__retries=1)
    crawl(path, server.seeds(), settings)
    return path


def records(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["pages", *map(str, words), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_failures_name_the_page_that_links_to_them(finished, capsys):
    failed = records(capsys, finished, "--failed")
    by_state = {record["state"] for record in failed}
    assert by_state == {"crawled", "failed"}  # answered with an error, and given up
    for record in failed:
        assert record["linked_from"]
        assert record["status"] >= 400 or record["reason"]
    gone = next(record for record in failed if record["status"] == 404)
    assert main(["pages", str(finished), "--failed"]) == 0
    assert f"404  {gone['url']}  (linked from {gone['linked_from']})\n" in capsys.readouterr().out
    assert main(["pages", str(finished), "--status", "404"]) == 0
    assert f"(linked from {gone['linked_from']})" in capsys.readouterr().out


def test_failures_match_what_the_server_refused(finished, server, capsys):
    asked = {
        request.path for request in server.log() if request.status >= 400 and "robots" not in request.path
    }
    told = {record["url"].partition(f":{server.port}")[2] for record in records(capsys, finished, "--failed")}
    assert told <= asked
    assert told
    assert {target for target in asked if "404" in target} <= told


@pytest.mark.parametrize("order", ["url", "time", "size", "status", "depth", "title"])
@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_pages_are_sorted_also_when_they_do_not_fit_into_memory(finished, order, memory, capsys, monkeypatch):
    monkeypatch.setattr(ordering, "RUN", memory)
    field = {"time": "fetched_at"}.get(order, order)
    found = [record[field] for record in records(capsys, finished, "--sort", order)]
    expected = sorted(found, key=lambda value: value.casefold() if order == "title" else value)
    assert found == expected
    assert len(found) == len(records(capsys, finished))
    backwards = records(capsys, finished, "--sort", order, "--reverse", "--limit", 3)
    assert [record[field] for record in backwards] == expected[::-1][:3]


def test_pages_of_a_type(finished, capsys):
    every = records(capsys, finished)
    html = records(capsys, finished, "--type", "text/html", "--type", "pdf")
    assert {record["url"] for record in html} == {
        record["url"] for record in every if record["content_type"] == "text/html"
    }
    assert records(capsys, finished, "--type", "image/*") == []


@pytest.mark.parametrize(
    ("content_type", "wanted", "is_it"),
    [
        ("text/html", "text/html", True),
        ("text/html; charset=utf-8", "TEXT/HTML", True),
        ("text/html", "text/*", True),
        ("text/html", "text", True),
        ("application/pdf", "pdf", True),
        ("application/atom+xml", "xml", True),
        ("application/xhtml+xml", "html", True),
        ("application/vnd.ms-excel", "excel", True),
        ("text/html", "pdf", False),
        ("", "html", False),
    ],
)
def test_a_type_is_named_in_full_or_in_part(content_type, wanted, is_it):
    assert is_type(content_type, wanted) is is_it


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--reverse"], "--reverse needs --sort"),
        (["--failed", "--type", "pdf"], "--failed lists URLs"),
        (["--failed", "--sort", "title"], "--failed lists URLs"),
        (["--sort", "colour"], "invalid choice: 'colour'"),
    ],
)
def test_flags_that_do_not_go_together(flags, said, tmp_path, capsys):
    assert main(["pages", str(tmp_path), *flags]) == 2
    assert said in capsys.readouterr().err

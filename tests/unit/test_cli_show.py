"""`skitter show`: a stored page as a person wants to see it; read from a real crawl."""

import asyncio
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.cli import show as command
from skitter.testing.web import Features, Server, SyntheticWeb, serve
from tests.crawl.harness import crawl, settings_for
from tests.unit.crawled import ABOUT, COPY, CrawledSource, crawled


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=2, pages_per_host=6, features=Features(statuses=True))) as running:
        yield running


@pytest.fixture(scope="module")
def finished(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("show") / "crawl"
    crawl(path, server.seeds(), settings_for(server, schedule__retry_base="1ms", schedule__retries=1))
    return path


@pytest.fixture(scope="module")
def record(finished: Path) -> dict[str, object]:
    """A page with links, and a parent."""
    words = ["pages", str(finished), "--status", "200", "--sort", "depth", "--reverse", "--json"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    return next(one for one in found if one["parent"] and one["links_count"])


def shown(finished: Path, url: object, *words: str) -> int:
    return main(["show", str(finished), str(url), *words])


def test_the_first_screen_has_the_record_and_the_beginning_of_the_text(finished, record, capsys):
    assert shown(finished, record["url"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{record['url']}\n  status      200\n")
    assert str(record["title"]) in out
    assert f"linked from {record['parent']}" in out
    assert str(record["digest"]) in out
    assert shown(finished, record["url"], "--text") == 0
    assert capsys.readouterr().out.split()[:5] == out.partition("\n\n")[2].split()[:5]


def test_the_body_is_byte_for_byte_what_the_archive_has(finished, record, capfd):
    assert shown(finished, record["url"], "--html") == 0
    body = capfd.readouterr().out.encode()
    assert len(body) == record["size"]
    assert str(record["title"]).encode() in body


def test_header_fields_are_as_received(finished, record, capsys):
    assert shown(finished, record["url"], "--headers") == 0
    out = capsys.readouterr().out
    assert out.startswith("HTTP/1.1 200")
    assert len(out.splitlines()) == 1 + len(record["headers"])


def test_json_is_the_record_with_its_text(finished, record, capsys):
    assert shown(finished, record["url"], "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["text"]
    assert told | {"text": ""} == record | {"text": ""}


def test_links_say_what_became_of_each(finished, record, capsys):
    assert shown(finished, record["url"], "--links") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(set(lines))
    assert {line.split()[0] for line in lines} & {"200"}
    assert all("http" in line.split()[1] for line in lines)


def test_a_page_is_found_from_where_it_is_linked(finished, record, capsys):
    assert shown(finished, record["url"], "--linked-from") == 0
    sources = capsys.readouterr().out.splitlines()
    assert record["parent"] in sources
    assert shown(finished, sources[0], "--links") == 0
    assert record["url"] in capsys.readouterr().out


def test_a_url_without_a_page_says_so_and_names_the_command_that_tells_why(finished, record, capsys):
    unknown = str(record["url"]) + "/unheard-of"
    for words in ((), ("--text",), ("--linked-from",)):
        assert shown(finished, unknown, *words) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "was never found by this crawl; `skitter why`" in said.err
    assert shown(finished, "mailto:a@example.org") == 2


# ---------------------------------------------------------------------------------------------- a crawl in memory


@pytest.fixture
def source(tmp_path: Path) -> CrawledSource:
    return crawled(tmp_path)


def told(source: CrawledSource, url: str, *words: str) -> int:
    return asyncio.run(command._show(command.parser().read(["dir", url, *words]), source))


def test_a_page_that_repeats_another_shows_the_text_of_that_one(source, capsys):
    assert told(source, COPY, "--text") == 0
    assert capsys.readouterr().out == "Twelve words of text.\n"
    assert told(source, COPY) == 0
    assert f"repeats     {ABOUT}" in capsys.readouterr().out


def test_a_hostile_title_is_never_obeyed(source, capsys):
    assert told(source, ABOUT) == 0
    assert r"us\x1b[2J" in capsys.readouterr().out


def test_an_answer_that_is_lost_from_the_archive_is_said(source, capsys):
    assert told(source, "https://example.org/gone", "--html") == 1
    assert "cannot be read from the archive" in capsys.readouterr().err


def test_a_refused_url_is_answered_with_its_reason(source, capsys):
    assert told(source, "https://example.org/private/x") == 1
    assert "Disallow: /private/" in capsys.readouterr().err


def test_main_content_is_shown_without_the_library_if_asked_for(finished, record, capsys, monkeypatch):
    monkeypatch.setattr("skitter.parse.main.find_spec", lambda _name: None)
    assert shown(finished, record["url"], "--markdown") == 2
    assert "--extractor fast" in capsys.readouterr().err
    assert shown(finished, record["url"], "--markdown", "--extractor", "fast") == 0
    assert capsys.readouterr().out.strip()
    assert shown(finished, record["url"], "--extractor", "fast") == 2


def test_main_content_is_shown_as_markdown(finished, record, capsys):
    assert shown(finished, record["url"], "--markdown") == 0
    assert len(capsys.readouterr().out.split()) > 20

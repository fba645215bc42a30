"""`skitter search` and `skitter index` on the command line."""

import json
import signal
from collections.abc import AsyncIterator

import pytest

from skitter.backends.sqlite_fts import FtsIndex
from skitter.cli import main
from skitter.cli.search import block
from skitter.export.search.stored import BATCH
from skitter.export.search.text import Hit
from skitter.model import Directives, Page
from skitter.ports import EngineError
from tests.unit.crawled import NOW
from tests.unit.shelf import Shelf

ROOT = "https://example.org/"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A crawl directory `c` that the reading commands find."""
    made = Shelf(tmp_path / "c")

    async def open_source(_paths, _config):
        return made

    monkeypatch.setattr("skitter.compose.open_source", open_source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return made


def test_a_page_is_found_and_shown(shelf, capsys):
    shelf.put(ROOT, "Home", "Garden spiders weave.")
    shelf.put(f"{ROOT}other", "Other", "Nothing here.")
    assert main(["search", "c", "garden", "SPIDERS"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"Home\n  {ROOT}\n  Garden spiders weave. on write\n"
    assert captured.err == "skitter: 2 pages indexed\nskitter: 1 page found\n"


def test_nothing_found_is_exit_code_1(shelf, capsys):
    shelf.put(ROOT, "Home", "Garden spiders weave.")
    assert main(["search", "c", '"weave spiders"']) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "skitter: 1 page indexed\nskitter: nothing found\n"
    assert main(["search", "c", "beetle", "-q"]) == 1
    assert capsys.readouterr() == ("", "")
    assert main(["search", "c", "beetle", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"total": 0, "results": []}


def test_programs_get_json(shelf, capsys):
    for number in range(3):
        shelf.put(f"{ROOT}{number}", "Page", f"word number {number}")
    assert main(["search", "c", "word", "--json", "--limit", "2", "-q"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert captured.err == ""
    assert answer["total"] == 3
    first = answer["results"][0]
    assert set(first) == {"url", "title", "snippet", "matches", "score", "domain", "fetched_at"}
    ((start, end),) = first["matches"]
    assert first["snippet"][start:end] == "word"
    assert (first["domain"], first["fetched_at"]) == ("example.org", "2023-11-14T22:13:20.000Z")


def test_one_may_leaf_and_filter(shelf, capsys):
    for number in range(5):
        shelf.put(f"https://example.org/{number}", "Page", "word")
    shelf.put("https://other.example/", "Page", "word", language="de")
    assert main(["search", "c", "word", "--limit", "2", "--offset", "2"]) == 0
    assert "6 pages found, 3 to 4 shown" in capsys.readouterr().err
    assert main(["search", "c", "word", "--offset", "9"]) == 1
    assert "6 pages found, none after number 9" in capsys.readouterr().err
    assert main(["search", "c", "word", "--domain", "other.example"]) == 0
    assert capsys.readouterr().out.startswith("Page\n  https://other.example/\n")
    assert main(["search", "c", "word", "--language", "de", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == 1


def test_the_crawl_is_read_again_only_when_something_was_fetched(shelf, capsys):
    shelf.put(ROOT, "Home", "word")
    assert main(["search", "c", "word"]) == 0
    assert main(["search", "c", "word"]) == 0
    assert shelf.records.read == 1
    shelf.put(f"{ROOT}new", "New", "word", NOW + 1)
    capsys.readouterr()
    assert main(["search", "c", "word"]) == 0
    assert capsys.readouterr().err == "skitter: 1 page indexed\nskitter: 2 pages found\n"
    shelf.put(ROOT, "Home", "word", NOW + 2, robots=Directives(index=False))
    assert main(["search", "c", "word"]) == 0
    assert capsys.readouterr().err == "skitter: 0 pages indexed, 1 page removed\nskitter: 1 page found\n"


def test_unreadable_pages_are_reported_and_retried(shelf, capsys):
    for number in range(12):
        shelf.put(f"{ROOT}{number}", "Page", "word")
    kept = dict(shelf.answers)
    shelf.answers.clear()
    assert main(["search", "c", "word"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"skitter: {ROOT}0: its text cannot be read: 00-1.warc.gz has no whole record at 0"
    assert said[10:] == ["skitter: … and 2 more pages that could not be indexed", "skitter: nothing found"]
    shelf.answers.update(kept)
    assert main(["search", "c", "word"]) == 0


def test_an_interrupt_stops_between_batches_and_the_next_search_continues(shelf, capsys):
    for number in range(3 * BATCH):
        shelf.put(f"{ROOT}{number}", "Page", "word")
    pages = shelf.records.pages

    async def interrupted() -> AsyncIterator[Page]:
        async for page in pages():
            if shelf.records.read == BATCH + 1:
                signal.raise_signal(signal.SIGINT)
            yield page

    shelf.records.pages = interrupted
    assert main(["search", "c", "word"]) == 130
    assert capsys.readouterr() == ("", "skitter: interrupted\n")
    shelf.records.pages = pages
    assert main(["search", "c", "word"]) == 0
    assert f"skitter: {2 * BATCH} pages indexed\n" in capsys.readouterr().err


def test_a_damaged_index_is_exit_code_4_with_advice(shelf, capsys):
    shelf.directory.search_file.write_bytes(b"no database" * 500)
    assert main(["search", "c", "word"]) == 4
    said = capsys.readouterr().err
    assert said.endswith(
        "search.sqlite: file is not a database; delete it: it is made again from the crawl\n"
    )
    assert said.count("\n") == 1


def test_a_query_that_is_too_long_says_so(shelf, capsys):
    shelf.put(ROOT, "Home", "word")
    assert main(["search", "c", *["word"] * 99]) == 0
    assert "cut off" not in capsys.readouterr().err
    assert main(["search", "c", *map(str, range(99))]) == 1
    assert "the query is too long; its end was cut off" in capsys.readouterr().err


def test_a_page_cannot_control_the_terminal_and_matches_are_bold():
    hit = Hit(
        url=f"{ROOT}\x1b[2J",
        title="A\x1b]0;title\x07",
        snippet="one \x9bspider\u202e two",
        marks=[(5, 11)],
        score=1.0,
        domain="example.org",
        fetched_at=NOW,
    )
    shown = block(hit, bold=True)
    assert shown.splitlines()[0] == "\x1b[1mA\\x1b]0;title\\x07\x1b[0m"
    assert shown.splitlines()[2] == "  one \\x9b\x1b[1mspider\x1b[0m\\u202e two"
    assert "\x1b[1m" not in block(hit, bold=False)


# ------------------------------------------------------------------------------------------------ index


class Shared(FtsIndex):
    """Stands for the index of a cluster; it may get lost."""

    lost = ""

    async def held(self, keys):
        if self.lost:
            raise EngineError(self.lost)
        return await super().held(keys)


@pytest.fixture
def shared(shelf, tmp_path, monkeypatch):
    made = Shared(tmp_path / "shared.sqlite")
    monkeypatch.setattr("skitter.compose.searching.shared_index", lambda settings: made)
    (tmp_path / "cluster.toml").write_text('[search]\naddresses = ["http://127.0.0.1:9200"]\n')
    return made


def test_pages_are_put_into_the_index_once(shelf, shared, capsys):
    shelf.put(ROOT, "Home", "word")
    assert main(["index", "c", "--config", "cluster.toml"]) == 0
    assert capsys.readouterr() == ("1 page in the index\n", "skitter: 1 page indexed\n")
    assert main(["index", "c", "--config", "cluster.toml"]) == 0
    assert capsys.readouterr() == ("1 page in the index\n", "")
    assert main(["search", "word", "--config", "cluster.toml"]) == 0
    assert capsys.readouterr().out.startswith(f"Home\n  {ROOT}\n")
    assert not shelf.directory.search_file.exists()


def test_a_page_that_could_not_be_indexed_is_exit_code_1(shelf, shared, capsys):
    shelf.put(ROOT, "Home", "word")
    shelf.answers.clear()
    assert main(["index", "c", "--config", "cluster.toml"]) == 1
    assert "its text cannot be read" in capsys.readouterr().err


def test_an_engine_that_is_lost_on_the_way_is_exit_code_4(shelf, shared, capsys):
    shelf.put(ROOT, "Home", "word")
    shared.lost = "OpenSearch at http://127.0.0.1:9200: it is away; start it"
    assert main(["index", "c", "--config", "cluster.toml"]) == 4
    assert capsys.readouterr().err == f"skitter: {shared.lost}\n"


def test_an_engine_that_cannot_be_used_is_exit_code_2(shelf, shared, capsys, monkeypatch):
    async def fail() -> None:
        raise EngineError("OpenSearch at http://127.0.0.1:9200: it is opensearch 1.3; use OpenSearch 2")

    monkeypatch.setattr(shared, "open", fail)
    assert main(["index", "c", "--config", "cluster.toml"]) == 2
    assert main(["search", "word", "--config", "cluster.toml"]) == 2
    assert capsys.readouterr().err.count("\n") == 2

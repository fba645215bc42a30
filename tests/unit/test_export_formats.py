"""Exports: every format, line by line, from a crawl with a copy, a refusal and a lost record."""

import asyncio
import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.export.formats import FORMATS, PAGE_COLUMNS, row, safe
from skitter.reporting.format import printable
from tests.unit.crawled import ABOUT, COPY, ROOT, CrawledSource, crawled


@pytest.fixture
def source(tmp_path: Path) -> CrawledSource:
    return crawled(tmp_path)


def exported(source: CrawledSource, name: str) -> tuple[list[str], list[str]]:
    remarks: list[str] = []

    async def collect() -> list[str]:
        return [line async for line in FORMATS[name](source, remarks.append)]

    return asyncio.run(collect()), remarks


def test_jsonl_has_every_field_of_a_page_record(source):
    lines, _ = exported(source, "jsonl")
    records = {record["url"]: record for record in map(json.loads, lines)}
    assert set(records) == {ROOT, ABOUT, COPY, "https://example.org/gone"}
    assert list(records[ABOUT]) == [
        "url", "requested_url", "host", "domain", "status", "fetched_at", "depth", "parent", "content_type", "charset",
        "headers", "size", "title", "description", "author", "keywords", "language", "text", "digest", "simhash",
        "duplicate_of", "canonical", "robots", "etag", "last_modified", "links_count", "meta", "archive",
        "purpose",
    ]  # fmt: skip
    about = records[ABOUT]
    assert about["fetched_at"] == "2023-11-14T22:13:20.000Z"
    assert about["simhash"] == "00000000000000ab"
    assert about["robots"] == {"index": False, "follow": True, "ai": {}}
    assert about["archive"] == {"file": "00-1.warc.gz", "offset": 100, "length": 50}
    assert about["parent"] == ROOT
    assert records[ROOT]["parent"] is None
    assert about["headers"] == [["content-type", "text/html"]]


def test_the_text_comes_out_of_the_archive_again(source):
    lines, _ = exported(source, "jsonl")
    texts = {record["url"]: record["text"] for record in map(json.loads, lines)}
    assert texts[ROOT] == "Welcome"
    assert texts[ABOUT] == "Twelve words of text."


def test_the_text_of_an_exact_copy_is_that_of_its_twin(source):
    lines, _ = exported(source, "jsonl")
    texts = {record["url"]: record["text"] for record in map(json.loads, lines)}
    assert texts[COPY] == texts[ABOUT]


def test_a_record_that_cannot_be_read_gives_null_and_a_remark(source):
    lines, remarks = exported(source, "jsonl")
    gone = next(record for record in map(json.loads, lines) if record["status"] == 404)
    assert gone["text"] is None
    assert remarks == [
        "https://example.org/gone: its text cannot be read: 00-1.warc.gz has no whole record at 400"
    ]


def test_csv_has_flat_columns_and_no_formulas(source):
    lines, _ = exported(source, "csv")
    head, *rows = csv.reader(io.StringIO("".join(lines)))
    assert tuple(head) == PAGE_COLUMNS
    about = dict(zip(head, next(r for r in rows if r[0] == ABOUT), strict=True))
    assert about["title"].startswith("'=About ☃ us")
    assert (about["robots_index"], about["robots_follow"]) == ("false", "true")
    assert (about["archive_file"], about["archive_offset"]) == ("00-1.warc.gz", "100")
    assert about["canonical"] == ""


def test_urls_has_every_url_with_state_and_reason(source):
    lines, _ = exported(source, "urls")
    records = {record["url"]: record for record in map(json.loads, lines)}
    assert list(records[ROOT]) == [
        "url", "key", "state", "status", "reason", "depth", "parent", "priority", "score", "crawl_count", "last_crawl", "next_crawl",
        "hints", "purpose",
    ]  # fmt: skip
    assert records[ROOT]["state"] == "crawled"
    assert records[ROOT]["priority"] == "critical"
    assert records["https://example.org/private/x"]["reason"]["code"] == "robots"
    assert records["https://other.example/"]["reason"]["code"] == "scope.host"
    assert records["https://other.example/"]["state"] == "refused"


def test_links_are_source_and_target(source):
    lines, _ = exported(source, "links")
    head, *rows = csv.reader(io.StringIO("".join(lines)))
    assert head == ["source", "target"]
    assert [ROOT, ABOUT] in rows
    assert all(len(cells) == 2 for cells in rows)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_that_begins_like_a_formula_gets_an_apostrophe(text):
    assert safe(text) == f"'{printable(text)}"  # white space of any kind is a space in a table


@pytest.mark.parametrize("cell", ["plain", "a=b", "", None, -5, 1.5])
def test_other_cells_stay_as_they_are(cell):
    assert safe(cell) == cell


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2))
def test_any_text_survives_csv(cells):
    (read,) = csv.reader(io.StringIO(row(cells), newline=""))
    assert read == [safe(cell) for cell in cells]

"""Exports: every format, line by line, from a crawl with a copy, a refusal and a lost record."""

import asyncio
import csv
import gzip
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.crawl.directory import CrawlDirectory
from skitter.export.destination import destination
from skitter.export.formats import FORMATS, PAGE_COLUMNS, row, safe
from skitter.model import Place
from skitter.reporting.format import printable
from skitter.testing.reference import memory_frontier
from tests.unit.crawled import ABOUT, COPY, ROOT, CrawledSource, MemoryArchive, crawled

# Made of lines, from records and the archive alone; the others have tests of their own.
FORMATS_OF_LINES = tuple(file.name for file in (Path(__file__).parent / "exported").iterdir())


@pytest.fixture
def source(tmp_path: Path) -> CrawledSource:
    return crawled(tmp_path)


class Heard:
    """`Listener` that remembers."""

    def __init__(self) -> None:
        self.remarks: list[str] = []
        self.omitted: list[str] = []
        self.total: int | None = None
        self.name = ""
        self.count = 0

    def expect(self, total: int | None, one: str, many: str = "") -> None:
        self.total, self.name = total, one

    def done(self, number: int = 1) -> None:
        self.count += number

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def left_out(self, why: str) -> None:
        self.omitted.append(why)


def written(source: CrawledSource, name: str, out: str, **options: object) -> Heard:
    """A format written to a file or folder, as the command does it."""
    heard = Heard()
    with destination(out, **options) as files:  # type: ignore[arg-type]
        asyncio.run(FORMATS[name].write(source, files, heard))
    return heard


def exported(source: CrawledSource, name: str) -> tuple[list[str], list[str]]:
    file = source.directory.path / "exported"
    heard = written(source, name, str(file))
    return file.read_bytes().decode().splitlines(keepends=True), heard.remarks


# ---------------------------------------------------------------------------------------------- octet for octet


@dataclass
class Archived:
    """A record of an archive file."""

    place: Place
    fields: dict[str, str]
    block: bytes


def archived(file: str) -> Iterator[Archived]:
    answers = [
        ("https://example.org/b?x=1", 200),
        ("https://example.org/\u2603", 301),
        ("http://www.example.org/a", 404),
        ("https://example.org/b?x=1", 200),
    ]
    for number, (url, status) in enumerate(answers):
        head = f"HTTP/1.1 {status} X\r\nContent-Type: text/html; charset=utf-8\r\n\r\nbody".encode()
        fields = {
            "warc-type": "revisit" if number == 3 else "response",
            "warc-target-uri": url,
            "warc-date": f"2026-01-02T03:04:0{9 - number}.123Z",
        }
        yield Archived(Place(file, number * 100, 90), fields, head)
        digest = b"payload-digest: sha1:AB%d\r\n" % number
        yield Archived(Place(file, number * 100 + 90, 10), {"warc-type": "metadata"}, digest)


@pytest.fixture
def whole(source: CrawledSource, monkeypatch: pytest.MonkeyPatch) -> CrawledSource:
    """The crawl with files in its archive, and pages that need something to be shown."""

    async def files() -> list[str]:
        return ["00-1.warc.gz", "00-2.warc.gz"]

    async def assets() -> AsyncIterator[tuple[str, str]]:
        for name in ("style.css", "=formula.png", "\u2603.svg"):
            yield ROOT, f"https://static.example/{name}" if name[0] != "=" else name

    monkeypatch.setattr(source, "files", files)
    monkeypatch.setattr(source.frontier, "assets", assets)
    monkeypatch.setattr(source.archive, "records", archived)
    return source


@pytest.mark.parametrize("name", FORMATS_OF_LINES)
def test_every_format_of_lines_is_octet_for_octet_what_is_kept_beside_this_test(name, whole, tmp_path):
    """A change of a format is a change for every reader of it: whoever changes one writes these files again."""
    written(whole, name, str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == (Path(__file__).parent / "exported" / name).read_bytes()


@pytest.mark.parametrize("name", FORMATS_OF_LINES)
def test_a_compressed_export_holds_the_same_octets_and_is_always_the_same_file(name, whole, tmp_path):
    for file in ("a.gz", "b.gz"):
        written(whole, name, str(tmp_path / file), compress=True)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    plain = gzip.decompress((tmp_path / "a.gz").read_bytes())
    assert plain == (Path(__file__).parent / "exported" / name).read_bytes()


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("limit", [1, 400, 10**9])
@pytest.mark.parametrize("name", FORMATS_OF_LINES)
def test_a_split_export_has_the_same_lines_in_files_of_limited_size(name, whole, tmp_path, limit, compress):
    written(whole, name, str(tmp_path / "out"), split=limit, compress=compress)
    expected = (Path(__file__).parent / "exported" / name).read_bytes().splitlines(keepends=True)
    head = expected[:1] if name in {"csv", "links", "assets"} else []
    files = sorted((tmp_path / "out").iterdir())
    suffix = {"jsonl": ".jsonl", "urls": ".jsonl", "items": ".jsonl", "cdxj": ".cdxj"}.get(
        name, ".csv"
    ) + ".gz" * compress
    assert [file.name.partition("-")[2] for file in files] == [
        f"{number:05d}{suffix}" for number in range(1, len(files) + 1)
    ]
    found = []
    for file in files:
        octets = file.read_bytes()
        lines = (gzip.decompress(octets) if compress else octets).splitlines(keepends=True)
        assert lines[: len(head)] == head
        rows = lines[len(head) :]
        assert len(rows) == 1 or len(b"".join(lines)) <= limit
        found += rows
    assert head + found == expected
    assert (len(files) == 1) == (limit >= len(b"".join(expected)))


def test_an_export_of_nothing_is_an_empty_file_or_its_head(tmp_path):
    nothing = CrawledSource(memory_frontier(), MemoryArchive({}), CrawlDirectory(tmp_path))
    asyncio.run(nothing.frontier.open(0.0))
    written(nothing, "jsonl", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b""
    written(nothing, "links", str(tmp_path / "b"), split=10)
    assert (tmp_path / "b" / "links-00001.csv").read_bytes() == b"source,target\n"


@pytest.mark.parametrize(
    ("name", "called", "total", "count"),
    [("jsonl", "page", 4, 4), ("csv", "page", 4, 4), ("urls", "URL", 6, 6), ("links", "link", 6, 5), ("cdxj", "answer", None, 8)],
)  # fmt: skip
def test_every_format_says_how_far_it_is(name, called, total, count, whole, tmp_path):
    heard = written(whole, name, str(tmp_path / "out"))
    assert (heard.name, heard.total, heard.count) == (called, total, count)


def test_jsonl_has_every_field_of_a_page_record(source):
    lines, _ = exported(source, "jsonl")
    records = {record["url"]: record for record in map(json.loads, lines)}
    assert set(records) == {ROOT, ABOUT, COPY, "https://example.org/gone"}
    assert list(records[ABOUT]) == [
        "url", "requested_url", "host", "domain", "status", "fetched_at", "depth", "parent", "content_type", "charset",
        "headers", "size", "title", "description", "author", "keywords", "language", "text", "digest", "simhash",
        "duplicate_of", "canonical", "robots", "etag", "last_modified", "links_count", "meta", "archive",
        "purpose", "statements", "alternates", "media", "content", "canonical_verdict",
    ]  # fmt: skip
    about = records[ABOUT]
    assert about["fetched_at"] == "2023-11-14T22:13:20.000Z"
    assert about["simhash"] == "00000000000000ab"
    assert about["robots"] == {
        "index": False,
        "follow": True,
        "ai": {},
        "archive": True,
        "snippet": None,
        "unavailable_after": None,
        "rules": [],
    }
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

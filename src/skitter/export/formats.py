"""Export formats: each is a stream of lines made from the records and the archive.

Exports are derived: they can be made again at any time, also while the crawl runs. JSON lines hold
everything. CSV is for spreadsheets, which calculate cells that begin like a formula, so such text gets an
apostrophe in front (OWASP, "CSV injection"), and invisible characters are written as escapes (`\\u202e`).
Programs that need the exact text read the JSON lines.
"""

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TextIO

import msgspec

from skitter.export import reread
from skitter.export.cdxj import lines as index_lines
from skitter.export.cdxj import write_sorted
from skitter.export.source import Source
from skitter.model import Page
from skitter.reporting.format import escaped, printable
from skitter.reporting.records import page_record, url_record

PAGE_COLUMNS = (
    *(
        "url",
        "requested_url",
        "host",
        "domain",
        "status",
        "fetched_at",
        "depth",
        "parent",
        "content_type",
        "charset",
    ),
    *("size", "title", "description", "author", "keywords", "language", "digest", "simhash", "duplicate_of"),
    *("canonical", "robots_index", "robots_follow", "etag", "last_modified", "links_count"),
    *("archive_file", "archive_offset", "archive_length", "purpose"),
)
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # the last four: the full-width forms

Remark = Callable[[str], None]


Export = Callable[[Source, Remark], AsyncIterator[str]]


async def jsonl(source: Source, remark: Remark) -> AsyncIterator[str]:
    """One page record per line, with its text; null if the archive cannot give it, with a message."""
    encode = msgspec.json.Encoder().encode
    async for page in source.frontier.pages():
        record = page_record(page, "")
        record["text"] = await _text(page, source, remark)
        yield escaped(encode(record).decode()) + "\n"


async def _text(page: Page, source: Source, remark: Remark) -> str | None:
    try:
        document = await reread.document(page, source)
    except OSError as problem:
        remark(f"{page.url}: its text cannot be read: {problem}")
        return None
    if document is None:
        remark(f"{page.url}: its body is not in the archive")
        return None
    return document.text


async def page_csv(source: Source, _remark: Remark) -> AsyncIterator[str]:
    """One page per row, without text and headers."""
    yield row(PAGE_COLUMNS)
    async for page in source.frontier.pages():
        record = page_record(page, "")
        place = record["archive"] or {}
        flat = record | {
            "robots_index": page.robots.index,
            "robots_follow": page.robots.follow,
            **{f"archive_{name}": place.get(name) for name in ("file", "offset", "length")},
        }
        yield row(flat[name] for name in PAGE_COLUMNS)


async def url_lines(source: Source, _remark: Remark) -> AsyncIterator[str]:
    """One URL record per line, as JSON; including refused ones, with the reason."""
    encode = msgspec.json.Encoder().encode
    async for record in source.frontier.urls():
        yield escaped(encode(url_record(record)).decode()) + "\n"


async def link_csv(source: Source, _remark: Remark) -> AsyncIterator[str]:
    """One link per row."""
    yield row(("source", "target"))
    async for link in source.frontier.links():
        yield row(link)


def row(cells: Iterable[object]) -> str:
    """One row of CSV (RFC 4180, with plain line ends)."""
    line = io.StringIO()
    # The writer only quotes a bare carriage return if line ends contain one.
    csv.writer(line, lineterminator="\r\n").writerow([safe(cell) for cell in cells])
    return line.getvalue().removesuffix("\r\n") + "\n"


def safe(cell: object) -> object:
    """A cell that is safe in a spreadsheet: nothing invisible, and an apostrophe before text that would be
    calculated.
    """
    if isinstance(cell, str):
        shown = printable(cell)
        return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell


async def cdxj(source: Source, out: TextIO) -> int:
    """Write the index of the archive, sorted by key and time; returns the number of lines."""
    files = await source.files()
    archive, path_of = source.archive, source.path_of
    return write_sorted(
        (line for file in files for line in index_lines(archive.records(file), path_of(file))), out
    )


FORMATS: Mapping[str, Export] = {
    "jsonl": jsonl,
    "csv": page_csv,
    "urls": url_lines,
    "links": link_csv,
}

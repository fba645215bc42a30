"""The table of export formats, and those that consist of lines made from the records and the archive.

Exports are derived: they can be made again at any time, also while the crawl runs. JSON lines hold
everything. CSV is for spreadsheets, which calculate cells that begin like a formula, so such text gets an
apostrophe in front (OWASP, "CSV injection"), and invisible characters are written as escapes (`\\u202e`).
Programs that need the exact text read the JSON lines.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from skitter.export import items, rss
from skitter.export.canonicals import canonical
from skitter.export.cdxj import lines as index_lines
from skitter.export.markdown import CHUNKS, MARKDOWN
from skitter.export.mirror import FILES
from skitter.export.ordering import Ordered
from skitter.export.source import Source
from skitter.export.uses import Hidden, wanted
from skitter.export.wacz import WACZ
from skitter.export.writing import TURN, Destination, Format, Lines, Listener, remaining, turn
from skitter.model import Counts, Page
from skitter.reporting.format import escaped, printable
from skitter.reporting.records import page_record, url_record

if TYPE_CHECKING:
    from skitter.export.reread import Documents

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
    *("archive_file", "archive_offset", "archive_length", "purpose", "robots_archive", "ai"),
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


def _pages(counts: Counts) -> int:
    """About how many page records there are: 2xx, and other answers that are not worth a retry."""
    others = sum(
        number for status, number in counts.statuses.items() if 400 <= status < 500 and status != 429
    )
    return counts.pages + others


async def _jsonl(source: Source, into: Destination, told: Listener) -> None:
    """One page record per line, with its text; null if the archive cannot give it, with a message."""
    told.expect(_pages(await source.frontier.counts()), "page")
    encode = msgspec.json.Encoder().encode
    lines = Lines(into, "pages", ".jsonl")
    from skitter.export.alts import Alts  # noqa: PLC0415  parsers are slow to import; few formats need them
    from skitter.export.reread import Documents  # noqa: PLC0415  the same

    alts = Alts(source)
    async with Documents(source) as documents:
        async for page in remaining(wanted(source, told), into, told):
            record = page_record(await alts.told(page), "")
            record["text"] = await _text(page, documents, told)
            named = await canonical(page, source) if page.canonical and page.canonical != page.url else None
            record["canonical_verdict"] = (
                None if named is None else {"merged": named.merged, "why": named.why}
            )
            await lines.write(escaped(encode(record).decode()) + "\n", page.key)
            told.done()


async def _text(page: Page, documents: "Documents", told: Listener) -> str | None:
    try:
        document = await documents.document(page)
    except OSError as problem:
        told.remark(f"{page.url}: its text cannot be read: {problem}")
        return None
    if document is None:
        told.remark(f"{page.url}: its body is not in the archive")
        return None
    return document.text


async def _page_csv(source: Source, into: Destination, told: Listener) -> None:
    """One page per row, without text and headers."""
    told.expect(_pages(await source.frontier.counts()), "page")
    lines = Lines(into, "pages", ".csv", head=row(PAGE_COLUMNS))
    async for page in wanted(source, told):
        record = page_record(page, "")
        place = record["archive"] or {}
        flat = record | {
            "robots_index": page.robots.index,
            "robots_follow": page.robots.follow,
            "robots_archive": page.robots.archive,
            "ai": ", ".join(f"{use}={said}" for use, said in record["robots"]["ai"].items()),
            **{f"archive_{name}": place.get(name) for name in ("file", "offset", "length")},
        }
        await lines.write(row(flat[name] for name in PAGE_COLUMNS), page.key)
        told.done()


async def _url_lines(source: Source, into: Destination, told: Listener) -> None:
    """One URL record per line, as JSON; including refused ones, with the reason."""
    counts = await source.frontier.counts()
    told.expect(
        counts.queued + counts.leased + counts.crawled + counts.failed + sum(counts.refused.values()), "URL"
    )
    encode = msgspec.json.Encoder().encode
    lines = Lines(into, "urls", ".jsonl")
    async for record in source.frontier.urls():
        await lines.write(escaped(encode(url_record(record)).decode()) + "\n", record.key)
        told.done()


async def _link_csv(source: Source, into: Destination, told: Listener) -> None:
    """One link per row."""
    told.expect((await source.frontier.counts()).seen, "link")
    lines = Lines(into, "links", ".csv", head=row(("source", "target")))
    async for link in source.frontier.links():
        await lines.write(row(link), link[0])
        told.done()


async def _asset_csv(source: Source, into: Destination, told: Listener) -> None:
    """What pages need to be shown, one pair per row."""
    told.expect(None, "asset")
    lines = Lines(into, "assets", ".csv", head=row(("source", "asset")))
    async for pair in source.frontier.assets():
        await lines.write(row(pair), pair[0])
        told.done()


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


async def _cdxj(source: Source, into: Destination, told: Listener) -> None:
    """The index of the archive, sorted by key and time. Lines count when they are read; writing them takes less."""
    told.expect(None, "answer")
    lines = Lines(into, "index", ".cdxj")
    hidden = Hidden()
    async for _ in hidden.others(source, told):
        pass
    with Ordered() as ordered:
        for file in await source.files():
            found = index_lines(source.archive.records(file), source.path_of(file))
            for number, (url, line) in enumerate(found):
                if url not in hidden:
                    ordered.add(line)
                    told.done()
                if not number % TURN:
                    await turn()
        for line in ordered.lines():
            await lines.write(f"{line}\n")


async def _parquet(source: Source, into: Destination, told: Listener) -> None:
    """The five tables as Parquet files."""
    from skitter.export.tables import parquet  # noqa: PLC0415  DuckDB is an extra

    await parquet.write(source, wanted(source, told), into, told)


async def _sqlite(source: Source, into: Destination, told: Listener) -> None:
    """The same tables in one SQLite file."""
    from skitter.export.tables import sqlite  # noqa: PLC0415  only this format needs it

    await sqlite.write(source, wanted(source, told), into, told)


FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(name="jsonl", about="page records with their text", write=_jsonl, resumes=True),
        Format(
            name="csv",
            about="page records without text; cells that begin like a formula get an apostrophe in front",
            write=_page_csv,
            resumes=True,
        ),
        Format(
            name="urls",
            about="every URL with its state and reason, as JSON lines",
            write=_url_lines,
            resumes=True,
        ),
        Format(
            name="items",
            about="the items in the answers of an API, where parse.items_json says they are, as JSON lines",
            write=items.write,
            resumes=True,
        ),
        Format(name="links", about="source,target as CSV", write=_link_csv, resumes=True),
        Format(
            name="assets",
            about="what pages need to be shown: source,asset as CSV",
            write=_asset_csv,
            resumes=True,
        ),
        Format(
            name="cdxj",
            about="the index of the archive, without pages that ask for noarchive",
            write=_cdxj,
            archive_alone=True,
        ),
        rss.FORMAT,
        WACZ,
        MARKDOWN,
        CHUNKS,
        FILES,
        Format(
            name="parquet",
            about="a folder with pages.parquet, links.parquet, urls.parquet, requests.parquet and hosts.parquet, sorted, "
            "with the columns of Common Crawl's index first (needs the extra tables)",
            write=_parquet,
            streams=False,
            lines=False,
            tree=True,
            resumes=True,
        ),
        Format(
            name="sqlite",
            about="the same tables in one SQLite file, with indexes",
            write=_sqlite,
            streams=False,
            lines=False,
        ),
    )
}

"""Reads the tables from a crawl, possibly while it runs, in batches of rows."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from skitter.events import Lost, Requested
from skitter.export.source import Source
from skitter.export.tables.shapes import Row, Surt, host_row, page_row, remembering_surt, request_row, url_row
from skitter.export.uses import Uses
from skitter.export.writing import turn
from skitter.model import Counts, Page

BATCH = 10_000  # rows: few enough for memory, and enough that a call of the database does not count

_T = TypeVar("_T")
_line = msgspec.json.Decoder(Requested | Lost)


async def joined_pages(source: Source) -> AsyncIterator[Page]:
    """Every page, with what the files of its origin say about its uses."""
    uses = Uses(source)
    async for page in source.frontier.pages():
        yield await uses.joined(page)


def tables_of(
    source: Source, pages: AsyncIterator[Page], surt: Surt | None = None
) -> dict[str, AsyncIterator[Row]]:
    """The rows of each table by its name. `pages` are those to tell of."""
    surt, rules = surt or remembering_surt(), source.settings.urls
    crawl = Path(source.name).name
    return {
        "pages": _made(pages, partial(page_row, crawl=crawl, rules=rules, surt=surt)),
        "links": source.frontier.links(),  # they are rows already, and very many
        "urls": _made(source.frontier.urls(), partial(url_row, rules=rules, surt=surt)),
        "requests": _requests(source, surt),
        "hosts": _made(source.frontier.hosts(), host_row),
    }


async def batches(rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    """Rows by the thousands; the event loop gets a turn after each batch."""
    some: list[Row] = []
    async for row in rows:
        some.append(row)
        if len(some) == BATCH:
            yield some
            some = []
            await turn()
    if some:
        yield some


def about_how_many(counts: Counts) -> dict[str, int]:
    """About how many rows each table will have."""
    known = counts.queued + counts.leased + counts.crawled + counts.failed + sum(counts.refused.values())
    return {
        "pages": counts.pages,
        "links": counts.seen,
        "urls": known,
        "requests": counts.requests,
        "hosts": counts.hosts,
    }


async def _made(records: AsyncIterator[_T], make: Callable[[_T], Row]) -> AsyncIterator[Row]:
    async for record in records:
        yield make(record)


async def _requests(source: Source, surt: Surt) -> AsyncIterator[Row]:
    directories = getattr(source, "directories", None) or [
        source.directory
    ]  # a cluster's workers have one each
    for directory in directories:
        for request in logged(sorted((directory.path / "log").glob("requests-*.jsonl"))):
            yield request_row(request, surt)


def logged(paths: Iterable[Path]) -> Iterator[Requested | Lost]:
    """The requests in these logs. A line that is being written, or of another kind or version, is passed over."""
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                with suppress(msgspec.DecodeError):
                    yield _line.decode(line)

"""The format SQLite: the five tables in one file, with indexes. It needs nothing but Python.

Booleans are 0 and 1, times are ISO 8601 in UTC, and a SimHash is sixteen hexadecimal digits, since SQLite's integers have a sign.
"""

import asyncio
import errno
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from skitter.export.source import Source
from skitter.export.tables.rows import about_how_many, batches, tables_of
from skitter.export.tables.shapes import TABLES, Row, Table
from skitter.export.writing import Destination, Listener
from skitter.model import Page

_KINDS = {
    "BIGINT": "INTEGER",
    "SMALLINT": "INTEGER",
    "BOOLEAN": "INTEGER",
    "DOUBLE": "REAL",
}  # all others: TEXT
_INDEXES = {
    "pages": ("url", "key", "url_surtkey"),
    "links": ("source", "target"),
    "urls": ("url", "key"),
    "requests": ("url",),
    "hosts": ("url_host_name",),
}


async def write(source: Source, pages: AsyncIterator[Page], into: Destination, told: Listener) -> None:
    """Write the tables of a crawl, with these pages."""
    told.expect(sum(about_how_many(await source.frontier.counts()).values()), "row")
    file = into.path("crawl.sqlite")
    try:
        with closing(_opened(file)) as database:
            for name, rows in tables_of(source, pages).items():
                table = TABLES[name]
                _create(database, table)
                async for some in batches(rows):
                    _append(database, table, some)
                    told.done(len(some))
                for column in _INDEXES[name]:
                    index = f"create index {name}_{column} on {name} ({column})"
                    await _apart(database, lambda index=index: database.execute(index))  # type: ignore[misc]
            database.commit()
    except sqlite3.OperationalError as problem:
        full = "full" in str(problem)
        said = "No space left on device" if full else str(problem)
        raise OSError(errno.ENOSPC if full else errno.EIO, said, str(file)) from None


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    # The file has another name until it is whole and synced, so a journal would protect nothing.
    database.execute("pragma journal_mode = off")
    database.execute("pragma synchronous = off")
    database.execute("begin")
    return database


def _create(database: sqlite3.Connection, table: Table) -> None:
    columns = ", ".join(f"{name} {_KINDS.get(kind, 'TEXT')}" for name, kind in table.columns.items())
    database.execute(f"create table {table.name} ({columns})")


def _append(database: sqlite3.Connection, table: Table, rows: list[Row]) -> None:
    places = [place for place, kind in enumerate(table.columns.values()) if kind in _SAID]
    marks = ", ".join("?" * len(table.columns))
    statement = f"insert into {table.name} values ({marks})"  # noqa: S608  our names
    if not places:
        database.executemany(statement, rows)
        return
    says = [_SAID[kind] for kind in table.columns.values() if kind in _SAID]
    changed = []
    for row in rows:
        cells = list(row)
        for place, say in zip(places, says, strict=True):
            if cells[place] is not None:
                cells[place] = say(cells[place])
        changed.append(cells)
    database.executemany(statement, changed)


def _when(at: datetime) -> str:
    return f"{at.isoformat(timespec='milliseconds')}Z"


_SAID: dict[str, Callable[[Any], str]] = {"TIMESTAMP": _when, "UBIGINT": lambda number: f"{number:016x}"}


async def _apart(database: sqlite3.Connection, work: Callable[[], object]) -> None:
    """Do this in a thread. If the task is cancelled, SQLite is interrupted and waited for."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            database.interrupt()
            await asyncio.wait([working], timeout=0.05)
        working.exception()
        raise

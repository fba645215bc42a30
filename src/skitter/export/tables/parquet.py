"""The format Parquet: one file for each table, sorted and compressed with Zstandard, written by DuckDB.

Each table is read into DuckDB, which spills what does not fit into memory, then sorted into its file and dropped.
"""

from collections.abc import AsyncIterator

from skitter.export.source import Source
from skitter.export.tables.duck import database
from skitter.export.tables.rows import about_how_many, batches, tables_of
from skitter.export.tables.shapes import TABLES
from skitter.export.writing import Destination, Listener
from skitter.model import Page


async def write(source: Source, pages: AsyncIterator[Page], into: Destination, told: Listener) -> None:
    """Write the tables of a crawl, with these pages."""
    expected = about_how_many(await source.frontier.counts())
    expected = {name: number for name, number in expected.items() if not into.has(name)}
    told.expect(sum(expected.values()), "row")
    with database() as opened:
        for name, rows in tables_of(source, pages).items():
            if into.has(name):
                continue
            into.starts(name)
            into.whole()
            table = TABLES[name]
            opened.create(table)
            async for some in batches(rows):
                opened.append(table, some)
                told.done(len(some))
            await opened.write_parquet(table, into.path(f"{name}.parquet"))
            opened.drop(table)

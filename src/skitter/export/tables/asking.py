"""Questions in SQL about a crawl: its tables are loaded into DuckDB, which is then locked.

Only the tables that the questions name are loaded, so a question about pages does not wait for millions of links. A folder
that `export --format parquet` wrote is asked in the same way, without loading anything.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from skitter.export.checks import views
from skitter.export.source import Source
from skitter.export.tables.duck import MEMORY, Database, database, parquet_files
from skitter.export.tables.rows import batches, joined_pages, tables_of
from skitter.export.tables.shapes import PAGES, TABLES, Table, no_surt
from skitter.ports import StateError

_VIEWS = {"html_pages": "pages"}  # each with the table it is made of
_WORD = re.compile(r"\w+")


def tables_named(questions: Iterable[str]) -> list[str]:
    """The tables that these questions may need. A question that names none may ask about the tables themselves: all."""
    named: set[str] = set()
    for question in questions:
        words = {_VIEWS.get(word, word) for word in _WORD.findall(question.lower())}
        found = words & TABLES.keys()
        named |= found or TABLES.keys()
    return [name for name in TABLES if name in named]


def narrowed(table: Table, questions: Iterable[str]) -> Table:
    """The table with those columns alone that are named."""
    words = {word for question in questions for word in _WORD.findall(question)}
    return replace(table, columns={name: kind for name, kind in table.columns.items() if name in words})


@asynccontextmanager
async def crawl_database(
    source: Source,
    questions: Sequence[str],
    memory: int = MEMORY,
    told: Callable[[int], None] | None = None,
    *,
    ours: bool = False,
) -> AsyncIterator[Database]:
    """The tables of a crawl that these questions need, locked. `told` hears how many rows are loaded.

    Questions that are `ours` name every column they read, so that others are not even computed.
    """
    wanted = tables_named(questions)
    shapes = {
        name: narrowed(TABLES[name], [*questions, views()]) if ours else TABLES[name] for name in wanted
    }
    surt = None if any("url_surtkey" in shape.columns for shape in shapes.values()) else no_surt
    with database(memory) as opened:
        rows = tables_of(source, joined_pages(source), surt)
        for name, table in shapes.items():
            opened.create(table)
            async for some in batches(rows[name]):
                opened.append(table, some)
                if told is not None:
                    told(len(some))
        yield _locked(opened, wanted)


@asynccontextmanager
async def folder_database(
    folder: Path, questions: Sequence[str], memory: int = MEMORY
) -> AsyncIterator[Database]:
    """The tables in the Parquet files of a folder, locked: nothing else of the disk can be read."""
    files = parquet_files(folder)
    wanted = tables_named(questions)
    if missing := [name for name in wanted if name not in files]:
        raise StateError(
            f"{folder} has no {missing[0]}.parquet; export it again with: skitter export … --format parquet"
        )
    with database(memory) as opened:
        for name in wanted:
            opened.view(TABLES[name], files[name].resolve())
        yield _locked(opened, wanted, [files[name].resolve() for name in wanted])


def _locked(opened: Database, loaded: Sequence[str], files: Sequence[Path] = ()) -> Database:
    if PAGES.name in loaded:
        opened.define(views())
    opened.lock(files)
    return opened

"""DuckDB with limits and locks: it gets rows from us, spills into a temporary folder, and asks nobody for anything.

SQL may come from anywhere: a note, a web page, a language model. So once the tables are there, the database is locked: no
file, no network, no extension and no setting can be reached from SQL, and only one statement that reads is accepted. Memory
is limited, and a question can be interrupted.
"""

import asyncio
import errno
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct

from skitter.export.tables.shapes import TABLES, Row, Table
from skitter.ports import EngineError

if TYPE_CHECKING:
    import duckdb

MEMORY = 512 << 20  # octets that DuckDB may use before it spills
_SPILL = 16 << 30  # octets on disk that a stranger's question may use besides
_T = TypeVar("_T")
_READING = ("SELECT", "EXPLAIN")  # kinds of statements that strangers may ask


class QuestionError(Exception):
    """A question that cannot be answered; the message says why."""


class Answer(Struct, frozen=True):
    """The columns of an answer, and where its rows come from."""

    columns: Sequence[str]
    more: Callable[[int], Awaitable[list[Row]]]  # the next rows, at most so many; none at the end


class Database:
    """Tables of one crawl in DuckDB. Made by `database`."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def create(self, table: Table) -> None:
        """An empty table."""
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        self._connection.execute(f"create table {table.name} ({columns})")

    def append(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows, of which the table may have fewer columns.

        They go column by column as arrays of numpy, which is ten times faster than as JSON lines.
        """
        cells = zip(*rows, strict=True)
        given = {}
        for name, column in zip(TABLES[table.name].columns, cells, strict=True):
            if name in table.columns:
                given[name] = np.empty(len(rows), dtype=object)
                given[name][:] = column
        casts = ", ".join(f"cast({name} as {kind})" for name, kind in table.columns.items())
        self._connection.register("given", given)
        try:
            self._connection.execute(f"insert into {table.name} select {casts} from given")  # noqa: S608  our names
        finally:
            self._connection.unregister("given")

    def view(self, table: Table, file: Path) -> None:
        """A table that is read from a Parquet file."""
        self._connection.execute(f"create view {table.name} as from read_parquet({_quoted(str(file))})")

    def define(self, statements: str) -> None:
        """Views of our own."""
        self._connection.execute(statements)

    def drop(self, table: Table) -> None:
        """Forget a table."""
        self._connection.execute(f"drop table {table.name}")

    async def write_parquet(self, table: Table, file: Path) -> None:
        """The table, sorted, as a Parquet file."""
        order = ", ".join(table.order)
        copy = (
            f"copy (select * from {table.name} order by {order}) to {_quoted(str(file))} "  # noqa: S608  our names
            "(format parquet, compression zstd)"
        )
        try:
            await self.apart(lambda: self._connection.execute(copy))
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, str(file)) from None

    def lock(self, files: Sequence[Path] = ()) -> None:
        """From now on nothing outside can be reached, except these files, and no setting changes."""
        allowed = ", ".join(_quoted(str(file)) for file in files)
        self._connection.execute(f"set allowed_paths = [{allowed}]")
        self._connection.execute(f"set max_temp_directory_size = '{_SPILL}B'")
        self._connection.execute("set enable_external_access = false")
        self._connection.execute("set lock_configuration = true")

    async def ask(self, question: str) -> Answer:
        """The answer to one statement that reads. QuestionError if it is something else, or wrong."""
        import duckdb  # noqa: PLC0415  an extra

        cursor = self._connection.cursor()  # several answers may be read at a time
        try:
            statements = cursor.extract_statements(question)
        except duckdb.Error as problem:
            raise QuestionError(str(problem)) from None
        if len(statements) != 1 or statements[0].type.name not in _READING:
            raise QuestionError(
                "only one statement that reads is answered: SELECT, SHOW, DESCRIBE or EXPLAIN"
            )
        await self.apart(lambda: cursor.execute(statements[0]), cursor)
        names = [name for name, *_ in cursor.description or ()]
        return Answer(_distinct(names), lambda most: self.apart(lambda: cursor.fetchmany(most), cursor))

    async def apart(self, work: Callable[[], _T], busy: "duckdb.DuckDBPyConnection | None" = None) -> _T:
        """Do this in a thread. If the task is cancelled, DuckDB is interrupted and waited for."""
        connection = busy or self._connection
        working = asyncio.ensure_future(asyncio.to_thread(_said, work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            while not working.done():  # an interrupt that comes too early is forgotten
                connection.interrupt()
                await asyncio.wait([working], timeout=0.05)
            working.exception()  # it is heard: the interrupt
            raise


@contextmanager
def database(memory: int = MEMORY) -> Iterator[Database]:
    """An empty database in memory, which spills into a temporary folder. EngineError without DuckDB."""
    try:
        import duckdb  # noqa: PLC0415  an extra
    except ModuleNotFoundError as missing:
        if missing.name != "duckdb":
            raise
        from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

        raise EngineError(
            f"Parquet and SQL need DuckDB, which is not installed; install it with: {install_line('tables')}"
        ) from None

    with tempfile.TemporaryDirectory(prefix="skitter-tables-") as folder:
        connection = duckdb.connect(":memory:", config=_settings(memory, folder))
        try:
            yield Database(connection)
        except duckdb.Error as problem:
            raise _failure(problem) from None
        finally:
            connection.close()


def _settings(memory: int, folder: str) -> dict[str, Any]:
    return {
        "memory_limit": f"{memory}B",
        "temp_directory": folder,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "threads": min(4, os.cpu_count() or 1),  # each takes its part of the memory
    }


def _said(work: Callable[[], _T]) -> _T:
    """Do it. DuckDB's errors become ours: wrong questions, or a full disk or memory."""
    import duckdb  # noqa: PLC0415  an extra

    try:
        return work()
    except duckdb.Error as problem:
        raise _failure(problem) from None


def _failure(problem: "duckdb.Error") -> Exception:
    import duckdb  # noqa: PLC0415  an extra

    text = str(problem)
    if isinstance(problem, duckdb.OutOfMemoryException):
        first = text.partition("\n")[0]
        return OSError(errno.ENOMEM, f"more memory or temporary space is needed than allowed: {first}")
    if isinstance(problem, duckdb.IOException) and "Permission" not in text:
        full = "No space left on device" in text
        return OSError(errno.ENOSPC if full else errno.EIO, "No space left on device" if full else text)
    return QuestionError(text)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: a, b, a_2."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def parquet_files(folder: Path) -> Mapping[str, Path]:
    """The tables that were exported into a folder, by name; empty if it is no such folder."""
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    return {name: file for name, file in files.items() if file.is_file()}

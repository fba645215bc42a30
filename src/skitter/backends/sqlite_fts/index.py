"""A search index in one file: SQLite with FTS5, for a crawl on one machine.

It is derived data: the archive has the text, so a file of another version is emptied and filled again. Any
number of processes may search while one writes (write-ahead log); a second writer waits. Calls block for as
long as SQLite takes, as those of the other local stores do.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from urllib.parse import quote

from skitter.export.search.text import CLOSE, OPEN, Hit, Query, Results, clean, entry_id, spaced, unmarked
from skitter.ports import SEARCH_DEPTH, Entry, Rejected, StateError

_VERSION = (
    1  # of the schema, and of `clean` and `spaced`: the file must contain what they would produce today
)
_PATIENCE = 60.0  # seconds that a writer waits for another one; a batch takes less than a second
_TITLE_WEIGHT = (
    4.0  # weight of a word in the title, where one in the text counts 1; the OpenSearch index uses the same
)
_SNIPPET_WORDS = 32


def _sql(name: str) -> str:
    return resources.files("skitter.backends.sqlite_fts").joinpath(f"{name}.sql").read_text("utf-8")


_INSERT, _FIND, _COUNT, _SHOW = map(_sql, ("insert", "find", "count", "show"))


class FtsIndex:
    """`skitter.ports.SearchIndex` in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, and create its tables if it is new or of another version."""
        with self._told():
            self._connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
            if self._version() != _VERSION:
                self._db.execute("PRAGMA journal_mode = WAL")  # stored in the file
                self._prepare()
            # Without a sync per batch, a power loss may lose the last ones. The next update adds them again.
            self._db.execute("PRAGMA synchronous = NORMAL")

    async def index(self, entries: Sequence[Entry]) -> list[Rejected]:
        """Index pages, all of them in one transaction."""
        with self._writing() as db:
            for entry in entries:
                name, page = entry_id(entry.page.key), entry.page
                held = db.execute("SELECT number, fetched_at FROM pages WHERE id = ?", (name,)).fetchone()
                if held is not None and held[1] > page.fetched_at:
                    continue
                if held is not None:
                    db.execute("DELETE FROM pages WHERE number = ?", (held[0],))
                shown = [clean(field) for field in (page.url, page.host, page.domain, page.language.lower())]
                read = [spaced(clean(field)) for field in (page.title, page.text)]
                db.execute(_INSERT, (name, *shown, page.fetched_at, *read))
        return []

    async def delete(self, gone: Mapping[str, float]) -> None:
        """Remove pages."""
        rows = [(entry_id(key), at) for key, at in gone.items()]
        with self._writing() as db:
            db.executemany("DELETE FROM pages WHERE id = ? AND fetched_at <= ?", rows)

    async def held(self, keys: Sequence[str]) -> Mapping[str, float]:
        """When the indexed pages were fetched."""
        held = {}
        with self._told():
            for key in keys:
                row = self._db.execute(
                    "SELECT fetched_at FROM pages WHERE id = ?", (entry_id(key),)
                ).fetchone()
                if row is not None:
                    held[key] = row[0]
        return held

    async def search(self, query: Query, limit: int = 10, offset: int = 0) -> Results:
        """Search."""
        values: dict[str, str | float] = {
            "title_weight": _TITLE_WEIGHT,
            "match": " AND ".join(_phrase(term) for term in query.terms),
            "domain": query.domain,
            "language": query.language,
            "limit": max(0, min(limit, SEARCH_DEPTH - offset)),
            "offset": offset,
        }
        if not values["match"]:
            return Results()
        with self._reading() as db:
            (total,) = db.execute(_COUNT, values).fetchone()
            found = db.execute(_FIND, values).fetchall()
            return Results(total, [self._hit(number, score, str(values["match"])) for number, score in found])

    def _hit(self, number: int, score: float, match: str) -> Hit:
        cut = {"open": OPEN, "close": CLOSE, "snippet_words": _SNIPPET_WORDS}
        row = self._db.execute(_SHOW, {"match": match, "number": number} | cut).fetchone()
        url, title, snippet, domain, fetched_at = row
        plain, marks = unmarked(snippet)
        return Hit(
            url=url,
            title=unmarked(title)[0],
            snippet=plain,
            marks=marks,
            score=score,
            domain=domain,
            fetched_at=fetched_at,
        )

    async def refresh(self) -> None:
        """Do nothing: committed pages are searchable at once."""

    async def count(self) -> int:
        """Number of indexed pages."""
        with self._told():
            (number,) = self._db.execute("SELECT count(*) FROM pages").fetchone()
        return int(number)

    async def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def note(self, name: str) -> str:
        """The note of this name; empty if there is none."""
        with self._told():
            row = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return row[0] if row else ""

    def leave_note(self, name: str, value: str) -> None:
        """Store a note with the index: how far it is filled."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    # -------------------------------------------------------------------------------------------- the file

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the index is not open")
        return self._connection

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _prepare(self) -> None:
        with self._writing() as db:
            if self._version() == _VERSION:  # another process was faster
                return
            for table in ("words", "pages", "notes"):
                db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _statements(_sql("schema")):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction. It takes the write lock at once: a reader that becomes a writer may be refused."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent snapshot, whatever another process writes meanwhile."""
        with self._told():
            self._db.execute("BEGIN")
            try:
                yield self._db
            finally:
                self._db.execute("ROLLBACK")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what is wrong with the file, and what to do."""
        try:
            yield
        except sqlite3.DatabaseError as problem:
            raise StateError(f"{self._path}: {problem}; {_advice(problem)}") from None


def copied(source: Path, target: Path) -> None:
    """Copy the file of an index that is read-only, including its lock. If it cannot be copied, it is filled again."""
    where = f"file:{quote(str(source.resolve()))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(target)) as into:
        try:
            with closing(sqlite3.connect(where, uri=True)) as out_of:
                out_of.backup(into)
        except sqlite3.DatabaseError:  # it is damaged, or being written now
            target.unlink(missing_ok=True)


def _phrase(term: str) -> str:
    """A term for FTS5: in quotes, where only a quote has a meaning."""
    return '"{}"'.format(spaced(clean(term)).replace('"', '""'))


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _advice(problem: sqlite3.DatabaseError) -> str:
    said = str(problem)
    if "fts5" in said and "module" in said:
        return "install a Python whose SQLite has FTS5"
    if "locked" in said:
        return "another process fills it; try again"
    if "malformed" in said or "not a database" in said:
        return "delete it: it is made again from the crawl"
    return "see that it can be written and the disk has room"

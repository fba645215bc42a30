"""Which answers an archive has, by URL and time: an index in SQLite, made from lines of CDXJ.

It is derived: one that is missing or of another version is made again. For a crawl it lies in its directory, and only files
that have grown are read again; for a WACZ it is made from the index in it, in a temporary file.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from skitter import urls
from skitter.export.cdxj import REVISIT
from skitter.model import Place

_VERSION = 1
_SCHEMA = """
CREATE TABLE captures (
    key TEXT NOT NULL, stamp TEXT NOT NULL, url TEXT NOT NULL, status INTEGER NOT NULL, mime TEXT NOT NULL,
    digest TEXT NOT NULL, file TEXT NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
);
CREATE INDEX by_key ON captures (key, stamp);
CREATE INDEX by_digest ON captures (digest);
CREATE INDEX by_file ON captures (file);
CREATE TABLE files (name TEXT PRIMARY KEY, size INTEGER NOT NULL);
CREATE TABLE titles (url TEXT PRIMARY KEY, title TEXT NOT NULL);
"""
_FIELDS = "url, stamp, status, mime, digest, file, offset, length"
_PAGE = "status BETWEEN 200 AND 299 AND mime IN ('text/html', 'application/xhtml+xml', 'application/pdf', 'text/plain')"
_DIGITS = 14
_AT_ONCE = 1000  # rows
_PATIENCE = 60.0  # seconds: another replay of the same crawl may be filling the index


class Capture(Struct, frozen=True):
    """One archived answer."""

    url: str
    stamp: str  # 14 digits, UTC
    status: int
    mime: str
    digest: str
    place: Place

    @property
    def is_revisit(self) -> bool:
        """Whether its body is in the record of another answer."""
        return self.mime == REVISIT


class Captures:
    """The index. One thread at a time."""

    def __init__(self, file: Path | None) -> None:
        """`file` is made if it is missing; None: in memory, or where SQLite puts what is too large for it."""
        self._database = _opened(file)
        self._rows: list[tuple[object, ...]] = []

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    # -- filling -----------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """How much of each file is in the index."""
        return dict(self._database.execute("SELECT name, size FROM files"))

    def forget(self, file: str) -> None:
        """Drop what is known about a file."""
        self._database.execute("DELETE FROM captures WHERE file = ?", (file,))
        self._database.execute("DELETE FROM files WHERE name = ?", (file,))

    def add(self, lines: Iterable[str]) -> Iterator[int]:
        """Take lines of an index; yields now and then how many more there are. What is no line of CDXJ is passed over."""
        for line in lines:
            row = _row(line)
            if row is not None:
                self._rows.append(row)
            if len(self._rows) >= _AT_ONCE:
                self._store()
                yield _AT_ONCE
        self._store()

    def _store(self) -> None:
        self._database.executemany("INSERT INTO captures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", self._rows)
        self._rows.clear()

    def filled(self, file: str, size: int) -> None:
        """All of a file is in."""
        self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (file, size))
        self._database.commit()

    def entitle(self, titles: Iterable[tuple[str, str]]) -> None:
        """Titles of pages, by URL."""
        self._database.executemany("INSERT OR REPLACE INTO titles VALUES (?, ?)", titles)

    # -- asking ------------------------------------------------------------------------------------------------

    def title(self, url: str) -> str:
        """The title of a page, if it is known here."""
        found = self._database.execute("SELECT title FROM titles WHERE url = ?", (url,)).fetchone()
        return found[0] if found else ""

    def of(self, url: str, most: int = 1000) -> list[Capture]:
        """The answers to a URL in any spelling, by time."""
        found = f"SELECT {_FIELDS} FROM captures WHERE key = ? ORDER BY stamp LIMIT ?"  # noqa: S608  our own names
        return [_capture(row) for row in self._database.execute(found, (urls.surt(url), most))]

    def until(self, url: str, stamp: str, most: int = 1000) -> list[Capture]:
        """The answers to a URL in any spelling that had come by then, the newest first."""
        found = f"SELECT {_FIELDS} FROM captures WHERE key = ? AND stamp <= ? ORDER BY stamp DESC, rowid DESC LIMIT ?"  # noqa: S608
        return [_capture(row) for row in self._database.execute(found, (urls.surt(url), stamp, most))]

    def first(self) -> str:
        """The time of the first answer; empty if there is none."""
        return str(self._database.execute("SELECT min(stamp) FROM captures").fetchone()[0] or "")

    def nearest(self, url: str, stamp: str) -> list[Capture]:
        """The answers to a URL, the best first: those to exactly this spelling, then the nearest in time."""
        wanted = _seconds(stamp)
        return sorted(self.of(url), key=lambda one: (one.url != url, abs(_seconds(one.stamp) - wanted)))

    def with_digest(self, digest: str) -> Capture | None:
        """An answer whose body has this digest, and is there."""
        asked = f"SELECT {_FIELDS} FROM captures WHERE digest = ? AND mime != ? LIMIT 1"  # noqa: S608  see above
        row = self._database.execute(asked, (digest, REVISIT)).fetchone() if digest else None
        return None if row is None else _capture(row)

    def count(self) -> int:
        """How many answers there are."""
        return int(self._database.execute("SELECT count(*) FROM captures").fetchone()[0])

    def pages(self, words: Sequence[str], most: int, after: int) -> list[Capture]:
        """Pages by key, each once, at its last time; those with all words in URL or title."""
        where = " AND ".join(
            [
                _PAGE,
                *["(instr(lower(url), ?) OR url IN (SELECT url FROM titles WHERE instr(lower(title), ?)))"]
                * len(words),
            ]
        )
        named = f"SELECT {_FIELDS}, max(stamp) FROM captures WHERE {where} GROUP BY key ORDER BY key LIMIT ? OFFSET ?"  # noqa: S608
        values = [word.lower() for word in words for _ in range(2)]
        return [_capture(row[:-1]) for row in self._database.execute(named, (*values, most, after))]


def _opened(file: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(
        str(file) if file is not None else "", check_same_thread=False, timeout=_PATIENCE
    )
    try:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version == _VERSION:
            return database
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            database.execute(f'DROP TABLE "{table}"')
    except sqlite3.DatabaseError:  # it is no database: derived data is made again
        database.close()
        if file is None:
            raise
        file.unlink()
        database = sqlite3.connect(str(file), check_same_thread=False, timeout=_PATIENCE)
    database.executescript(f"{_SCHEMA} PRAGMA user_version = {_VERSION};")
    return database


def _row(line: str) -> tuple[object, ...] | None:
    key, _, rest = line.partition(" ")
    stamp, _, about = rest.partition(" ")
    try:
        said = json.loads(about)
        status = str(said.get("status", ""))
        return (
            urls.surt(said["url"]) or key,
            stamp[:_DIGITS].ljust(_DIGITS, "0") if stamp.isdigit() else "",
            str(said["url"]),
            int(status) if status.isdecimal() else 0,
            str(said.get("mime", "")),
            str(said.get("digest", "")),
            str(said["filename"]),
            int(said["offset"]),
            int(said["length"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _capture(row: Sequence[object]) -> Capture:
    url, stamp, status, mime, digest, file, offset, length = row
    return Capture(
        str(url),
        str(stamp),
        int(str(status)),
        str(mime),
        str(digest),
        Place(str(file), int(str(offset)), int(str(length))),
    )


def _seconds(stamp: str) -> int:
    """Nearly: good enough to tell which of two times is nearer."""
    year, month, day, hour, minute, second = (
        int(stamp[at:to]) for at, to in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
    )
    return ((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60 + second

"""A strict WARC checker: `python -m skitter.testing.warc_check FILE...` lists problems, and exits with 1 if
there are any.

WARC readers tolerate much: bare line feeds, repeated fields, garbage between records, one gzip member around
everything. An archive is read for decades by programs that tolerate other things, so this checker tolerates
nothing that the standard forbids. It shares no code with our writer, not even the decompression. Files of any
size are read in pieces, and record ids are kept in a temporary database on disk, so memory stays small.

After a problem it continues where it can: with the next gzip member, or at the next line that starts a
record. `rules` knows the named fields, `http` the messages in the blocks, `octets` the streams.
"""

import base64
import binascii
import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from skitter.testing.warc_check import rules
from skitter.testing.warc_check.http import HttpMessage
from skitter.testing.warc_check.octets import PIECE, BrokenError, Octets, members, plain
from skitter.testing.warc_check.rules import Complaint

__all__ = ["Problem", "check", "problems"]

_LINE = 1 << 16  # the longest line of a record's head, and …
_LINES = 1000  # … its maximum number of lines: the standard sets no limit, but memory does
_VERSION = re.compile(rb"(WARC/1\.[01])\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_FOLD = re.compile(rb"[ \t]+([^\x00-\x08\x0a-\x1f\x7f]*)")


class Problem(NamedTuple):
    """A problem, and its record: `offset` is where it (or its gzip member) begins in the file."""

    file: Path
    offset: int
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}: {self.rule}: {self.detail}"


def check(*paths: Path) -> list[Problem]:
    """All problems of these files, as one collection: record ids must be unique across them."""
    return list(problems(*paths))


def problems(*paths: Path) -> Iterator[Problem]:
    """The same, one by one as they are found."""
    with closing(_Ledger()) as ledger:
        for path in paths:
            for offset, complaint in _file(path, ledger):
                yield Problem(path, offset, *complaint)
        for path, offset, complaint in ledger.complaints():
            yield Problem(path, offset, *complaint)


# ------------------------------------------------------------------------------------------------ files


def _file(path: Path, ledger: "_Ledger") -> Iterator[tuple[int, Complaint]]:
    with path.open("rb") as file:
        magic = file.peek(2)[:2]
        if not magic:
            yield 0, Complaint("empty", "a WARC file holds at least one record")
        elif magic != b"\x1f\x8b":
            yield from _stream(path, plain(file), ledger)
        else:
            yield from _compressed(path, members(file), ledger)


def _compressed(
    path: Path, parts: Iterator[tuple[int, Octets]], ledger: "_Ledger"
) -> Iterator[tuple[int, Complaint]]:
    offset = 0
    try:
        for offset, octets in parts:
            before = ledger.count
            for _, complaint in _stream(path, octets, ledger, offset):
                yield offset, complaint
            if ledger.count - before != 1:
                held = f"this gzip member holds {ledger.count - before} records"
                yield offset, Complaint("gzip-member", f"{held}; it must hold exactly one (Annex D)")
    except BrokenError as broken:
        yield offset, Complaint(broken.rule, broken.detail)


def _stream(
    path: Path, octets: Octets, ledger: "_Ledger", member: int | None = None
) -> Iterator[tuple[int, Complaint]]:
    """Record after record. Errors of the compression itself are left to the caller."""
    while octets.peek(1):
        start = octets.position
        try:
            for complaint in _record(octets, ledger, path, start if member is None else member):
                yield start, complaint
        except BrokenError as broken:
            if broken.rule.startswith("gzip"):
                raise
            yield start, Complaint(broken.rule, broken.detail)
            _skip_to_record(octets)


def _skip_to_record(octets: Octets) -> None:
    while octets.peek(5) != b"WARC/" and octets.line(_LINE):
        pass


# ------------------------------------------------------------------------------------------------ one record


def _record(octets: Octets, ledger: "_Ledger", path: Path, offset: int) -> Iterator[Complaint]:
    first = octets.line(_LINE)
    version = _VERSION.fullmatch(first)
    if version is None:
        raise BrokenError("version", f"a record begins with WARC/1.1, not with {first[:60]!r}")
    ledger.count += 1
    lines = [first, *_head_lines(octets)]
    if not all(line.endswith(b"\r\n") for line in lines):
        yield Complaint("line-ending", "a line of the record's head does not end with CR LF")
    wrong: list[Complaint] = []
    fields, concurrent = _fields(lines[1:-1], wrong)
    yield from wrong
    yield from rules.complaints(version[1].decode(), fields, concurrent)
    yield from ledger.enter(path, offset, fields, concurrent)
    size = rules.length(fields.get("content-length", ""))
    if size is None:
        raise BrokenError("content-length", "without it nobody knows where the record ends")
    yield from _block(octets, size, fields)
    ending = octets.peek(4)
    if ending != b"\r\n\r\n":
        raise BrokenError(
            "record-end", f"two CR LF must follow the block, not {ending!r}: Content-Length is wrong?"
        )
    octets.take(4)
    following = octets.peek(5)
    if following and following != b"WARC/":
        raise BrokenError(
            "garbage", f"{following!r} follows a record, and is not the beginning of another one"
        )


def _head_lines(octets: Octets) -> Iterator[bytes]:
    for _ in range(_LINES):
        line = octets.line(_LINE)
        if not line.endswith(b"\n"):
            raise BrokenError("truncated", "the record ends inside its head, or a line of it is far too long")
        yield line
        if line in (b"\r\n", b"\n"):
            return
    raise BrokenError("header-size", f"the record's head has more than {_LINES} lines")


def _fields(lines: list[bytes], wrong: list[Complaint]) -> tuple[dict[str, str], list[str]]:
    """Fields by lower-cased name, folded lines (4) unfolded; and the values of WARC-Concurrent-To, which may repeat."""
    pairs: list[tuple[str, str]] = []
    for line in lines:
        bare = line.rstrip(b"\r\n")
        fold = _FOLD.fullmatch(bare)
        field = _FIELD.fullmatch(bare)
        try:
            if fold and pairs:
                pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {fold[1].decode().strip()}".strip())
            elif field:
                pairs.append((field[1].decode().lower(), field[2].decode().strip()))
            else:
                wrong.append(Complaint("field-syntax", f"{bare[:60]!r} is not a named field"))
        except UnicodeDecodeError:
            wrong.append(Complaint("utf-8", f"{bare[:60]!r} is not UTF-8"))
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            wrong.append(Complaint("repeated-field", f"{name} stands there more than once"))
        elif name != "warc-concurrent-to":
            fields[name] = value
    return fields, [value for name, value in pairs if name == "warc-concurrent-to"]


# ------------------------------------------------------------------------------------------------ its block


def _block(octets: Octets, size: int, fields: dict[str, str]) -> Iterator[Complaint]:
    kind = fields.get("warc-type", "")
    digest = _Digest(fields.get("warc-block-digest", ""))
    block = Octets(_limited(octets, size, digest))
    payload = _Digest(
        "" if kind == "revisit" or "warc-segment-number" in fields else fields.get("warc-payload-digest", "")
    )
    if fields.get("content-type", "").lower().startswith("application/http") and kind in rules.HTTP:
        yield from _http(block, payload, fields)
    else:
        while piece := block.take(PIECE):
            payload.update(piece)
    block.drain()
    if not digest.agrees():
        yield Complaint("block-digest", f"{digest.stated} is not the digest of the block")
    if not payload.agrees():
        yield Complaint("payload-digest", f"{payload.stated} is not the digest of the payload")


def _limited(octets: Octets, size: int, digest: "_Digest") -> Iterator[bytes]:
    left = size
    while left:
        piece = octets.take(min(left, PIECE))
        if not piece:
            raise BrokenError("truncated", f"the block should have {left} octets more")
        digest.update(piece)
        left -= len(piece)
        yield piece


def _http(block: Octets, payload: "_Digest", fields: dict[str, str]) -> Iterator[Complaint]:
    """Head and body must be consistent, unless the record says that the body was truncated."""
    kind = fields["warc-type"]
    if kind == "revisit" and not block.peek(1):
        return
    size = 0
    try:
        message = HttpMessage(block, "request" if kind == "request" else "response")
        if kind == "revisit":
            size = block.drain()
        for piece in message.payload():
            payload.update(piece)
        if len(message.codings) > 1:
            payload.stated = ""  # more than chunks to undo: we do not claim to know the payload
    except BrokenError as broken:
        if not broken.rule.startswith("http"):
            raise
        payload.stated = ""
        if "warc-truncated" not in fields:
            yield Complaint(broken.rule, broken.detail)
    if size and rules.IDENTICAL.fullmatch(fields.get("warc-profile", "")):
        yield Complaint("revisit", "a revisit for an identical payload holds a body all the same (6.7.2)")


class _Digest:
    """A stated digest, and the computed one."""

    def __init__(self, stated: str) -> None:
        self.stated = stated
        algorithm, _, self._value = stated.partition(":")
        name = algorithm.lower().replace("sha-", "sha")
        # Any algorithm is allowed (5.8); those we cannot compute are not checked.
        self._hash = (
            hashlib.new(name, usedforsecurity=False) if name in hashlib.algorithms_guaranteed else None
        )
        if name.startswith("shake"):
            self._hash = None

    def update(self, piece: bytes) -> None:
        if self._hash is not None:
            self._hash.update(piece)

    def agrees(self) -> bool:
        if self._hash is None or not self.stated:
            return True
        actual = self._hash.digest()
        if len(self._value) == 2 * len(actual):
            return self._value.lower() == actual.hex()
        if self._value == base64.b32encode(actual).decode():
            return True
        try:
            return (
                base64.b64decode(self._value, altchars=b"-_" if {*"-_"} & {*self._value} else None) == actual
            )
        except binascii.Error:
            return False


# ------------------------------------------------------------------------------------------------ between records


class _Ledger:
    """What must be kept of every record to compare it with others; in a temporary database on disk."""

    def __init__(self) -> None:
        self.count = 0
        self._base = sqlite3.connect("", isolation_level=None)
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("CREATE TABLE record (id TEXT PRIMARY KEY, date TEXT) WITHOUT ROWID")
        self._base.execute("CREATE TABLE tie (path TEXT, offset INTEGER, id TEXT, date TEXT)")

    def enter(
        self, path: Path, offset: int, fields: dict[str, str], concurrent: list[str]
    ) -> Iterator[Complaint]:
        name, date = fields.get("warc-record-id"), fields.get("warc-date", "")
        if name is not None:
            entered = self._base.execute("INSERT OR IGNORE INTO record VALUES (?, ?)", (name, date))
            if not entered.rowcount:
                yield Complaint("record-id-twice", f"{name} is the id of an earlier record too")
        rows = [(str(path), offset, other, date) for other in concurrent]
        self._base.executemany("INSERT INTO tie VALUES (?, ?, ?, ?)", rows)

    def complaints(self) -> Iterator[tuple[Path, int, Complaint]]:
        """Records of one capture share one date (5.4), wherever they are."""
        query = "SELECT path, offset, tie.id, tie.date, record.date FROM tie JOIN record USING (id) WHERE tie.date <> record.date"
        for path, offset, name, date, other in self._base.execute(query):
            detail = f"{date} is not the date of {name}, with which it is concurrent ({other})"
            yield Path(path), offset, Complaint("concurrent-date", detail)

    def close(self) -> None:
        self._base.close()

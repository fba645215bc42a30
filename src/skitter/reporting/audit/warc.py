"""WARC files as logs: anybody's, compressed by record, as a whole, or not at all.

A response record is a request: its date is when that began, as Heritrix, wget and Skitter write it. It does not tell
when the answer ended.
"""

import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import Struct

_PIECE = 1 << 18
_KEPT = 4 << 20  # of a block: a robots.txt is shorter
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[^\n]*\n")


class Answer(Struct, frozen=True):
    """An answer as it stands in an archive."""

    url: str
    at: float
    whole_seconds: bool  # its date has no fraction
    status: int
    headers: dict[str, str]  # names lower-cased, the first of each
    body: bytes  # as sent, up to a limit
    address: str = ""
    agent: str = ""  # the user agent of its request, where the file tells it before
    kind: str = "response"  # or revisit
    cut: bool = False


def answers(path: Path, *, robots_only: frozenset[str] | None = None) -> Iterator[Answer]:
    """The answers of a file, in order. `robots_only`: those of a robots.txt or of one of these URLs."""
    agent = ""
    for fields, block in _records(path):
        kind = fields.get("warc-type", "")
        if kind == "request":
            agent = _fields(block).get("user-agent", agent)
        url = fields.get("warc-target-uri", "").strip("<>")
        if kind not in {"response", "revisit"} or not url.startswith(("http://", "https://")):
            continue
        if robots_only is not None and not (url.endswith("/robots.txt") or url in robots_only):
            continue
        at = _moment(fields.get("warc-date", ""))
        status = re.match(rb"HTTP/[\d.]+ (\d{3})", block)
        if at is None or status is None:
            continue
        head, _, body = block.partition(b"\r\n\r\n")
        yield Answer(
            url=url, at=at, whole_seconds="." not in fields["warc-date"], status=int(status[1]), headers=_fields(head),
            body=body, address=fields.get("warc-ip-address", ""), agent=agent, kind=kind,
            cut=fields.get("warc-truncated") == "length" or len(block) >= _KEPT,
        )  # fmt: skip


def content(answer: Answer, limit: int) -> bytes:
    """The first bytes of an answer without its transfer and content codings. What cannot be undone stays as it is."""
    body = answer.body
    if "chunked" in answer.headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    for coding in reversed(answer.headers.get("content-encoding", "").lower().split(",")):
        body = _decoded(body, coding.strip(), limit)
    return body[:limit]


# ------------------------------------------------------------------------------------------------ records


def _records(path: Path) -> Iterator[tuple[dict[str, str], bytes]]:
    """Fields and block of each record; a long block is cut. Stops where the file is torn."""
    with path.open("rb") as raw:
        stream = _Inflated(raw) if raw.read(2) == b"\x1f\x8b" else _Plain(raw)
        raw.seek(0)
        while head := stream.head():
            fields = _fields(head)
            length = fields.get("content-length", "")
            if not head.startswith(b"WARC/") or not length.isdigit():
                return
            block = stream.take(int(length))
            if block is None:
                return
            yield fields, block


def _fields(head: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in head.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        found.setdefault(name.strip().lower(), value.strip())
    return found


class _Plain:
    """A file that is not compressed."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._held = b""

    def more(self) -> bytes:
        """The next bytes; none at the end."""
        return self._raw.read(_PIECE)

    def head(self) -> bytes:
        """The head of the next record, without its empty line."""
        while True:
            self._held = self._held.lstrip(b"\r\n")
            end = self._held.find(b"\r\n\r\n")
            if end >= 0:
                head, self._held = self._held[:end], self._held[end + 4 :]
                return head
            piece = self.more()
            if not piece or len(self._held) > _KEPT:
                return b""
            self._held += piece

    def take(self, length: int) -> bytes | None:
        """A block of this length, cut if it is long; None if the file ends before."""
        kept, left = self._held[: min(length, _KEPT)], length - len(self._held)
        pieces = [kept]
        held = len(kept)
        self._held = self._held[length:]
        while left > 0:
            piece = self.more()
            if not piece:
                return None
            part, self._held = piece[:left], piece[left:]
            left -= len(part)
            if held < _KEPT:
                pieces.append(part[: _KEPT - held])
                held += len(part)
        return b"".join(pieces)[:_KEPT]


class _Inflated(_Plain):
    """Members of gzip, one after the other."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(raw)
        self._inflate = zlib.decompressobj(31)
        self._rest = b""

    def more(self) -> bytes:
        while True:
            piece = self._rest or self._raw.read(_PIECE)
            if not piece:
                return b""
            try:
                out = self._inflate.decompress(piece, _PIECE)
            except zlib.error:
                return b""
            self._rest = self._inflate.unconsumed_tail
            if self._inflate.eof:
                self._rest = self._inflate.unused_data.lstrip(b"\0")
                self._inflate = zlib.decompressobj(31)
            if out:
                return out


# ------------------------------------------------------------------------------------------------ small questions


def _moment(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _unchunked(body: bytes) -> bytes:
    pieces, at = [], 0
    while found := _CHUNK.match(body, at):
        length = int(found[1], 16)
        if not length:
            break
        pieces.append(body[found.end() : found.end() + length])
        at = found.end() + length + 2
    return b"".join(pieces) if pieces or body.startswith(b"0") else body


def _decoded(body: bytes, coding: str, limit: int) -> bytes:
    try:
        if coding in {"gzip", "x-gzip", "deflate"}:
            return zlib.decompressobj(15 if coding == "deflate" else 31).decompress(body, limit)
        if coding == "br":
            import brotli  # noqa: PLC0415  few answers need it

            return bytes(brotli.decompress(body))[:limit]
        if coding == "zstd":
            import zstandard  # noqa: PLC0415  the same

            return zstandard.ZstdDecompressor().decompressobj().decompress(body)[:limit]
    except Exception:  # noqa: BLE001  three libraries, three kinds of errors: what cannot be decoded stays as it is
        return body
    return body

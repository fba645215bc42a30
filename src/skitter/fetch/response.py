"""What came back: raw bytes in, an Outcome out. Pure.

The header block is read leniently, as browsers do; the archive keeps the block itself. libcurl has already
refused what is not HTTP. Bodies are decoded, never producing more than the limit.
"""

import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum

import brotli
import zstandard
from isal import isal_zlib
from msgspec import Struct

from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    NotModified,
    Outcome,
    Purpose,
    Redirected,
)
from skitter.urls import resolve

Headers = Sequence[tuple[str, str]]

# RFC 9110 15.4: the statuses whose Location is the new place. 300 leaves the choice to a person.
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_CODED = ("content-encoding", "transfer-encoding")
_LISTS = (Purpose.SITEMAP, Purpose.FEED)
_BLANK = " \t\r"


def outcome(exchange: Exchange, limit: int, purpose: Purpose = Purpose.PAGE) -> Outcome:
    """The outcome of a complete answer. `limit` bounds the decoded content."""
    status, headers = read_head(exchange.head)
    wrong = _unusable(exchange, status)
    if wrong is not None:
        return wrong
    if status == 304:
        return NotModified(exchange, headers)
    location = first(headers, "location") if status in _REDIRECTS else ""
    if location:
        return Redirected(exchange, status, headers, resolve(location, exchange.url) or "", location)
    # A sitemap may be large: it is decoded while it is read (see `pieces`).
    if not any(name in _CODED for name, _ in headers) or (purpose in _LISTS and status < 400):
        return Fetched(exchange, status, headers, exchange.body, exchange.body)
    transferred = decode_transfer(exchange.body, codings(headers, "transfer-encoding"), limit)
    decoded = decode(transferred.content, codings(headers, "content-encoding"), limit)
    # RFC 9309 2.5: what exceeds the limit of a robots.txt is not read, the rest is in force.
    if Flaw.OVERSIZE in (transferred.flaw, decoded.flaw) and purpose is not Purpose.ROBOTS:
        return Failed(Fault.BOMB, f"more than {limit} bytes once decoded", exchange)
    return Fetched(exchange, status, headers, transferred.content, decoded.content)


def _unusable(exchange: Exchange, status: int) -> Failed | None:
    """What libcurl accepts and we do not."""
    if not exchange.head.endswith((b"\n\r\n", b"\n\n")):
        return Failed(Fault.RESET, "the connection ended in the middle of the header fields", exchange)
    if status < 200:
        return Failed(Fault.PROTOCOL, f"status {status} is no final answer", exchange)
    return None


def read_head(head: bytes) -> tuple[int, list[tuple[str, str]]]:
    """Status and header fields of a raw block: names lower-cased, in order, values on one line."""
    try:
        text = head.decode()
    except UnicodeDecodeError:
        text = "\n".join(_text(line) for line in head.split(b"\n"))
    status, *lines = text.split("\n")
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name.strip(_BLANK).lower(), value.strip(_BLANK).replace("\r", " ")))
    return _status(status), headers


def _text(raw: bytes) -> str:
    """RFC 9110 5.5: fields are ASCII; otherwise UTF-8 is likelier than Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _status(line: str) -> int:
    """The code of a status line (RFC 9112 4); 0 if there is none."""
    words = line.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0


def first(headers: Headers, name: str) -> str:
    """The value of the first field of that name, or ""."""
    for key, value in headers:
        if key == name:
            return value
    return ""


def codings(headers: Headers, name: str) -> list[str]:
    """The codings a field lists, in the order they were applied; the field may appear several times."""
    return [word for key, value in headers if key == name for word in value.lower().replace(",", " ").split()]


# ------------------------------------------------------------------------------------------------ decoding bodies
#
# Compressed bodies are untrusted: 34 bytes of Brotli can mean gigabytes. Every decoder here is asked for at
# most one byte more than the limit, so a bomb costs the limit and no more. Truncated or damaged bodies give
# what could be decoded before the damage; half a page has links too.

# More than any honest chain; every coding costs a pass over up to `limit` bytes.
MAX_CODINGS = 5
# How many members of one gzip body (RFC 1952 2.2) are read. A megabyte holds fifty thousand empty ones, each
# with a cost.
MAX_MEMBERS = 1000
# RFC 9659 3: a zstd window for HTTP is at most 8 MiB.
ZSTD_WINDOW = 8 * 2**20
_STEP = 64 * 1024  # input given to a decoder at once: bounds what it copies when a member ends
_PARTS = 10_000  # chunks joined at once: joining millions would not let another thread run for 0.1 s
_GZIP, _ZLIB, _BARE = 31, 15, -15  # wbits of zlib's inflateInit2
_GZIP_MAGIC = b"\x1f\x8b"


class Flaw(StrEnum):
    """What was wrong with a coded body."""

    OVERSIZE = "oversize"  # over the limit; the content is cut there
    TRUNCATED = "truncated"  # ended too early; the content is what was decoded
    CORRUPT = (
        "corrupt"  # damaged; the content is what was decoded before, or the body as it is if nothing was
    )
    UNKNOWN = "unknown"  # unknown coding, or too many; the content is the body as it is


class Decoded(Struct, frozen=True):
    """Decoded content, and what was wrong with the coding."""

    content: bytes
    flaw: Flaw | None = None


def decode(payload: bytes, codings: Sequence[str], limit: int) -> Decoded:
    """Undo content codings, listed in the order they were applied (RFC 9110 8.4)."""
    names = [name for name in codings if name not in ("identity", "")]
    if not names or not payload:
        return Decoded(payload)
    if len(names) > MAX_CODINGS or any(name not in _DECODERS for name in names):
        return Decoded(payload, Flaw.UNKNOWN)
    content, flaw = payload, None
    for name in reversed(names):
        step = _DECODERS[name](content, limit)
        flaw = step.flaw or flaw
        content = step.content
        if flaw is Flaw.OVERSIZE:
            break
    if flaw is Flaw.CORRUPT and not content:
        return Decoded(payload, flaw)
    return Decoded(content, flaw)


def decode_transfer(body: bytes, codings: Sequence[str], limit: int) -> Decoded:
    """The payload of a body as received (RFC 9112 6.1: chunked comes last, and may be the only coding)."""
    if codings and codings[-1] == "chunked":
        body, codings = unchunk(body), codings[:-1]
    return decode(body, codings, limit)


def unchunk(body: bytes) -> bytes:
    """The payload of a chunked body (RFC 9112 7.1); of a broken one, the part before the break.

    Extensions and trailers are ignored. libcurl has checked the framing of every complete answer.
    """
    wholes: list[bytes] = []
    parts: list[bytes] = []
    end = body.find(b"\n")
    at = 0
    while end >= 0:
        try:
            size = int(body[at:end].partition(b";")[0], 16)
        except ValueError:
            break
        if size <= 0:
            break
        start = end + 1
        at = start + size
        parts.append(body[start:at])
        if len(parts) == _PARTS:
            wholes.append(b"".join(parts))
            parts.clear()
        at += 2 if body.startswith(b"\r\n", at) else 1
        end = body.find(b"\n", at)
    return b"".join([*wholes, *parts]) if wholes else b"".join(parts)


def _gzip(data: bytes, limit: int) -> Decoded:
    return _inflate(data, limit, _GZIP)


def _deflate(data: bytes, limit: int) -> Decoded:
    """RFC 9110 8.4.1.2 says zlib format; some servers send the raw deflate stream."""
    zlib_format = len(data) > 1 and data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return _inflate(data, limit, _ZLIB if zlib_format else _BARE)


def _inflate(data: bytes, limit: int, wbits: int) -> Decoded:
    """Deflate in one of its wrappers; gzip may have several members in a row (RFC 1952 2.2)."""
    view, at, begin, members = memoryview(data), 0, 0, 0
    parts: list[bytes] = []
    done = 0  # output of finished members
    room = limit + 1
    stream = isal_zlib.decompressobj(wbits)
    while at < len(view):
        piece = view[at : at + _STEP]
        try:
            out = stream.decompress(piece, room)
        except isal_zlib.error:  # type: ignore[misc]  # its stub types the class as an instance
            whole = b"".join(parts[:done])
            rescued = _salvage(view[begin:at], piece, limit - len(whole), wbits)
            return Decoded(whole + rescued, Flaw.CORRUPT)
        parts.append(out)
        room -= len(out)
        if room <= 0:
            return _cut(parts, limit)
        at += len(piece)
        if stream.eof:
            members += 1
            at -= len(stream.unused_data)
            done, begin = len(parts), at
            if view[at : at + 2] != _GZIP_MAGIC or wbits != _GZIP or members == MAX_MEMBERS:
                break  # anything else after the end is padding or garbage, and ignored
            stream = isal_zlib.decompressobj(wbits)
    return Decoded(b"".join(parts), None if stream.eof else Flaw.TRUNCATED)


def _cut(parts: list[bytes], limit: int) -> Decoded:
    """The first `limit` bytes of parts of which only the last exceeds it."""
    parts[-1] = parts[-1][: limit - sum(map(len, parts))]
    return Decoded(b"".join(parts), Flaw.OVERSIZE)


def _salvage(good: memoryview, bad: memoryview, room: int, wbits: int) -> bytes:
    """What a damaged stream gives before the damage, which is in `bad`: a failing call returns nothing at all."""
    stream = zlib.decompressobj(wbits)
    parts: list[bytes] = []
    for piece in (good, *(bad[at : at + 1] for at in range(len(bad)))):
        if room <= 0:
            break
        try:
            out = stream.decompress(piece, room)
        except zlib.error:
            break
        parts.append(out)
        room -= len(out)
    return b"".join(parts)


def _brotli(data: bytes, limit: int) -> Decoded:
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    room = limit
    while room >= 0:
        try:
            out = stream.process(data, output_buffer_limit=_STEP)
        except brotli.error:
            return Decoded(b"".join(parts), Flaw.CORRUPT)
        parts.append(out)
        room -= len(out)
        data = b""
        if stream.is_finished():
            break
        if not out:
            return Decoded(b"".join(parts), Flaw.TRUNCATED)
    return Decoded(b"".join(parts)) if room >= 0 else _cut(parts, limit)


def _zstd(data: bytes, limit: int) -> Decoded:
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(
        data, read_across_frames=True
    )
    parts: list[bytes] = []
    room = limit + 1
    while room > 0:
        try:
            out = reader.read(min(room, _STEP))
        except zstandard.ZstdError:
            return Decoded(b"".join(parts), Flaw.CORRUPT)
        if not out:
            return Decoded(b"".join(parts))
        parts.append(out)
        room -= len(out)
    return _cut(parts, limit)


_DECODERS: dict[str, Callable[[bytes, int], Decoded]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,  # RFC 9110 8.4.1.3
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}

"""Decoding bodies, never producing more than the limit.

Compressed bodies are untrusted: 34 bytes of Brotli can mean gigabytes. Every decoder here is asked for at
most one byte more than the limit, so a bomb costs the limit and no more. Truncated or damaged bodies give
what could be decoded before the damage; half a page has links too.
"""

import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum

import brotli
import zstandard
from isal import isal_zlib
from msgspec import Struct

# More than any honest chain; every coding costs a pass over up to `limit` bytes.
MAX_CODINGS = 5
# How many members of one gzip body (RFC 1952 2.2) are read. A megabyte holds fifty thousand empty ones, each
# with a cost.
MAX_MEMBERS = 1000
# RFC 9659 3: a zstd window for HTTP is at most 8 MiB.
ZSTD_WINDOW = 8 * 2**20
_STEP = 64 * 1024  # input given to a decoder at once: bounds what it copies when a member ends
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
        at += 2 if body.startswith(b"\r\n", at) else 1
        end = body.find(b"\n", at)
    return b"".join(parts)


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

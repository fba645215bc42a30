"""The content of an answer, piece by piece: framing and codings undone as a stream, with memory for one piece only.

For sitemaps and feeds, which may be large (50 MiB by their protocol) and are read in one pass. A bomb costs what is
asked for: the next piece is decoded when the last one was used. What is truncated or damaged gives the pieces before.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import IO, cast

import brotli
import zstandard
from isal import isal_zlib

from skitter.fetch.response import MAX_CODINGS, MAX_MEMBERS, ZSTD_WINDOW, codings, read_head
from skitter.model import Exchange

SIZE = 64 * 1024  # bytes of a piece, at most
_GZIP, _ZLIB, _BARE = 31, 15, -15
_MAGIC = b"\x1f\x8b"
_LONGEST_LINE = 4096  # bytes of the line before a chunk; extensions are rare

Pieces = Iterable[bytes]


def payload(exchange: Exchange) -> Iterator[bytes]:
    """The entity of an answer: the framing removed, codings still on."""
    _, headers = read_head(exchange.head)
    transfer = codings(headers, "transfer-encoding")
    return _unchunked(_raw(exchange)) if transfer[-1:] == ["chunked"] else _raw(exchange)


def content(exchange: Exchange) -> Iterator[bytes]:
    """The decoded content of an answer. A body that is gzip by its first bytes is unpacked too, whatever its name."""
    _, headers = read_head(exchange.head)
    coded = (*codings(headers, "content-encoding"), *codings(headers, "transfer-encoding"))
    names = [name for name in coded if name not in ("identity", "chunked", "")]
    pieces: Pieces = payload(exchange)
    if len(names) <= MAX_CODINGS and all(name in _DECODERS for name in names):
        for name in reversed(names):
            pieces = _DECODERS[name](pieces)
    return _unpacked(pieces)


def _raw(exchange: Exchange) -> Iterator[bytes]:
    body = memoryview(exchange.body)
    for at in range(0, len(body), SIZE):
        yield bytes(body[at : at + SIZE])
    if exchange.rest is not None:
        exchange.rest.seek(0)
        while piece := exchange.rest.read(SIZE):
            yield piece


def _unchunked(pieces: Pieces) -> Iterator[bytes]:
    """RFC 9112 7.1. Extensions and trailers are ignored; libcurl has checked the framing of a complete answer.

    All chunks in a piece come out together: hostile ones have one byte each.
    """
    waiting, left = b"", 0  # bytes of the framing, and of the current chunk
    for piece in pieces:
        data = waiting + piece if waiting else piece
        waiting, at, found = b"", 0, []
        while at < len(data):
            if left:
                found.append(data[at : at + left])
                at, left = at + left, max(0, left - (len(data) - at))
                continue
            if data[at] in b"\r\n":
                at += 1
                continue
            end = data.find(b"\n", at)
            if end < 0:
                waiting = data[at:]
                break
            left = _chunk_size(data[at:end])
            at = end + 1
            if left <= 0:
                break
        if found:
            yield b"".join(found)
        if len(waiting) > _LONGEST_LINE or left < 0:
            return


def _chunk_size(line: bytes) -> int:
    """Bytes of a chunk; negative for the last one, and for a line that is none: nothing is read after them."""
    try:
        return int(line.partition(b";")[0], 16) or -1
    except ValueError:
        return -1


def _unpacked(pieces: Pieces) -> Iterator[bytes]:
    """Gzip is known by its first bytes: names and media types of sitemaps are often wrong (.xml.gz already decoded)."""
    start, stream = b"", iter(pieces)
    for piece in stream:
        start += piece
        if len(start) >= len(_MAGIC):
            break
    every = _joined(start, stream)
    return _gzip(every) if start.startswith(_MAGIC) else every


def _joined(start: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from _small(start)
    yield from rest


def _small(piece: bytes) -> Iterator[bytes]:
    for at in range(0, len(piece), SIZE):
        yield piece[at : at + SIZE]


def _inflated(pieces: Pieces, window: int) -> Iterator[bytes]:
    """All members of a gzip or zlib stream."""
    stream, members, begun = isal_zlib.decompressobj(window), 1, False
    for piece in pieces:
        data, full = piece, False
        while data or full:  # after a full piece, it may hold more than it was given
            if stream.eof:  # what follows is another member, or padding
                if not data.startswith(_MAGIC) or members >= MAX_MEMBERS:
                    return
                stream, members = isal_zlib.decompressobj(window), members + 1
            try:
                out = stream.decompress(data, SIZE)
            except isal_zlib.error:  # type: ignore[misc]  # its stub types the class as an instance
                if begun or window != _ZLIB:
                    return
                # Many servers send deflate without the zlib header that RFC 9110 8.4.1.2 asks for.
                stream, window = isal_zlib.decompressobj(_BARE), _BARE
                continue
            begun = True
            if out:
                yield out
            full = len(out) == SIZE and not stream.eof
            data = stream.unused_data if stream.eof else stream.unconsumed_tail


def _gzip(pieces: Pieces) -> Iterator[bytes]:
    return _inflated(pieces, _GZIP)


def _deflate(pieces: Pieces) -> Iterator[bytes]:
    return _inflated(pieces, _ZLIB)


def _brotli(pieces: Pieces) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    for piece in pieces:
        data = piece
        while True:
            try:
                out = stream.process(data, output_buffer_limit=SIZE)
            except brotli.error:
                return
            data = b""
            yield from _small(out)  # the limit is a wish
            if stream.is_finished():
                return
            if not out:  # it needs more
                break


def _zstd(pieces: Pieces) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).stream_reader(
        cast("IO[bytes]", _Source(pieces)), read_across_frames=True, read_size=SIZE
    ) as reader:
        try:
            while out := reader.read(SIZE):
                yield out
        except zstandard.ZstdError:
            return


class _Source:
    """Pieces as something that can be read."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = iter(pieces)
        self._left = b""

    def read(self, size: int) -> bytes:
        """At most so many bytes; empty at the end."""
        if not self._left:
            self._left = next(self._pieces, b"")
        out, self._left = self._left[:size], self._left[size:]
        return out


_DECODERS: dict[str, Callable[[Pieces], Iterator[bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}

"""A stream of bytes that is read by lines and by lengths, in bounded memory.

The same class reads a file, the inside of a gzip member, the block of a record and the body of an HTTP
message: each is a stream made from the pieces of the one around it.
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

PIECE = 1 << 16


class BrokenError(Exception):
    """The stream cannot be read any further: `rule` names what it violates."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


class Octets:
    """Pieces, read as one stream."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = b""
        self._at = 0
        self.position = 0  # bytes read so far

    def peek(self, count: int) -> bytes:
        """Peek at the next bytes; fewer at the end."""
        while len(self._piece) - self._at < count:
            more = next(self._pieces, b"")
            if not more:
                break
            self._piece = self._piece[self._at :] + more
            self._at = 0
        return self._piece[self._at : self._at + count]

    def take(self, most: int) -> bytes:
        """Read at least one byte and at most this many; none at the end."""
        if not self.peek(1):
            return b""
        taken = self._piece[self._at : self._at + most]
        self._at += len(taken)
        self.position += len(taken)
        return taken

    def line(self, limit: int) -> bytes:
        """Read up to and including the next line feed; without one at the end of the stream, or at the limit."""
        pieces, left = [], limit
        while left and self.peek(1):
            end = self._piece.find(b"\n", self._at, self._at + left)
            pieces.append(self.take(left if end < 0 else end + 1 - self._at))
            left -= len(pieces[-1])
            if end >= 0:
                break
        return b"".join(pieces)

    def give_back(self, octets: bytes) -> None:
        """Put back what was read last."""
        self._piece = octets + self._piece[self._at :]
        self._at = 0
        self.position -= len(octets)

    def drain(self) -> int:
        """Read the rest; returns its length."""
        before = self.position
        while self.take(PIECE):
            pass
        return self.position - before


def plain(file: BinaryIO) -> Octets:
    """The pieces of a plain file."""
    return Octets(iter(lambda: file.read(PIECE), b""))


def members(file: BinaryIO) -> Iterator[tuple[int, Octets]]:
    """The gzip members of a file (RFC 1952 2.2), each with the offset at which it begins."""
    raw = plain(file)
    while raw.peek(1):
        start = raw.position
        inflated = Octets(_inflated(raw))
        yield start, inflated
        inflated.drain()


def _inflated(raw: Octets) -> Iterator[bytes]:
    inflate = zlib.decompressobj(31)
    while not inflate.eof:
        deflated = inflate.unconsumed_tail or raw.take(PIECE)
        try:
            piece = inflate.decompress(deflated, PIECE)
        except zlib.error as error:
            raise BrokenError("gzip", f"this is not a gzip member: {error}") from error
        if piece:
            yield piece
        elif not deflated:
            raise BrokenError("gzip-truncated", "the file ends inside a gzip member")
    raw.give_back(inflate.unused_data)

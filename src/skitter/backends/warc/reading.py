"""Reading the archive back: one record at its place, or all records of a file in order.

A reader is stateless, so exports and `why` may read while the crawl writes. It trusts nothing: a place must
hold one complete gzip member with a correct checksum and a block of the stated length.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from isal import isal_zlib

from skitter.model import Place

_PIECE = 1 << 20
INFLATE_ERROR = cast("type[Exception]", isal_zlib.error)  # its type stub declares the class as an instance


class DamagedRecordError(OSError):
    """There is no complete record where one was written. The message says where."""


class Record(NamedTuple):
    """One record: its place, its fields (names lower-cased), its block, and the gzip member that it is."""

    place: Place
    fields: dict[str, str]
    block: bytes
    member: bytes


class Reader:
    """Reads the archive files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, place: Place) -> bytes:
        """The block of the record at a place: the HTTP message, or for a revisit only its head."""
        return self.record(place).block

    def record(self, place: Place) -> Record:
        """The record at a place."""
        if Path(place.file).name != place.file:
            raise DamagedRecordError(f"{place.file!r} is not the name of a file of this archive")
        with (self._directory / place.file).open("rb") as file:
            member = os.pread(file.fileno(), place.length, place.offset)
        return from_member(place, member)

    def records(self, file: str) -> Iterator[Record]:
        """Every record of a file, in order, one in memory at a time."""
        path = self._directory / file
        at = 0
        for record, member in members(path):
            yield _parsed(Place(file, at, len(member)), record, member)
            at += len(member)


def from_member(place: Place, member: bytes, most: int = 0) -> Record:
    """Parse the record at a place from its bytes; one of more than `most` bytes, if that is not 0, counts as damaged."""
    inflate = isal_zlib.decompressobj(31)
    try:
        record = inflate.decompress(member, most)
    except INFLATE_ERROR as error:
        raise _damaged(place, str(error)) from error
    if not inflate.eof or inflate.unused_data:
        raise _damaged(place, "it is not one whole gzip member")
    return _parsed(place, record, member)


def members(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Each complete gzip member of a file, inflated and as it is. Stops at the first incomplete one."""
    with path.open("rb") as file:
        inflate, record, member = isal_zlib.decompressobj(31), list[bytes](), list[bytes]()
        while piece := file.read(_PIECE):
            while piece:
                try:
                    record.append(inflate.decompress(piece))
                except INFLATE_ERROR:
                    return
                if not inflate.eof:
                    member.append(piece)
                    break
                rest = inflate.unused_data
                member.append(piece[: len(piece) - len(rest)])
                yield b"".join(record), b"".join(member)
                piece = rest
                inflate, record, member = isal_zlib.decompressobj(31), [], []


def _parsed(place: Place, record: bytes, member: bytes) -> Record:
    head, _, rest = record.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = fields.get("content-length", "")
    if (
        not lines[0].startswith("WARC/1.")
        or not length.isascii()
        or not length.isdigit()
        or len(rest) != int(length) + 4
    ):
        raise _damaged(place, "its head does not fit its length")
    return Record(place, fields, rest[:-4], member)


def _damaged(place: Place, why: str) -> DamagedRecordError:
    return DamagedRecordError(f"{place.file} holds no whole record at {place.offset}+{place.length}: {why}")

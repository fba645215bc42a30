"""Reads every record of an archive file again: gzip checksum, length, digests. Continues after damage."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from isal import isal_zlib

from skitter.backends.warc.reading import INFLATE_ERROR, DamagedRecordError, Record, from_member
from skitter.backends.warc.records import dechunk
from skitter.crawl.check_values import Answer, Damaged, Whole
from skitter.dedup.digest import sha1
from skitter.model import Place

_MAGIC = b"\x1f\x8b\x08"  # RFC 1952 2.3.1: how every gzip member begins
_PIECE = 1 << 14
_SEARCHED = 1 << 20
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_TRANSFER_CODING = re.compile(rb"\ntransfer-encoding[ \t]*:[ \t]*(?!identity[ \t]*\r?\n)")
_HEAD_END = re.compile(rb"\n\r?\n")
_OF_PAGE = re.compile(rb"^(?:via|hopsFromSeed|charset):", re.MULTILINE)  # see records._metadata


def walk(path: Path, end: int) -> Iterator[Answer | Damaged | Whole]:
    """The contents of a file up to `end`, in order and without gaps."""
    with path.open("rb") as file:
        fd, at = file.fileno(), 0
        end = min(end, os.fstat(fd).st_size)
        while at < end:
            try:
                member = _member(fd, at, end)
                record = from_member(Place(path.name, at, len(member)), member)
                problem = _disagreement(record)
            except (DamagedRecordError, INFLATE_ERROR) as damage:
                behind = _next_record(fd, at + 1, end, path.name)
                yield Damaged(at, behind, _told(damage))
                at = behind
                continue
            yield Damaged(at, at + len(member), problem) if problem else _kind(record)
            at += len(member)


def _told(damage: Exception) -> str:
    return "no whole record" if not isinstance(damage, DamagedRecordError) else str(damage).partition(": ")[2]


def _member(fd: int, at: int, end: int) -> bytes:
    """The bytes of the gzip member at an offset."""
    inflate, octets = isal_zlib.decompressobj(31), bytearray()
    while at < end and not inflate.eof:
        piece = os.pread(fd, min(_PIECE, end - at), at)
        if not piece:
            break
        inflate.decompress(piece)
        octets += piece[: len(piece) - len(inflate.unused_data)]
        at += len(piece)
    return bytes(octets)


def _next_record(fd: int, at: int, end: int, name: str) -> int:
    """Where the next complete record begins; the end if none follows."""
    while at < end:
        found = os.pread(fd, min(_SEARCHED, end - at), at).find(_MAGIC)
        if found < 0:
            at += max(1, min(_SEARCHED, end - at) - len(_MAGIC) + 1)  # the magic may span the border
            continue
        at += found
        try:
            member = _member(fd, at, end)
            from_member(Place(name, at, len(member)), member)
        except (DamagedRecordError, INFLATE_ERROR):
            at += 1
            continue
        return at
    return end


def _disagreement(record: Record) -> str:
    stated = record.fields.get("warc-block-digest", "")
    if stated != sha1(record.block).decode():
        return "its block is not the one whose digest it states"
    payload = record.fields.get("warc-payload-digest", "")
    if payload and record.fields.get("warc-type") == "response" and payload != _payload_digest(record.block):
        return "its payload is not the one whose digest it states"
    return ""


def _payload_digest(block: bytes) -> str:
    head_end = _HEAD_END.search(block)
    cut = head_end.end() if head_end else len(block)
    head, body = block[:cut].lower(), block[cut:]
    return sha1(dechunk(body)[0] if _TRANSFER_CODING.search(head) else body).decode()


def _kind(record: Record) -> Answer | Whole:
    kind, fields = record.fields.get("warc-type"), record.fields
    if kind not in ("response", "revisit"):
        metadata = kind == "metadata"
        return Whole(record.place, metadata, metadata and _OF_PAGE.search(record.block) is not None)
    status = _STATUS.match(record.block)
    digest = fields.get("warc-payload-digest", "")
    if kind == "response" and not digest:
        digest = _payload_digest(record.block)
    return Answer(record.place, fields.get("warc-target-uri", ""), int(status[1]) if status else 0, digest)

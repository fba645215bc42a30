"""From exchange, page and twin to WARC records. Pure: no files, no clock.

Two digests, one of them with a catch. WARC-Block-Digest is the SHA-1 of the block as it stands in the record.
WARC-Payload-Digest is defined over the HTTP entity-body (WARC 1.1 5.9, RFC 2616 7.2): transfer coding off, content coding
on. Where a response came with a transfer coding, as every chunked page does, warcio 1.8.1 and FastWARC 1.1.0 hash the
framing along (warcio issues 74 and 75) and call a digest made by the standard broken; a digest made their way would be
wrong by the standard, and would differ between two identical payloads. The field is optional, so these responses go
without it: nothing stated is false, and every checker agrees. The digest by the standard still stands in the visit's
metadata record (`payload-digest`), in the page record, in the CDXJ, and in every revisit record. The price: a foreign
indexer makes up for the missing field by hashing the framing along, and then cannot find the chunked original of a
revisit by its digest, only by the URI and date that the revisit names. Our own index has the right one.
"""

import os
import re
import struct
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from isal import isal_zlib

from skitter.dedup.digest import sha1
from skitter.model import Exchange, Page, Rendering
from skitter.ports import Packed, Twin

IDENTICAL = b"http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED = b"http://netpreserve.org/warc/1.1/revisit/server-not-modified"

_FIELDS = b"application/warc-fields"
_REQUEST = b"application/http;msgtype=request"
_RESPONSE = b"application/http;msgtype=response"
_LEVEL = 1  # isal: 39 µs and 8.7 kB for a page of 19 kB; zlib by default: 141 µs and 8.8 kB
_GZIP = 31  # the window bits that ask zlib's interface for a gzip member
_HOPS_SHOWN = 50  # Heritrix, which defined the notation, writes a longer path as "<number left out>+LLL…"

# RFC 3986 2: what a URI may contain. A WHATWG URL may also contain | ^ { } ` " and a % that begins no escape.
_NOT_URI = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_TRANSFER_CODING = re.compile(rb"\ntransfer-encoding[ \t]*:[ \t]*(?!identity[ \t]*\r?\n)")
_CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")  # RFC 9112 7.1
_TRAILER = re.compile(rb"(?:[^\r\n]+\r?\n)*+\r?\n")  # RFC 9112 7.1.2


class _Payload(NamedTuple):
    """What a response record says about its payload."""

    digest: bytes
    coded: bool  # a transfer coding is applied
    whole: bool  # the payload is complete


def pack(
    exchange: Exchange, page: Page | None, twin: Twin | None, rendering: Rendering | None = None
) -> Packed:
    """The records of one visit, uncompressed: the answer first, the metadata last.

    Of a rendered page, the requests that it made come before it, and behind its answer comes what became of it. The metadata
    are the last record in any case: an archive that lost its end is cut behind a visit, never inside one.
    """
    if not exchange.head:
        raise ValueError(f"{exchange.url} was not answered: there is nothing to archive")
    answer_id, request_id, metadata_id = record_ids(3)
    payload = _payload(exchange, page)
    # Refers-To-Date of a later revisit is made from `fetched_at`, and must name exactly this moment.
    capture = b"WARC-Date: %b\r\nWARC-Target-URI: %b\r\n%b" % (
        date(exchange.started if page is None else page.fetched_at),
        uri(exchange.url),
        b"WARC-IP-Address: %b\r\n" % exchange.address.encode() if exchange.address else b"",
    )
    if exchange.protocol:  # of the community's extensions: the messages are written as HTTP/1.1, and were not
        capture += b"WARC-Protocol: %b\r\n" % exchange.protocol.encode()
    kind, fields, block = _answer(exchange, twin, payload)
    to_request = b"%bWARC-Concurrent-To: <urn:uuid:%b>\r\n%b" % (capture, request_id, fields)
    to_answer = b"%bWARC-Concurrent-To: <urn:uuid:%b>\r\n" % (capture, answer_id)
    made = () if rendering is None else _made_of(answer_id, exchange, rendering)
    records = [
        _record(kind, answer_id, to_request, _RESPONSE, block),
        *made,
        _record(b"request", request_id, to_answer, _REQUEST, (exchange.request,)),
        _record(b"metadata", metadata_id, to_answer, _FIELDS, (_metadata(exchange, page, payload),)),
    ]
    if rendering is None:
        return Packed(records, 0)
    before = [
        record
        for each in rendering.requests
        if each.exchange.head
        for record in pack(each.exchange, None, None).records
    ]
    return Packed([*before, *records], len(before), len(made))


def _made_of(answer_id: bytes, exchange: Exchange, rendering: Rendering) -> list[bytes]:
    """The page after its scripts have run, as a conversion of its answer (WARC 1.1 6.8), and its screenshot."""
    found = [(b"text/html; charset=utf-8", rendering.html)] if rendering.html else []
    found += [(b"image/png", rendering.screenshot)] if rendering.html and rendering.screenshot else []
    head = b"WARC-Date: %b\r\nWARC-Target-URI: %b\r\nWARC-Refers-To: <urn:uuid:%b>\r\n" % (
        date(exchange.started),
        uri(exchange.url),
        answer_id,
    )
    ids = record_ids(len(found)) if found else []
    return [
        _record(b"conversion", record_id, head, kind, (block,))
        for record_id, (kind, block) in zip(ids, found, strict=True)
    ]


def warcinfo(name: str, now: float, fields: Mapping[str, str]) -> bytes:
    """The record that starts a file, compressed. `fields` describe the crawl; empty ones are left out."""
    block = b"".join(b"%b: %b\r\n" % (key.encode(), text(value)) for key, value in fields.items() if value)
    head = b"WARC-Date: %b\r\nWARC-Filename: %b\r\n" % (date(now), name.encode())
    return compressed([_record(b"warcinfo", record_ids(1)[0], head, _FIELDS, (block,))])[0]


def _record(kind: bytes, record_id: bytes, fields: bytes, media_type: bytes, block: Sequence[bytes]) -> bytes:
    head = (
        b"WARC/1.1\r\nWARC-Type: %b\r\nWARC-Record-ID: <urn:uuid:%b>\r\n%b"
        b"WARC-Block-Digest: %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    ) % (kind, record_id, fields, sha1(*block), media_type, sum(map(len, block)))
    return b"".join((head, *block, b"\r\n\r\n"))


def compressed(records: Sequence[bytes]) -> list[bytes]:
    """One gzip member per record (WARC 1.1, annex D)."""
    return [isal_zlib.compress(record, _LEVEL, _GZIP) for record in records]


# ------------------------------------------------------------------------------------------------ the answer


def _answer(
    exchange: Exchange, twin: Twin | None, payload: _Payload
) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    """Record type, its own fields, and block."""
    if twin is None:
        digest = b"" if payload.coded else b"WARC-Payload-Digest: %b\r\n" % payload.digest
        if exchange.cut:  # WARC 1.1 5.13: more than our limit
            digest += b"WARC-Truncated: length\r\n"
        elif not payload.whole:
            digest += b"WARC-Truncated: unspecified\r\n"
        return b"response", digest, (exchange.head, exchange.body)
    refers = b"WARC-Refers-To-Target-URI: %b\r\nWARC-Refers-To-Date: %b\r\n" % (
        uri(twin.url),
        date(twin.fetched_at),
    )
    if exchange.head.split(None, 2)[1:2] == [b"304"]:
        return b"revisit", b"WARC-Profile: %b\r\n%b" % (NOT_MODIFIED, refers), (exchange.head,)
    profile = b"WARC-Profile: %b\r\n%bWARC-Payload-Digest: %b\r\n" % (IDENTICAL, refers, payload.digest)
    return b"revisit", profile, (exchange.head,)


def _metadata(exchange: Exchange, page: Page | None, payload: _Payload) -> bytes:
    """How we got there (WARC 1.1 6.6 names via, hopsFromSeed and fetchTimeMs), and the digest if no other record
    has it.
    """
    lines = [b"fetchTimeMs: %d\r\n" % round(max(0.0, exchange.ended - exchange.started) * 1000)]
    if page is not None:
        if page.parent:
            lines.append(b"via: %b\r\n" % uri(page.parent))
        if page.depth:
            left_out = page.depth - _HOPS_SHOWN
            lines.append(
                b"hopsFromSeed: %b%b\r\n"
                % (b"%d+" % left_out if left_out > 0 else b"", b"L" * min(page.depth, _HOPS_SHOWN))
            )
        if page.charset:
            lines.append(b"charset: %b\r\n" % text(page.charset))
    if payload.coded:
        lines.append(b"payload-digest: %b\r\n" % payload.digest)
    return b"".join(lines)


def _payload(exchange: Exchange, page: Page | None) -> _Payload:
    head = exchange.head.lower()
    coded = _TRANSFER_CODING.search(head) is not None
    # Of a cut body, a page's digest covers more than the record has. With a transfer coding, the record names none.
    if page is not None and page.digest and (coded or not exchange.cut):
        return _Payload(page.digest.encode(), coded, whole=True)
    if coded:
        body, whole = dechunk(exchange.body)
        return _Payload(sha1(body), coded, whole)
    declared = _CONTENT_LENGTH.search(head)
    # An empty body proves nothing: answers to HEAD and 304 declare the length of what they do not send.
    whole = declared is None or not exchange.body or len(exchange.body) >= int(declared[1])
    return _Payload(sha1(exchange.body), coded, whole)


def dechunk(body: bytes) -> tuple[bytes, bool]:
    """The payload of a chunked body (RFC 9112 7.1), and whether it was complete."""
    pieces: list[bytes] = []
    at = 0
    while size := _CHUNK.match(body, at):
        start, length = size.end(), int(size[1], 16)
        if not length:
            return b"".join(pieces), _TRAILER.match(body, start) is not None
        pieces.append(body[start : start + length])
        at = start + length
        if body.startswith(b"\r\n", at):
            at += 2
        elif body.startswith(b"\n", at):
            at += 1
        else:
            break
    return b"".join(pieces), False


# ------------------------------------------------------------------------------------------------ values of fields


def record_ids(count: int) -> list[bytes]:
    """Random UUIDs (RFC 9562 5.4). One system call for all; a pool would be used twice after a fork."""
    digits = os.urandom(16 * count).hex().encode()
    return [
        b"%b-%b-4%b-%b%b-%b" % (one, two, three, _VARIANT[variant], four, five)
        for one, two, three, variant, four, five in _UUID.iter_unpack(digits)
    ]


_UUID = struct.Struct(
    "8s 4s x3s B3s 12s"
)  # its hexadecimal digits; those of version and variant are not random
_VARIANT = {digit: b"89ab"[index % 4 : index % 4 + 1] for index, digit in enumerate(b"0123456789abcdef")}


def date(moment: float) -> bytes:
    """WARC-Date: UTC to the microsecond. The same float always gives the same text."""
    second, micro = divmod(round(moment * 1_000_000), 1_000_000)
    return b"%b.%06dZ" % (_second(second), micro)


@lru_cache(maxsize=256)
def _second(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()


def uri(url: str) -> bytes:
    """The URL in RFC 3986 syntax (required by WARC 1.1 5.14): disallowed characters are percent-encoded."""
    return _NOT_URI.sub(_escape, url).encode()


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{octet:02X}" for octet in match[0].encode("utf-8", "replace"))


def text(value: str) -> bytes:
    """A field value on one line."""
    return _CONTROL.sub(" ", value).strip().encode("utf-8", "replace")

"""From a description to bytes: HTML, header lines, charsets, content codings, and the steps in which they are sent.

A page is rendered on its first request and cached by the server. What is served depends only on the
description and the port. Compressed bodies also depend on the versions of the compression libraries, but
decode to the same.
"""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

import brotli
import zstandard

from skitter.testing.web.graph import (
    Answer,
    Cut,
    Delayed,
    Dripped,
    Endless,
    Literal,
    Resource,
    Silent,
    with_port,
)
from skitter.testing.web.words import dice, paragraphs, phrase

# Longer than any client waits; bounded, so that nothing outlives its test for long.
HANG_SECONDS = 600.0
# Placeholder for a date that depends on the time of the request, the only such thing in the web. As long as
# an HTTP date.
RETRY_DATE = b"@" * 29


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is sent for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same bytes repeated until the client leaves."""

    data: bytes
    every: float


Step = bytes | Pause | Repeat


@dataclass(frozen=True, slots=True)
class Reply:
    """A response as sent, step by step."""

    status: int
    steps: tuple[Step, ...]
    close: bool = False
    etag: str = ""
    modified: str = ""
    unmodified: bytes = b""  # the 304 for it
    retry_in: int | None = None  # `RETRY_DATE` is in the head and has to be replaced

    @property
    def size(self) -> int:
        """Approximate memory use in bytes."""
        return 200 + sum(len(step) for step in self.steps if isinstance(step, bytes))


# ------------------------------------------------------------------------------------------------ HTML


def html(resource: Resource, seed: object, page_bytes: int = 0) -> str:
    """The resource's page, padded to `page_bytes` with invisible styles."""
    chance = dice(seed, resource.text_key or resource.target)
    title = resource.title or phrase(chance, 4).title()
    blocks = paragraphs(chance, resource.words)
    if resource.phrase:
        blocks.insert(1, resource.phrase)
    if resource.ending:
        blocks[-1] += " " + resource.ending
    top = "".join(anchor.markup for anchor in resource.anchors if anchor.in_head)
    menu = "".join(
        f'<li class="entry">{anchor.markup}</li>\n' for anchor in resource.anchors if not anchor.in_head
    )
    text = "\n".join(f'<p class="block" data-n="{n}">{block}</p>' for n, block in enumerate(blocks))
    room = page_bytes - len(top) - len(menu) - len(text) - 250
    return (
        f'<!doctype html>\n<html lang="en"><head><title>{title}</title>{resource.head}{top}\n'
        f"<style>{_filler()[:room] if room > 0 else ''}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"<main>\n{resource.around[0]}{text}\n<ul>\n{menu}</ul>\n{resource.around[1]}</main>\n</body></html>\n"
    )


@cache
def _filler() -> str:
    chance = dice("filler")
    rules = (
        f".{phrase(chance, 1)}-{n}{{margin:{n % 40}px {n % 7}px;color:#{n * 7919 % 4096:03x}}}\n"
        for n in range(8000)
    )
    return "".join(rules)


# ------------------------------------------------------------------------------------------------ codings


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data, quality=5))


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "deflate": lambda data: zlib.compress(data, 9),
    "deflate-raw": _raw_deflate,  # what many servers send as deflate (RFC 9110 8.4.1.2, the note)
    "br": _brotli,
    "zstd": lambda data: zstandard.compress(data, 3),
    "identity": lambda data: data,
}
CODING_NAMES = {"deflate-raw": "deflate"}


# ------------------------------------------------------------------------------------------------ the wire


def _chunks(body: bytes, size: int = 1000) -> bytes:
    parts = (body[i : i + size] for i in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def status_line(status: int) -> str:
    """The first line of a response."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"


def _body(answer: Answer, page: Callable[[], str]) -> bytes:
    if answer.body is None:
        body = answer.bom + page().encode(answer.charset, "xmlcharrefreplace")
    else:
        body = answer.body if isinstance(answer.body, bytes) else answer.body()
    for coding in answer.codings:
        body = CODINGS[coding](body)
    return body


def _head(answer: Answer, resource: Resource, length: int, *, close: bool) -> str:
    lines = [status_line(answer.status)]
    if answer.media:
        lines.append(f"Content-Type: {answer.media}")
    if answer.codings:
        lines.append("Content-Encoding: " + ", ".join(CODING_NAMES.get(c, c) for c in answer.codings))
    if answer.chunked:
        lines.append("Transfer-Encoding: chunked")
    elif not isinstance(answer.manner, Endless) and answer.status not in (204, 304):
        lines.append(
            f"Content-Length: {length if answer.declared_length is None else answer.declared_length}"
        )
    if resource.etag:
        lines.append(f"ETag: {resource.etag}")
    if resource.modified:
        lines.append(f"Last-Modified: {resource.modified}")
    if answer.retry_in is not None:
        lines.append(f"Retry-After: {RETRY_DATE.decode()}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join((*lines, *answer.headers)) + "\r\n\r\n"


def reply(resource: Resource, answer: Answer, page: Callable[[], str], port: int) -> Reply:
    """The response as bytes and steps."""
    manner = answer.manner
    if isinstance(manner, Literal):
        return Reply(answer.status, (manner.data,), close=True)
    if isinstance(manner, Silent):
        return Reply(0, (Pause(HANG_SECONDS),), close=True)
    body = _body(answer, lambda: with_port(page(), port))
    close = isinstance(manner, Endless | Cut) or answer.declared_length is not None
    head = with_port(_head(answer, resource, len(body), close=close), port).encode("latin-1")
    sent = _chunks(body) if answer.chunked else body
    steps: tuple[Step, ...]
    match manner:
        case None:
            steps = (head + sent,)
        case Delayed(seconds):
            steps = (Pause(seconds), head + sent)
        case Dripped(seconds, pieces):
            size = max(1, -(-len(sent) // pieces))
            parts = [sent[i : i + size] for i in range(0, len(sent), size)]
            steps = (head, *(step for part in parts for step in (Pause(seconds), part)))
        case Endless(data, in_head, every):
            # The last chunk ends a chunked body; it never comes.
            begun = sent.removesuffix(b"0\r\n\r\n") if answer.chunked else sent
            steps = (head[:-2] if in_head else head + begun, Repeat(data, every))
        case Cut(share):
            steps = (head + sent[: int(len(sent) * share)],)
    unmodified = ""
    if resource.etag or resource.modified:
        unmodified = _head(Answer(status=304, media="", headers=answer.headers), resource, 0, close=False)
    return Reply(
        answer.status, steps, close, resource.etag, resource.modified, unmodified.encode(), answer.retry_in
    )

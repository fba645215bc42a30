"""Answers that are slow, endless, invalid HTTP, mislabelled, or decompression bombs."""

import gzip
import struct
import zlib
from functools import cache, partial

import brotli
import zstandard

from skitter.model import Fault
from skitter.testing.web.graph import (
    Answer,
    Cut,
    Delayed,
    Dripped,
    Endless,
    Fate,
    Literal,
    Manner,
    Resource,
    Silent,
)
from skitter.testing.web.site import Site, link

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def literal(target: str, data: bytes, fate: Fate = Fate.PAGE, fault: Fault | None = None) -> Resource:
    """A resource that answers with exactly these bytes and then closes the connection."""
    return Resource(target, fate, fault, answers=(Answer(manner=Literal(data)),))


def _failing(target: str, fault: Fault, manner: Manner) -> Resource:
    return Resource(target, Fate.FAILED, fault, answers=(Answer(manner=manner),))


def slow(site: Site) -> None:
    """Answers that are slow but complete, and one that never comes."""
    seconds = site.web.features.slow_seconds
    pages = (
        Resource("/slow/head.html", answers=(Answer(manner=Delayed(seconds)),)),
        Resource("/slow/body.html", answers=(Answer(manner=Dripped(seconds / 8, 8)),)),
        Resource("/slow/chunks.html", answers=(Answer(manner=Dripped(seconds / 8, 8), chunked=True),)),
        _failing("/slow/never.html", Fault.TIMEOUT, Silent()),
    )
    site.hub("slow", [link(site.add(page)) for page in pages])


def endless(site: Site) -> None:
    """Endless bodies and heads: fast ones that reach a size limit, slow ones that reach a deadline."""
    block = b"<p>" + b"and so on, " * 5000 + b"</p>\n"
    chunk = b"%x\r\n%b\r\n" % (len(block), block)
    pages = (
        _failing("/endless/body.html", Fault.SIZE, Endless(block)),
        Resource(
            "/endless/chunks.html",
            Fate.FAILED,
            Fault.SIZE,
            answers=(Answer(manner=Endless(chunk), chunked=True, body=b""),),
        ),
        _failing(
            "/endless/head.html", Fault.HEADERS, Endless(b"X-More: " + b"a" * 4000 + b"\r\n", in_head=True)
        ),
        _failing("/endless/drip.html", Fault.TIMEOUT, Endless(b".", every=0.5)),
        _failing("/endless/head-drip.html", Fault.TIMEOUT, Endless(b"X-M: a\r\n", in_head=True, every=0.5)),
    )
    site.hub("endless", [link(site.add(page)) for page in pages])


def broken(site: Site) -> None:
    """Answers that violate HTTP."""
    large = OK + b"X-Large: " + b"a" * 2_000_000 + b"\r\nContent-Length: 2\r\n\r\nok"
    pages = (
        _failing("/broken/cut.html", Fault.RESET, Cut(0.5)),
        Resource(
            "/broken/cut-chunks.html",
            Fate.FAILED,
            Fault.RESET,
            answers=(Answer(manner=Cut(0.5), chunked=True),),
        ),
        Resource(
            "/broken/too-short.html", Fate.FAILED, Fault.RESET, answers=(Answer(declared_length=99_999),)
        ),
        Resource("/broken/too-long.html", Fate.UNJUDGED, answers=(Answer(declared_length=100),)),
        literal(
            "/broken/garbage.html", b"\x00\x01\x02 no such protocol\r\n\r\n<p>hi", Fate.FAILED, Fault.PROTOCOL
        ),
        literal("/broken/empty.html", b"", Fate.FAILED, Fault.RESET),
        literal("/broken/half-head.html", OK + b"Content-Le", Fate.FAILED, Fault.RESET),
        literal("/broken/large-head.html", large, Fate.FAILED, Fault.HEADERS),
        literal("/broken/bad-chunk.html", CHUNKED + b"zz\r\n<p>hi\r\n0\r\n\r\n", Fate.FAILED, Fault.PROTOCOL),
        literal("/broken/huge-chunk.html", CHUNKED + b"f" * 40 + b"\r\n<p>hi", Fate.FAILED, Fault.PROTOCOL),
        literal(
            "/broken/two-lengths.html",
            OK + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\nok",
            Fate.UNJUDGED,
        ),
        literal("/broken/minus.html", OK + b"Content-Length: -1\r\n\r\nok", Fate.UNJUDGED),
        literal(
            "/broken/status-999.html", b"HTTP/1.1 999 Who knows\r\nContent-Length: 2\r\n\r\nok", Fate.UNJUDGED
        ),
        literal(
            "/broken/no-colon.html", OK + b"this is no header\r\nContent-Length: 2\r\n\r\nok", Fate.UNJUDGED
        ),
        literal(
            "/broken/bare-newlines.html", OK.replace(b"\r", b"") + b"Content-Length: 2\n\nok", Fate.UNJUDGED
        ),
    )
    site.hub("broken", [link(site.add(page)) for page in pages])


def lying(site: Site) -> None:
    """Mislabelled answers. HTTP is intact, so something is kept; what, is up to the parser."""
    gzipped = ("Content-Encoding: gzip",)
    half = gzip.compress(b"<p>" + b"cut short " * 5000, 6, mtime=0)
    cases = {
        "picture.html": Answer(body=picture),
        "binary.html": Answer(body=bytes(range(256)) * 40),
        "empty.html": Answer(body=b""),
        "untyped.html": Answer(media=""),
        "odd-type.html": Answer(media="text/html;;; charset=;utf-8"),
        "as-text.html": Answer(media="text/plain"),
    }
    pages = [Resource(f"/lies/{name}", answers=(answer,)) for name, answer in cases.items()]
    unjudged = {
        "not-gzip.html": Answer(headers=gzipped),
        "half-gzip.html": Answer(headers=gzipped, body=half[: len(half) // 2]),
        "unknown-coding.html": Answer(headers=("Content-Encoding: no-such-coding",)),
        "many-codings.html": Answer(headers=("Content-Encoding: " + ", ".join(["gzip"] * 40),)),
    }
    pages += [
        Resource(f"/lies/{name}", Fate.UNJUDGED, answers=(answer,)) for name, answer in unjudged.items()
    ]
    site.hub("lies", [link(site.add(page)) for page in pages])


def picture() -> bytes:
    """A PNG of one grey pixel."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", header)
        + part(b"IDAT", zlib.compress(b"\0\x80"))
        + part(b"IEND", b"")
    )


# ------------------------------------------------------------------------------------------------ bombs


@cache
def bomb(kind: str, size: int) -> bytes:
    """`size` zero bytes, compressed as far as the coding allows, without holding them all in memory."""
    zeros = bytes(2**20)
    rounds = size // len(zeros)
    match kind:
        case "gzip" | "deflate":
            packer = zlib.compressobj(9, zlib.DEFLATED, 31 if kind == "gzip" else 15)
            return b"".join(packer.compress(zeros) for _ in range(rounds)) + packer.flush()
        case "br":
            squeezer = brotli.Compressor(quality=5)
            return b"".join(squeezer.process(zeros) for _ in range(rounds)) + bytes(squeezer.finish())
        case "zstd":
            presser = zstandard.ZstdCompressor(level=3).compressobj()
            return b"".join(presser.compress(zeros) for _ in range(rounds)) + presser.flush()
        case "gzip, gzip":
            return gzip.compress(bomb("gzip", size), 9, mtime=0)
        case "br, gzip":
            return gzip.compress(bomb("br", size), 9, mtime=0)
    raise ValueError(f"no such bomb: {kind}")


BOMBS = ("gzip", "deflate", "br", "zstd", "gzip, gzip", "br, gzip")


def bombs(site: Site) -> None:
    """Small on the wire, far beyond any limit once decoded."""
    size = site.web.features.bomb_bytes
    pages = []
    for kind in BOMBS:
        answer = Answer(headers=(f"Content-Encoding: {kind}",), body=partial(bomb, kind, size))
        target = f"/bombs/{kind.replace(', ', '-')}.html"
        pages.append(Resource(target, Fate.FAILED, Fault.BOMB, answers=(answer,)))
    site.hub("bombs", [link(site.add(page)) for page in pages])

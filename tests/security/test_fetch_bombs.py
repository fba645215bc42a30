"""Compressed bodies: each decodes or ends in a recorded outcome, and a bomb costs no more memory than the limit allows."""

import asyncio
import gzip
import resource
import subprocess
import sys
import tracemalloc
import zlib

import brotli
import pytest

from skitter.fetch import pieces
from skitter.fetch.response import MAX_CODINGS, Flaw, decode
from skitter.model import Failed, Fault, Fetched, Outcome, Purpose, Redirected
from skitter.settings import Bytes, FetchSettings
from tests.conformance.cases import FOLDER, needs_cases, rows
from tests.fetching import LOOPBACK, Server, fetching, ok, run, serving, visit

COMPRESSED = FOLDER / "compressed"
BOMBS = [
    (row["content_encoding"], row["file"])
    for row in rows("security_vectors.jsonl")
    if row["kind"] == "decompression_bomb"
]
PAGES = {
    "html-br.bin": "br",
    "html-gzip.bin": "gzip",
    "html-gzip-deflate.bin": "gzip, deflate",
    "html-gzip-deflate-gzip.bin": "gzip, deflate, gzip",
    "html-rawdeflate.bin": "deflate",
    "html-zlibdeflate.bin": "deflate",
    "html-zstd-static-content-size.bin": "zstd",
    "html-zstd-static-no-content-size.bin": "zstd",
    "html-zstd-streaming-no-content-size.bin": "zstd",
}
MIB = 2**20


async def served(
    body: bytes, coding: str, limit: int = MIB, status: bytes = b"200 OK", *fields: bytes
) -> Outcome:
    settings = FetchSettings(allow_private=LOOPBACK, max_body=Bytes(limit))
    answer = ok(body, b"Content-Encoding: " + coding.encode(), *fields, status=status)
    async with serving(answer) as server, fetching(settings) as fetcher:
        outcome = await fetcher.fetch(visit(server.url()))
        # Whatever it was, the next visit is made as if nothing had happened.
        server.answer = ok(b"alive")
        after = await fetcher.fetch(visit(server.url()))
        assert isinstance(after, Fetched)
        assert after.content == b"alive"
        return outcome


@needs_cases
@pytest.mark.parametrize(("file", "coding"), PAGES.items())
def test_every_coding_in_use_is_decoded(file: str, coding: str):
    outcome = run(served((COMPRESSED / file).read_bytes(), coding))
    assert isinstance(outcome, Fetched)
    assert b"<html" in outcome.content[:1000].lower()
    assert outcome.content.rstrip().lower().endswith(b"</html>")
    assert outcome.payload == (COMPRESSED / file).read_bytes()


@needs_cases
@pytest.mark.parametrize(("coding", "file"), BOMBS)
def test_a_bomb_is_a_recorded_failure(coding: str, file: str):
    packed = (FOLDER / file).read_bytes()
    outcome = run(served(packed, coding))
    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.BOMB
    assert outcome.exchange is not None
    assert outcome.exchange.body == packed


GROWTH = """
import pathlib, resource, sys
from skitter.fetch.response import decode
packed = pathlib.Path(sys.argv[1]).read_bytes()
decode(packed[:20], [sys.argv[2]], 1)  # load the libraries
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
decoded = decode(packed, [sys.argv[2]], 1 << 20)
print(decoded.flaw, len(decoded.content), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@needs_cases
@pytest.mark.parametrize(("coding", "file"), BOMBS)
def test_a_bomb_takes_memory_in_proportion_to_the_limit(coding: str, file: str):
    # In a process of its own: the high-water mark of this one has already seen everything.
    command = [sys.executable, "-c", GROWTH, str(FOLDER / file), coding]
    flaw, length, grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts in bytes there
    window = 16 * MIB  # what br (RFC 7932 9.1) and zstd may keep to refer back to, whatever the limit
    assert (flaw, int(length)) == ("oversize", MIB)
    assert int(grown) * unit < 4 * MIB + (window if coding in ("br", "zstd") else 0)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_python_objects_of_a_bomb_stay_within_four_times_the_limit(coding: str):
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[coding]
    bomb = pack(bytes(50 * MIB))
    decode(bomb[:10], [coding], 10)
    tracemalloc.start()
    decoded = decode(bomb, [coding], MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert decoded.flaw is Flaw.OVERSIZE
    assert peak < 4 * MIB


@needs_cases
def test_a_truncated_body_gives_what_could_be_decoded():
    packed = (COMPRESSED / "unexpected-eof.gz").read_bytes()
    # The file holds the bytes as characters of the same number, in UTF-8.
    expected = (COMPRESSED / "unexpected-eof-output.txt").read_text(encoding="utf-8").encode("latin-1")
    outcome = run(served(packed, "gzip"))
    assert isinstance(outcome, Fetched)
    assert outcome.content.startswith(expected)
    assert len(outcome.content) >= len(expected) > 0


@needs_cases
@pytest.mark.parametrize("file", ["truncated-crc-error.gz", "truncated-crc-error-short.gz"])
def test_a_body_cut_in_its_checksum_is_complete_and_flagged(file: str):
    packed = (COMPRESSED / file).read_bytes()
    outcome = run(served(packed, "gzip"))
    assert isinstance(outcome, Fetched)
    assert outcome.content == zlib.decompressobj(31).decompress(packed)
    assert outcome.content
    assert decode(packed, ["gzip"], MIB).flaw in (Flaw.TRUNCATED, Flaw.CORRUPT)


def test_a_chain_of_twenty_codings_is_not_undone():
    packed = b"<html>"
    for _ in range(20):
        packed = gzip.compress(packed)
    outcome = run(served(packed, ", ".join(["gzip"] * 20)))
    assert isinstance(outcome, Fetched)
    assert outcome.content == packed


def test_a_chain_within_the_number_allowed_is_bounded_at_every_step():
    packed = bytes(20 * MIB)
    for _ in range(MAX_CODINGS):
        packed = gzip.compress(packed)
    outcome = run(served(packed, ", ".join(["gzip"] * MAX_CODINGS)))
    assert isinstance(outcome, Failed)
    assert outcome.fault is Fault.BOMB


def test_the_body_of_a_redirect_is_never_decoded():
    outcome = run(served(gzip.compress(bytes(50 * MIB)), "gzip", MIB, b"302 Found", b"Location: /x"))
    assert isinstance(outcome, Redirected)


def test_a_large_body_that_is_cut_does_not_stay_in_memory():
    """Two hundred MiB are offered again and again under a limit of one: memory stays flat."""

    async def pour(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        block = bytes(MIB)
        for _ in range(200):
            writer.write(block)
            await writer.drain()

    async def main() -> int:
        settings = FetchSettings(allow_private=LOOPBACK, max_body=Bytes(MIB))
        async with serving(pour) as server, fetching(settings) as fetcher:
            for round_ in range(5):
                if round_ == 1:
                    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                outcome = await fetcher.fetch(visit(server.url()))
                assert isinstance(outcome, Failed)
                assert outcome.fault is Fault.SIZE
                assert outcome.exchange is not None
                assert len(outcome.exchange.body) == MIB
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    unit = 1 if sys.platform == "darwin" else 1024
    assert run(main()) * unit < 50 * MIB


def test_a_sitemap_over_the_limit_gives_its_beginning_in_order():
    """Its first part is held in memory, the rest in a file; the limit falls anywhere."""
    body = b"".join(b"http://a.test/%d\n" % number for number in range(60_000))
    settings = FetchSettings(allow_private=LOOPBACK, max_body=Bytes(10_000), max_sitemap=Bytes(777_777))

    async def read() -> bytes:
        async with serving(ok(body)) as server, fetching(settings) as fetcher:
            outcome = await fetcher.fetch(visit(server.url(), Purpose.SITEMAP))
            assert isinstance(outcome, Fetched)
            assert outcome.exchange.rest is not None
            assert outcome.exchange.cut
            found = b"".join(pieces.payload(outcome.exchange))
            outcome.exchange.rest.close()
            return found

    assert run(read()) == body[:777_777]


@pytest.mark.parametrize("status", [b"404 Not Found", b"302 Found"])
def test_the_file_of_a_sitemap_that_is_not_read_is_closed_at_once(status: bytes):
    """It would stay until its visit is settled with many others, and all of them could fill the disk."""
    settings = FetchSettings(allow_private=LOOPBACK, max_body=Bytes(MIB))

    async def read() -> Outcome:
        answer = ok(bytes(3 * MIB), b"Location: /x", status=status)
        async with serving(answer) as server, fetching(settings) as fetcher:
            return await fetcher.fetch(visit(server.url(), Purpose.SITEMAP))

    outcome = run(read())
    assert isinstance(outcome, Fetched | Redirected)
    assert outcome.exchange.beyond > MIB
    assert outcome.exchange.rest is not None
    assert outcome.exchange.rest.closed

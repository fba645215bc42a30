"""Bodies decoded as a stream: the same as at once, and a bomb costs one piece."""

import gzip
import tempfile
import tracemalloc
import zlib

import brotli
import pytest
import zstandard

from skitter.fetch import pieces
from skitter.model import Exchange

TEXT = b"".join(b"line %d of a text\n" % number for number in range(40_000))  # 800 KB


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODED = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
}


def chunked(body, size=1000):
    parts = [
        b"%x;ext=1\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
        for at in range(0, len(body), size)
    ]
    return b"".join(parts) + b"0\r\nTrailer: x\r\n\r\n"


def exchange(body, *fields, rest=b""):
    head = "".join(f"{field}\r\n" for field in ("HTTP/1.1 200 OK", *fields, ""))
    file = None
    if rest:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        file.write(rest)
    return Exchange("http://a.test/", "", 0.0, 0.0, b"", head.encode(), body, rest=file, beyond=len(rest))


@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("split", [None, 1, 5000])
@pytest.mark.parametrize("framed", [False, True])
def test_every_coding_is_undone_wherever_the_body_lies(coding, split, framed):
    body = CODED[coding]
    fields = [f"Content-Encoding: {coding}"] if coding else []
    if framed:
        body, fields = chunked(body), [*fields, "Transfer-Encoding: chunked"]
    held, rest = (body, b"") if split is None else (body[:split], body[split:])
    sent = exchange(held, *fields, rest=rest)
    found = list(pieces.content(sent))
    assert b"".join(found) == TEXT
    assert max(map(len, found)) <= pieces.SIZE
    assert b"".join(pieces.payload(sent)) == CODED[coding]
    if sent.rest is not None:
        sent.rest.close()


def test_deflate_without_its_header_is_undone():
    assert b"".join(pieces.content(exchange(raw_deflate(TEXT), "Content-Encoding: deflate"))) == TEXT


@pytest.mark.parametrize("size", [pieces.SIZE - 1, pieces.SIZE, pieces.SIZE + 1, 5 * pieces.SIZE + 7])
@pytest.mark.parametrize("packed", [zlib.compress, raw_deflate, gzip.compress])
def test_what_a_decoder_still_holds_at_the_end_is_read(size, packed):
    """It may have taken the last byte of the input long before it gave the last one of the output."""
    text = bytes(size)
    sent = exchange(packed(text), *(["Content-Encoding: deflate"] if packed is not gzip.compress else []))
    assert b"".join(pieces.content(sent)) == text


def test_chunks_of_one_byte_cost_as_many_pieces_as_they_fill():
    body = chunked(TEXT[:100_000], size=1)
    found = list(pieces.payload(exchange(body, "Transfer-Encoding: chunked")))
    assert b"".join(found) == TEXT[:100_000]
    assert len(found) <= len(body) // pieces.SIZE + 1


def test_gzip_is_known_by_its_first_bytes():
    packed = gzip.compress(TEXT)
    assert b"".join(pieces.content(exchange(packed))) == TEXT
    assert b"".join(pieces.content(exchange(gzip.compress(packed), "Content-Encoding: gzip"))) == TEXT
    assert b"".join(pieces.content(exchange(TEXT))) == TEXT  # named .gz and already decoded


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_what_is_cut_or_damaged_gives_the_beginning(coding):
    body = CODED[coding]
    field = f"Content-Encoding: {coding}"
    cut = b"".join(pieces.content(exchange(body[: len(body) // 2], field)))
    assert TEXT.startswith(cut)
    assert b"".join(pieces.content(exchange(b"\x00nonsense" * 10, field))) in (b"", b"\x00nonsense" * 10)


def test_an_unknown_coding_is_left_on():
    assert b"".join(pieces.content(exchange(TEXT, "Content-Encoding: secret"))) == TEXT


@pytest.mark.parametrize("frame", [b"zz\r\nabc", b"-5\r\nabc", b"5;" + b"x" * 100_000, b"3\r\nabc"])
def test_broken_framing_ends_it(frame):
    found = b"".join(pieces.payload(exchange(frame, "Transfer-Encoding: chunked")))
    assert found in (b"", b"abc")


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_bomb_costs_one_piece(coding):
    packers = {
        "gzip": lambda data: gzip.compress(data, 1),
        "br": lambda data: brotli.compress(data, quality=1),
        "zstd": zstandard.compress,
    }
    bomb = packers[coding](bytes(200 * 2**20))
    stream = pieces.content(exchange(bomb, f"Content-Encoding: {coding}"))
    tracemalloc.start()
    try:
        for _ in range(100):
            assert len(next(stream)) <= pieces.SIZE
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()

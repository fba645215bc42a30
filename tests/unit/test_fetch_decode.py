"""Decoding within limits, against the reference implementations."""

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.fetch.response import MAX_CODINGS, MAX_MEMBERS, Decoded, Flaw, decode, unchunk

TEXT = b"".join(b"line %d of a page with some text in it\n" % number for number in range(3000))  # 120 KB
LIMIT = 10**6
patient = settings(deadline=None)


def bare_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(content) + packer.flush()


def streamed_zstd(content: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(content) + packer.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": bare_deflate,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd ": streamed_zstd,
}
PACKED = {coding: pack(TEXT) for coding, pack in PACKERS.items()}
ALL = pytest.mark.parametrize("coding", PACKERS)


@ALL
@pytest.mark.parametrize("content", [b"", b"x", TEXT, bytes(LIMIT)])
def test_compressed_content_is_restored(coding: str, content: bytes):
    assert decode(PACKERS[coding](content), [coding.strip()], LIMIT) == Decoded(content)


@patient
@given(st.binary(max_size=2000), st.sampled_from(sorted(PACKERS)))
def test_any_content_comes_back(content: bytes, coding: str):
    assert decode(PACKERS[coding](content), [coding.strip()], 2000) == Decoded(content)


@ALL
def test_one_byte_too_many_is_oversize_and_the_content_is_cut_at_the_limit(coding: str):
    packed = PACKED[coding]
    assert decode(packed, [coding.strip()], len(TEXT)) == Decoded(TEXT)
    assert decode(packed, [coding.strip()], len(TEXT) - 1) == Decoded(TEXT[:-1], Flaw.OVERSIZE)
    assert decode(packed, [coding.strip()], 10) == Decoded(TEXT[:10], Flaw.OVERSIZE)


@ALL
def test_a_truncated_body_gives_what_could_be_decoded(coding: str):
    content = (
        TEXT + TEXT[::-1] + TEXT[7:] + TEXT[::-2]
    )  # several blocks of zstd, which gives them whole or not at all
    packed = PACKERS[coding](content)
    cut = decode(packed[: len(packed) * 3 // 4], [coding.strip()], LIMIT)
    assert len(cut.content) > 10_000
    assert content.startswith(cut.content)
    if coding.strip() != "zstd":  # its reader does not tell an early end from an end
        assert cut.flaw is Flaw.TRUNCATED


@pytest.mark.parametrize("coding", ["gzip", "deflate", "deflate "])
def test_a_damaged_body_gives_the_content_before_the_damage(coding: str):
    packed = bytearray(PACKED[coding])
    middle = len(packed) // 2
    packed[middle : middle + 40] = b"\xff" * 40
    damaged = decode(bytes(packed), [coding.strip()], LIMIT)
    assert damaged.flaw is not None or coding == "deflate "  # which has no checksum
    assert damaged.content[:10_000] == TEXT[:10_000]


def test_a_wrong_checksum_costs_nothing_of_the_content():
    packed = gzip.compress(TEXT)
    assert decode(packed[:-8] + b"\0" * 8, ["gzip"], LIMIT) == Decoded(TEXT, Flaw.CORRUPT)


@patient
@given(st.binary(max_size=500), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_any_bytes_decode_to_something_bounded_and_nothing_is_raised(data: bytes, coding: str):
    decoded = decode(data, [coding], 1000)
    assert len(decoded.content) <= max(1000, len(data))


@patient
@given(st.binary(min_size=1, max_size=40), st.integers(0, 400), st.sampled_from(sorted(PACKERS)))
def test_damage_anywhere_never_raises_and_never_exceeds_the_limit(noise: bytes, at: int, coding: str):
    packed = bytearray(PACKED[coding])
    packed[at : at + len(noise)] = noise
    assert len(decode(bytes(packed), [coding.strip()], LIMIT).content) <= LIMIT


def test_uncompressed_content_is_unchanged():
    for coding in ("gzip", "br", "zstd"):
        assert decode(b"<html>not packed at all", [coding], LIMIT) == Decoded(
            b"<html>not packed at all", Flaw.CORRUPT
        )


def test_codings_are_undone_in_reverse_order():
    packed = brotli.compress(zlib.compress(gzip.compress(TEXT)))
    assert decode(packed, ["gzip", "deflate", "br"], LIMIT) == Decoded(TEXT)
    assert decode(gzip.compress(TEXT), ["identity", "gzip", "identity"], LIMIT) == Decoded(TEXT)


def test_every_step_of_a_chain_is_bounded():
    bomb = gzip.compress(gzip.compress(bytes(10**7)))
    assert decode(bomb, ["gzip", "gzip"], 1000).flaw is Flaw.OVERSIZE
    assert len(decode(bomb, ["gzip", "gzip"], 1000).content) <= 1000


def test_more_codings_than_anybody_needs_are_not_undone():
    packed = TEXT
    for _ in range(MAX_CODINGS + 1):
        packed = gzip.compress(packed)
    assert decode(packed, ["gzip"] * (MAX_CODINGS + 1), LIMIT) == Decoded(packed, Flaw.UNKNOWN)
    assert decode(packed, ["gzip"] * MAX_CODINGS, LIMIT) == Decoded(gzip.compress(TEXT))


def test_an_unknown_coding_leaves_the_body_alone():
    assert decode(b"body", ["compress"], LIMIT) == Decoded(b"body", Flaw.UNKNOWN)
    assert decode(gzip.compress(b"body"), ["compress", "gzip"], LIMIT).flaw is Flaw.UNKNOWN


def test_members_of_a_gzip_body_follow_each_other_and_garbage_behind_them_is_ignored():
    members = b"".join(gzip.compress(TEXT[at : at + 1000]) for at in range(0, 10_000, 1000))
    assert decode(members, ["gzip"], LIMIT) == Decoded(TEXT[:10_000])
    assert decode(members + b"\0" * 512, ["gzip"], LIMIT) == Decoded(TEXT[:10_000])
    assert decode(gzip.compress(TEXT) + gzip.compress(TEXT)[:200], ["gzip"], LIMIT).content.startswith(TEXT)
    large = gzip.compress(bytes(range(256)) * 1000, compresslevel=0)  # members longer than one step of input
    assert decode(large * 3, ["gzip"], LIMIT).content == bytes(range(256)) * 3000


def test_the_number_of_members_is_bounded():
    assert decode(gzip.compress(b"x") * (MAX_MEMBERS + 5), ["gzip"], LIMIT) == Decoded(b"x" * MAX_MEMBERS)


def test_a_zstd_window_beyond_the_http_limit_gets_no_memory():
    parameters = zstandard.ZstdCompressionParameters(window_log=25, write_content_size=0)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packer.compress(TEXT) + packer.flush()
    assert decode(packed, ["zstd"], LIMIT) == Decoded(packed, Flaw.CORRUPT)


# ------------------------------------------------------------------------------------------------ chunks


@given(st.lists(st.binary(min_size=1, max_size=50)), st.sampled_from([b"", b";a=b", b' ; a="b;c"']))
def test_chunks_come_back_together(pieces: list[bytes], extension: bytes):
    body = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces)
    assert unchunk(body + b"0\r\nTrailer: x\r\n\r\n") == b"".join(pieces)


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001, 30_001])
def test_a_body_in_very_many_chunks_is_whole(count: int) -> None:
    body = b"".join(b"5\r\n%05d\r\n" % number for number in range(count)) + b"0\r\n\r\n"
    assert unchunk(body) == b"".join(b"%05d" % number for number in range(count))


def test_chunk_sizes_may_be_upper_case_padded_and_end_in_a_bare_line_feed():
    assert unchunk(b"00A\r\n0123456789\r\n0\r\n\r\n") == b"0123456789"
    assert unchunk(b"3\nabc\n0\n\n") == b"abc"


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b"", b""),
        (b"5", b""),
        (b"5\r\nab", b"ab"),
        (b"2\r\nab\r\nzz\r\ncd\r\n", b"ab"),
        (b"2\r\nab\r\n-1\r\ncd", b"ab"),
    ],
)
def test_broken_framing_gives_the_content_before_the_break(body: bytes, payload: bytes):
    assert unchunk(body) == payload

"""Encodings by the Encoding Standard, with Python's codecs."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.parse import charset


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        (" Latin1\n", "windows-1252"),
        ("us-ascii", "windows-1252"),
        ("gb2312", "gbk"),
        ("x-sjis", "shift_jis"),
        ("hz-gb-2312", "replacement"),
        ("utf-7", ""),
        ("utf-32", ""),
        ("rot13", ""),
        ("base64", ""),
        ("", ""),
    ],
)
def test_a_label_means_what_the_encoding_standard_says(label: str, name: str) -> None:
    assert charset.named(label) == name


def test_every_encoding_has_a_codec_that_knows_ascii() -> None:
    for name in charset.SINGLE_BYTE | charset.MULTI_BYTE - {"utf-16be", "utf-16le"}:
        assert charset.decode(b"abc <p>", name) == "abc <p>"
        codecs.lookup(charset.codec(name))


def test_windows_1252_has_a_character_for_every_byte() -> None:
    decoded = charset.decode(bytes(range(256)), "windows-1252")
    assert (decoded[0x80], decoded[0x81], decoded[0xA3]) == ("€", "\x81", "£")
    assert "\ufffd" not in decoded


@given(
    st.binary(max_size=200),
    st.sampled_from(sorted(charset.SINGLE_BYTE | charset.MULTI_BYTE | {charset.REPLACEMENT})),
)
def test_decoding_never_raises_and_gives_characters_only(content: bytes, name: str) -> None:
    charset.decode(content, name).encode()


def test_encodings_used_for_attacks_decode_to_nothing() -> None:
    assert charset.decode(b"<script>", charset.REPLACEMENT) == "\ufffd"


def test_a_cut_character_at_the_end_does_not_hide_utf_8() -> None:
    whole = "wörter".encode()
    assert charset.guess(whole[:2]) == "utf-8"
    assert charset.guess(b"\xf6" + whole) == "windows-1252"
    assert charset.guess(b"words") == "windows-1252"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<meta charset=KOI8-R>", "koi8-r"),
        (b"<META HTTP-EQUIV='content-type' CONTENT='text/html; charset=big5'>", "big5"),
        (b"<meta http-equiv=content-type content='charset = \"utf-8\"'>", "utf-8"),
        (b"<meta content='text/html; charset=big5'>", ""),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=nonsense><meta charset=utf-8>", "utf-8"),
        (b"<!-- <meta charset=big5> -->", ""),
        (b"<script>'<meta charset=big5>'</script><meta charset=gbk>", "gbk"),
        (b"<?xml version='1.0' encoding='iso-8859-2'?><p>", "iso-8859-2"),
        (b"<?xml encoding='big5'?><meta charset=gbk>", "gbk"),
        (b"x" * 1100 + b"<meta charset=big5>", ""),
        (b"<style>" + b"x" * 1100 + b"</style><meta charset=big5>", "big5"),
        (b"<meta charset=big5", ""),
    ],
)
def test_a_document_may_declare_its_encoding(head: bytes, name: str) -> None:
    assert charset.declared(head) == name


def test_mark_beats_header_beats_declaration_beats_guess() -> None:
    meta = b"<meta charset=gbk>\xc3\xb6"
    assert charset.of_html(b"\xef\xbb\xbf" + meta, "big5") == "utf-8"
    assert charset.of_html(meta, "big5") == "big5"
    assert charset.of_html(meta, "x-user-defined") == "gbk"
    assert charset.of_html(meta, "") == "gbk"
    assert charset.of_html(b"\xc3\xb6", "") == "utf-8"
    assert charset.of_html(b"\xc3\xb6", "", default="koi8-r") == "koi8-r"

"""What a body is, by its label and by its first bytes."""

import pytest

from skitter.parse import sniff

HTML, TEXT, OCTETS = "text/html", "text/plain", "application/octet-stream"


@pytest.mark.parametrize(
    ("value", "media_type", "encoding"),
    [
        ("text/html", HTML, ""),
        ("Text/HTML ; Charset=UTF8", HTML, "utf-8"),
        ('text/html; a=b; charset="iso-8859-1"', HTML, "windows-1252"),
        ("text/html; charset=", HTML, ""),
        ("text/html; charset = utf-8", HTML, ""),
        ("text/html; charset=utf-7", HTML, ""),
        ("text/html;charset=nonsense;charset=utf-8", HTML, "utf-8"),
        ("text/html;charset=utf-8, text/html", HTML, "utf-8"),
        ("html", "", ""),
        ("", "", ""),
        ("text/", "", ""),
        (";charset=utf-8", "", "utf-8"),
    ],
)
def test_a_content_type_field_names_a_type_and_an_encoding(
    value: str, media_type: str, encoding: str
) -> None:
    assert sniff.content_type(value) == (media_type, encoding)


@pytest.mark.parametrize(
    ("supplied", "content", "media_type"),
    [
        # Labels that are believed.
        (HTML, b"plain words", HTML),
        (HTML, b"", HTML),
        (HTML, b"BMW and other cars", HTML),
        (HTML, b"<!doctype html>\x00\x01", HTML),
        (TEXT, b"<!doctype html><p>x", TEXT),
        ("image/png", b"<html>", "image/png"),
        ("application/json", b"{}", "application/json"),
        # Labels that are plainly wrong.
        (HTML, b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        (HTML, b"GIF89a\x01\x00", "image/gif"),
        (HTML, b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (HTML, b"%PDF-1.7 text", "application/pdf"),
        (HTML, b"PK\x03\x04\x14\x00", "application/zip"),
        (HTML, b"\x1f\x8b\x08\x00\x00", "application/x-gzip"),
        (HTML, b"\x7fELF\x02\x01\x01\x00", OCTETS),
        ("application/xhtml+xml", b"\x00\x00\x00\x20ftypisom", "video/mp4"),
        (TEXT, b"\x00\x01\x02\x03", OCTETS),
        (HTML, b'<?xml version="1.0"?>\n<!-- a - b --><rss version="2.0">', "application/rss+xml"),
        (HTML, b'<feed xmlns="http://www.w3.org/2005/Atom">', "application/atom+xml"),
        # No label, or one that says nothing.
        ("", b"  \n<!DOCTYPE HTML>", HTML),
        ("", b"<p>x", HTML),
        ("", b"<paragraph>", TEXT),
        ("*/*", b"<!-- x -->", HTML),
        ("unknown/unknown", b"<?xml version='1.0'?>", "text/xml"),
        ("application/unknown", b"words", TEXT),
        ("", b"\xfe\xff\x00a", TEXT),
        ("", b"\x00\x01", OCTETS),
        ("", b"wOF2\x00", "font/woff2"),
        ("", b"", TEXT),
    ],
)
def test_a_label_is_believed_unless_it_is_missing_or_plainly_wrong(
    supplied: str, content: bytes, media_type: str
) -> None:
    assert sniff.media_type(supplied, "", content) == media_type


def test_zero_bytes_are_text_in_utf_16() -> None:
    content = "hello".encode("utf-16-be")
    assert sniff.media_type(TEXT, "utf-16be", content) == TEXT
    assert sniff.media_type(HTML, "utf-16be", content) == HTML
    assert sniff.media_type(HTML, "", b"\xfe\xff" + content) == HTML
    assert sniff.media_type(HTML, "", content) == OCTETS


def test_the_last_content_type_counts_and_other_headers_are_unchanged() -> None:
    headers = [("content-type", "text/plain"), ("server", "x"), ("content-type", "text/html; charset=koi8-r")]
    body = sniff.body("http://site.example/", headers, b"<p>")
    assert (body.media_type, body.http_charset, set(body.headers)) == (HTML, "koi8-r", {"content-type"})

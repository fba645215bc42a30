"""Parsing a page from the archive again."""

import gzip

import pytest

from skitter.export.reread import from_message, html_of
from skitter.settings import Settings

URL = "https://example.org/"


def text(message: bytes) -> str | None:
    document = from_message(URL, message, Settings())
    return None if document is None else document.text


def test_a_plain_body_is_parsed():
    assert text(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>Hello\r\n\r\nyou</p>") == "Hello you"


def test_chunks_and_content_codings_are_removed():
    packed = gzip.compress(b"<p>Hello</p>")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    half = len(packed) // 2
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (packed[:half], packed[half:]))
    assert text(head + body + b"0\r\n\r\n") == "Hello"


def test_bare_line_ends_are_head_ends_too():
    assert text(b"HTTP/1.0 200 OK\nContent-Type: text/html\n\n<p>Old") == "Old"


def test_a_record_without_an_answer_has_no_document():
    assert text(b"HTTP/1.1 200 OK\r\nContent-Type: text/html") is None


def test_html_is_given_decoded_with_its_type():
    packed = gzip.compress("<p>Grüße</p>".encode("latin-1"))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=ISO-8859-1\r\nContent-Encoding: gzip\r\n\r\n"
    media_type, content = html_of(URL, head + packed, Settings()) or ("", b"")
    assert media_type == "text/html; charset=windows-1252", (
        "which is what that label means (WHATWG Encoding 4.2)"
    )
    assert content == "<p>Grüße</p>".encode("latin-1")


@pytest.mark.parametrize(
    "message",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>No",
        b"HTTP/1.1 301 Moved\r\nContent-Type: text/html\r\nLocation: /b\r\n\r\n<p>There",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nHello",
        b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\x89PNG",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html",
    ],
)
def test_an_answer_that_is_not_html_is_none(message):
    assert html_of(URL, message, Settings()) is None

"""Reading a page out of the archive again."""

import gzip

from skitter.export.reread import from_message
from skitter.settings import Settings

URL = "https://example.org/"


def text(message: bytes) -> str | None:
    document = from_message(URL, message, Settings())
    return None if document is None else document.text


def test_a_plain_body_is_parsed():
    assert text(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>Hello\r\n\r\nyou</p>") == "Hello you"


def test_chunks_and_content_codings_are_taken_off():
    packed = gzip.compress(b"<p>Hello</p>")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    half = len(packed) // 2
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (packed[:half], packed[half:]))
    assert text(head + body + b"0\r\n\r\n") == "Hello"


def test_bare_line_ends_are_head_ends_too():
    assert text(b"HTTP/1.0 200 OK\nContent-Type: text/html\n\n<p>Old") == "Old"


def test_what_is_no_answer_has_no_document():
    assert text(b"HTTP/1.1 200 OK\r\nContent-Type: text/html") is None

"""Raw bytes to outcomes."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.fetch.response import codings, outcome, read_head
from skitter.model import Exchange, Failed, Fault, Fetched, NotModified, Outcome, Purpose, Redirected


def judged(head: bytes, body: bytes = b"", limit: int = 1000, purpose: Purpose = Purpose.PAGE) -> Outcome:
    exchange = Exchange("http://a.example/dir/page?q", "192.0.2.1", 1.0, 2.0, b"GET", head, body)
    return outcome(exchange, limit, purpose)


def block(status: str, *fields: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode()


def test_header_names_are_lower_cased_values_trimmed_and_order_kept():
    head = b"HTTP/1.1 200 OK\r\nX-B:  two words \t\r\nx-a:1\r\nX-B:\r\n\r\n"
    assert read_head(head) == (200, [("x-b", "two words"), ("x-a", "1"), ("x-b", "")])


def test_bare_line_feeds_and_lines_without_colon_are_survived():
    assert read_head(b"HTTP/1.0 404\nA: b\nnonsense\n\n") == (404, [("a", "b")])


def test_each_field_is_utf8_if_it_can_be_and_latin1_otherwise():
    head = b"HTTP/1.1 200 OK\r\nA: \xc3\xa9\r\nB: \xe9\r\n\r\n"
    assert read_head(head) == (200, [("a", "é"), ("b", "é")])


def test_a_carriage_return_inside_a_value_does_not_survive():
    assert read_head(b"HTTP/1.1 200 OK\r\nA: b\rX-Injected: 1\r\n\r\n")[1] == [("a", "b X-Injected: 1")]


@given(st.binary(max_size=300))
def test_any_bytes_give_a_status_and_values_on_one_line(head: bytes):
    status, headers = read_head(head)
    assert status >= 0
    for name, value in headers:
        assert not set("\r\n") & set(value)
        assert "\n" not in name


def test_304_means_the_copy_is_good():
    made = judged(block("304 Not Modified", 'ETag: "a"'))
    assert isinstance(made, NotModified)
    assert made.headers == [("etag", '"a"')]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/x", "http://a.example/x"),
        ("x?y#z", "http://a.example/dir/x?y"),
        ("//b.example", "http://b.example/"),
        ("HTTPS://B.example:443/%7e", "https://b.example/%7e"),
        ("ftp://b.example/", ""),
        ("javascript:alert(1)", ""),
        ("http://", ""),
    ],
)
def test_a_redirect_names_its_target_absolutely_or_not_at_all(status: int, location: str, target: str):
    made = judged(block(f"{status} Moved", f"Location: {location}"))
    assert isinstance(made, Redirected)
    assert (made.status, made.target, made.location) == (status, target, location)


def test_a_location_that_is_not_ascii_is_understood_as_utf8_or_latin1():
    for raw, target in ((b"/\xc3\xa9", "http://a.example/%C3%A9"), (b"/\xe9", "http://a.example/%C3%A9")):
        made = judged(b"HTTP/1.1 302 Found\r\nLocation: " + raw + b"\r\n\r\n")
        assert isinstance(made, Redirected)
        assert made.target == target


@pytest.mark.parametrize(
    "head", [block("301 Moved"), block("302 Found", "Location:"), block("300 Choices", "Location: /x")]
)
def test_without_a_location_there_is_no_redirect(head: bytes):
    assert isinstance(judged(head, b"body"), Fetched)


def test_the_body_of_a_redirect_is_never_decoded():
    head = block("302 Found", "Location: /x", "Content-Encoding: gzip")
    assert isinstance(judged(head, gzip.compress(bytes(10_000))), Redirected)


@pytest.mark.parametrize("status", [200, 204, 206, 299, 400, 403, 404, 410, 429, 500, 503, 599, 999])
def test_every_other_final_answer_is_fetched_whatever_its_status(status: int):
    made = judged(block(f"{status} X"), b"body")
    assert isinstance(made, Fetched)
    assert (made.status, made.payload, made.content) == (status, b"body", b"body")


def test_payload_has_the_framing_off_and_content_the_coding_too():
    packed = gzip.compress(b"content")
    body = b"%x\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(packed), packed)
    made = judged(block("200 OK", "Transfer-Encoding: chunked", "Content-Encoding: gzip"), body)
    assert isinstance(made, Fetched)
    assert (made.exchange.body, made.payload, made.content) == (body, packed, b"content")


def test_a_transfer_coding_below_the_chunks_is_removed_from_the_payload():
    packed = gzip.compress(b"content")
    made = judged(
        block("200 OK", "Transfer-Encoding: gzip, chunked"), b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    )
    assert isinstance(made, Fetched)
    assert (made.payload, made.content) == (b"content", b"content")


def test_an_unknown_coding_leaves_the_content_as_it_is():
    made = judged(block("200 OK", "Content-Encoding: rot13"), b"uryyb")
    assert isinstance(made, Fetched)
    assert made.content == b"uryyb"


def test_too_much_once_decoded_is_a_bomb_but_a_robots_txt_is_read_up_to_the_limit():
    head, body = block("200 OK", "Content-Encoding: gzip"), gzip.compress(b"#" * 5000)
    made = judged(head, body)
    assert isinstance(made, Failed)
    assert (made.fault, made.exchange is not None) == (Fault.BOMB, True)
    robots = judged(head, body, purpose=Purpose.ROBOTS)
    assert isinstance(robots, Fetched)
    assert robots.content == b"#" * 1000


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", Fault.RESET),
        (b"", Fault.RESET),
        (block("101 Switching Protocols"), Fault.PROTOCOL),
    ],
)
def test_invalid_answers_that_libcurl_accepts_fail(head: bytes, fault: Fault):
    made = judged(head)
    assert isinstance(made, Failed)
    assert made.fault is fault


def test_codings_may_stand_on_several_lines_in_any_case():
    headers = [("content-encoding", "GZip,br"), ("x", "y"), ("content-encoding", " deflate ")]
    assert codings(headers, "content-encoding") == ["gzip", "br", "deflate"]

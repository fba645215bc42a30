import base64
import gzip
import hashlib
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.testing.warc_check import check, problems
from skitter.testing.warc_check.octets import Octets
from skitter.testing.warc_check.rules import is_date


def sha1(octets: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(octets).digest()).decode()


def record(kind: str = "resource", block: bytes = b"hello", number: int = 1, **fields: str | None) -> bytes:
    """A right record, unless fields (with _ for -) say otherwise; None leaves one out."""
    lines: dict[str, str | None] = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>",
        "WARC-Date": "2026-01-02T03:04:05Z",
        "WARC-Target-URI": None if kind == "warcinfo" else "http://example.org/",
        "WARC-Block-Digest": sha1(block),
        "Content-Length": str(len(block)),
    } | {name.replace("_", "-"): value for name, value in fields.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return b"WARC/1.1\r\n" + head.encode() + b"\r\n" + block + b"\r\n\r\n"


def http(
    kind: str = "response",
    block: bytes = b"HTTP/1.1 200 OK\r\n\r\nhello",
    number: int = 1,
    Content_Type: str | None = None,  # noqa: N803  named like the field
    **fields: str | None,
) -> bytes:
    media_type = Content_Type or f"application/http;msgtype={kind}"
    return record(kind, block, number, Content_Type=media_type, **fields)


def found(path: Path, octets: bytes) -> list[str]:
    path.write_bytes(octets)
    return sorted({problem.rule for problem in check(path)})


ID = "<urn:uuid:00000000-0000-4000-8000-000000000099>"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


@pytest.mark.parametrize(
    "octets",
    [
        record(),
        record("warcinfo", WARC_Filename="x.warc.gz"),
        record("metadata", WARC_Target_URI=None, WARC_Refers_To=ID),
        record("conversion", WARC_Refers_To=ID),
        record(
            "continuation", WARC_Segment_Number="2", WARC_Segment_Origin_ID=ID, WARC_Payload_Digest="sha1:XYZ"
        ),
        record("new-kind", WARC_Target_URI=None, X_New="y"),
        record(WARC_Date="2026") + record(number=2, WARC_Date="2026-01-02T03:04:05.123456789Z"),
        record(WARC_IP_Address="2001:db8::1"),
        record(WARC_Concurrent_To=ID + "\r\nWARC-Concurrent-To: " + ID.replace("99", "98")),
        record(Content_Type="text/plain; charset=utf-8"),
        record(WARC_Block_Digest="sha256:" + hashlib.sha256(b"hello").hexdigest()),
        record(WARC_Block_Digest="SHA-1:" + base64.b64encode(hashlib.sha1(b"hello").digest()).decode()),
        record(WARC_Block_Digest="unheard-of:xyz"),
        record(WARC_Target_URI="\r\n http://example.org/folded"),
        record(block=b"", WARC_Payload_Digest=sha1(b"")),
        record().replace(b"WARC/1.1", b"WARC/1.0").replace(b"http://example.org/", b"<http://example.org/>"),
        http(WARC_Payload_Digest=sha1(b"hello")),
        http("request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        http(
            block=CHUNKED + b"2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n", WARC_Payload_Digest=sha1(b"hello")
        ),
        http(
            block=b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n",
            WARC_Payload_Digest=sha1(b"hello"),
        ),
        http(block=CHUNKED + b"5\r\nhel", WARC_Truncated="disconnect"),
        http(block=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello", WARC_Truncated="length"),
        http(block=b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
        http(block=b"HTTP/2 200 \r\n\r\n"),
        http(
            "revisit",
            CHUNKED,
            WARC_Profile=PROFILE,
            WARC_Payload_Digest=sha1(b"hello"),
            WARC_Refers_To_Date="2026",
        ),
        http("revisit", b"", WARC_Profile=PROFILE, WARC_Payload_Digest=sha1(b"hello")),
    ],
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_valid_files_are_accepted(tmp_path, octets, compressed):
    if compressed:
        parts = octets.split(b"WARC/1.1\r\n")[1:] or [octets]
        octets = b"".join(gzip.compress(b"WARC/1.1\r\n" + part if octets != part else part) for part in parts)
    assert found(tmp_path / "x.warc", octets) == []


@pytest.mark.parametrize(
    ("octets", "rules"),
    [
        (b"", "empty"),
        (b"junk\r\n" + record(), "version"),
        (record().replace(b"WARC/1.1", b"WARC/1.2"), "version"),
        (record(WARC_Record_ID=None), "mandatory-field"),
        (record(WARC_Type=None), "mandatory-field"),
        (record(WARC_Date=None), "mandatory-field"),
        (record(Content_Length=None), "content-length mandatory-field"),
        (record(Content_Length="5x"), "content-length number"),
        (record(Content_Length="-5"), "content-length number"),
        (record(Content_Length="6"), "block-digest record-end"),
        (record(Content_Length="4"), "block-digest record-end"),
        (record(Content_Length="999"), "truncated"),
        (record()[:-2], "record-end"),
        (record()[:100], "truncated"),
        (record() + b"\r\n", "garbage"),
        (record() + b"junk\r\n" + record(number=2), "garbage"),
        (record().replace(b"\r\nWARC-Date", b"\nWARC-Date"), "line-ending"),
        (record(WARC_Target_URI=None), "mandatory-field"),
        (record("revisit"), "mandatory-field"),
        (record("continuation"), "mandatory-field"),
        (record("revisit", WARC_Profile=PROFILE), "revisit"),
        (http("revisit", WARC_Profile=PROFILE, WARC_Payload_Digest=sha1(b"hello")), "revisit"),
        (record("warcinfo", WARC_Target_URI="http://example.org/"), "field-not-allowed"),
        (record("warcinfo", WARC_Concurrent_To=ID), "field-not-allowed"),
        (record("warcinfo", WARC_IP_Address="192.0.2.1"), "field-not-allowed"),
        (record(WARC_Filename="x"), "field-not-allowed"),
        (record(WARC_Refers_To=ID), "field-not-allowed"),
        (record(WARC_Refers_To_Date="2026"), "field-not-allowed"),
        (record(WARC_Segment_Origin_ID=ID), "field-not-allowed"),
        (record() + record(), "record-id-twice"),
        (record(X="1\r\nx: 2"), "repeated-field"),
        (record(X="1\r\nwarc-date: 2026"), "repeated-field"),
        (record(WARC_Concurrent_To=f"{ID}\r\nWARC-Concurrent-To: {ID}"), "concurrent-to-twice"),
        (record(number=99, WARC_Concurrent_To=ID), "concurrent-to-self"),
        (record(WARC_Concurrent_To=ID) + record(number=99, WARC_Date="2026"), "concurrent-date"),
        (record(X="a\x01b"), "field-syntax"),
        (record().replace(b"WARC-Date:", b"WARC-Date :"), "field-syntax mandatory-field"),
        (record().replace(b"\r\nWARC-Date", b"\r\nno colon\r\nWARC-Date"), "field-syntax"),
        (record(X="q").replace(b"X: q", b"X: \xff"), "utf-8"),
        (record(WARC_Record_ID="urn:uuid:1"), "uri"),
        (record(WARC_Record_ID="<urn:uuid: 1>"), "uri"),
        (record(WARC_Record_ID="<nothing>"), "uri"),
        (record(WARC_Target_URI="<http://example.org/>"), "uri"),
        (record(WARC_Target_URI="http://example.org/a b"), "uri"),
        (record(WARC_Target_URI="http://example.org/ä"), "uri"),
        (record(WARC_Target_URI="http://example.org/%zz"), "uri"),
        (record(WARC_Target_URI="/relative"), "uri"),
        (record(WARC_Date="2026-01-02T03:04:05+01:00"), "date"),
        (record(WARC_Date="2026-13-02T03:04:05Z"), "date"),
        (record(WARC_Date="20260102030405"), "date"),
        (record(WARC_Block_Digest="XYZ"), "digest-syntax"),
        (record(WARC_Block_Digest=sha1(b"other")), "block-digest"),
        (record(WARC_Block_Digest="sha1:" + "0" * 40), "block-digest"),
        (record(WARC_Block_Digest="sha1:!"), "digest-syntax block-digest"),
        (record(WARC_Payload_Digest=sha1(b"other")), "payload-digest"),
        (http(WARC_Payload_Digest=sha1(b"other")), "payload-digest"),
        (
            http(
                block=CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
                WARC_Payload_Digest=sha1(b"5\r\nhello\r\n0\r\n\r\n"),
            ),
            "payload-digest",
        ),
        (record(WARC_IP_Address="example.org"), "ip-address"),
        (record(WARC_Truncated="two words"), "token"),
        (record(Content_Type="text"), "media-type"),
        (http(Content_Type="application/http; msgtype=request"), "message-type"),
        (http(block=b"no http at all"), "http-message"),
        (http(block=b"HTTP/1.1 200 OK\r\nno: end\r\n"), "http-message"),
        (http("request", b"\r\n\r\n"), "http-message"),
        (http(block=CHUNKED + b"hello"), "http-chunked"),
        (http(block=CHUNKED + b"5\r\nhel"), "http-chunked"),
        (http(block=CHUNKED + b"5\r\nhelloworld\r\n0\r\n\r\n"), "http-chunked"),
        (http(block=CHUNKED + b"5\r\nhello\r\n0\r\n"), "http-chunked"),
        (http(block=CHUNKED + b"5\r\nhello\r\n0\r\n\r\nmore"), "http-chunked"),
        (http(block=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello"), "http-length"),
        (gzip.compress(record() + record(number=2)), "gzip-member"),
        (gzip.compress(b"", mtime=0), "gzip-member"),
        (
            gzip.compress(record()) + gzip.compress(b"", mtime=0) + gzip.compress(record(number=2)),
            "gzip-member",
        ),
        (gzip.compress(record())[:-1], "gzip-truncated"),
        (gzip.compress(record()) + b"junk", "gzip"),
        (gzip.compress(record()) + bytes(512), "gzip"),
        (gzip.compress(record())[:-8] + bytes(8), "gzip"),
        (gzip.compress(record()[:-4]) + gzip.compress(b"\r\n\r\n"), "gzip-member record-end version"),
    ],
)
def test_violations_are_found(tmp_path, octets, rules):
    assert found(tmp_path / "x.warc", octets) == sorted(rules.split())


def test_after_a_problem_it_continues_with_the_next_record(tmp_path):
    path = tmp_path / "x.warc"
    broken = [
        record(Content_Length=None),
        record(number=2)[:-2],
        record(number=3) + b"junk\r\n",
        record(number=4, WARC_Date="x"),
    ]
    path.write_bytes(b"".join(broken) + record(number=5))
    assert [(problem.offset, problem.rule) for problem in check(path)] == [
        (0, "mandatory-field"),
        (0, "content-length"),
        (len(broken[0]), "record-end"),
        (len(broken[0] + broken[1]), "garbage"),
        (len(b"".join(broken[:3])), "date"),
    ]


def test_record_ids_are_unique_across_files(tmp_path):
    one, other = tmp_path / "1.warc", tmp_path / "2.warc"
    one.write_bytes(record())
    other.write_bytes(record())
    assert check(one) == check(other) == []
    assert [(problem.file, problem.rule) for problem in check(one, other)] == [(other, "record-id-twice")]


@settings(deadline=None)
@given(st.data())
def test_no_input_makes_it_fail_or_hang(tmp_path_factory, data):
    whole = (
        record() + http(block=CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", number=2) + record("warcinfo", number=3)
    )
    if data.draw(st.booleans()):
        whole = gzip.compress(whole)
    octets = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(octets) - 1), max_size=8)):
        octets[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    path = tmp_path_factory.getbasetemp() / "mutated.warc"
    path.write_bytes(octets[:cut] + data.draw(st.sampled_from([b"", bytes(octets[:50]), b"WARC/1.1\r\n"])))
    assert len(check(path)) < 100


@given(st.lists(st.binary(min_size=1, max_size=9)), st.lists(st.integers(1, 12)))
def test_a_stream_returns_its_bytes_however_it_is_read(pieces, sizes):
    octets, read = Octets(iter(pieces)), b""
    for n, size in enumerate(sizes):
        read += octets.line(size) if n % 2 else octets.take(size)
        assert octets.position == len(read)
    assert read + b"".join(iter(lambda: octets.take(3), b"")) == b"".join(pieces)


@pytest.mark.parametrize("size", [2_000_000, 20_000_000])
def test_memory_does_not_grow_with_the_file(tmp_path, size):
    path = tmp_path / "large.warc.gz"
    with path.open("wb") as file:
        for n in range(300):
            file.write(gzip.compress(record(number=n), 1))
        file.write(gzip.compress(record(number=301, block=bytes(size)), 1))
    tracemalloc.start()
    assert not list(problems(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("2026", True),
        ("2026-02", True),
        ("2026-02-28", True),
        ("2026-02-28T23:59Z", True),
        ("2026-02-28T23:59:59Z", True),
        ("2016-12-31T23:59:60Z", True),
        ("2026-02-28T23:59:59.1Z", True),
        ("2026-02-28T23:59:59.1234567890Z", False),
        ("2026-02-29", False),
        ("2026-02-28T24:00:00Z", False),
        ("2026-02-28T23:59:59", False),
        ("2026-02-28 23:59:59Z", False),
        ("", False),
    ],
)
def test_dates(value, right):
    assert is_date(value) is right


def test_the_command_prints_problems_and_exits_with_1(tmp_path):
    good, bad = tmp_path / "good.warc", tmp_path / "bad.warc"
    good.write_bytes(record())
    bad.write_bytes(record(number=2, WARC_Date="yesterday"))
    command = [sys.executable, "-m", "skitter.testing.warc_check"]
    right = subprocess.run([*command, good], capture_output=True, text=True, check=False)
    assert (right.returncode, right.stdout) == (0, "")
    wrong = subprocess.run([*command, good, bad], capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert wrong.stdout.startswith(f"{bad}:0: date: warc-date is 'yesterday'")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert subprocess.run([*command, tmp_path / "none"], capture_output=True, check=False).returncode == 2

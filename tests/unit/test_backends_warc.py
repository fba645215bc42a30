import asyncio
import errno
import gzip
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.backends.warc import DamagedRecordError, Reader, Record, WarcArchive, records
from skitter.model import Exchange, Page, Place
from skitter.ports import Mark, Twin
from skitter.settings import ArchiveSettings, Bytes
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.archive import exchange, in_chunks, message, page_of
from skitter.testing.warc_check import check
from tests.warc_readers import assert_all_readers_agree

DAY = 1_767_323_045.5  # 2026-01-02T03:04:05.5Z


def opened(directory: Path, shard: int = 0, max_file: int = 2**30) -> WarcArchive:
    settings = ArchiveSettings(max_file=Bytes(max_file), operator="The operators")
    clock = VirtualClock(DAY)
    return WarcArchive(
        directory, shard, settings, clock, software="Skitter/test", user_agent="Skitter/test (+x)"
    )


def written(directory: Path, *visits: tuple[Exchange, Page | None, Twin | None]) -> list[Record]:
    """The records of a fresh archive with these visits."""

    async def write() -> str:
        archive = opened(directory)
        await archive.append([archive.pack(*visit) for visit in visits])
        await archive.close()
        return archive.mark().file

    return list(Reader(directory).records(asyncio.run(write())))


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.warc.gz"))


# ------------------------------------------------------------------------------------------------ the records of a visit


def test_a_visit_is_a_response_a_request_and_metadata_with_one_date_and_tied_together(tmp_path):
    answered = exchange("http://example.org/a")
    page = page_of(answered, b"hello", parent="http://example.org/", depth=2)
    warcinfo, response, request, metadata = written(tmp_path, (answered, page, None))

    assert [r.fields["warc-type"] for r in (warcinfo, response, request, metadata)] == [
        "warcinfo",
        "response",
        "request",
        "metadata",
    ]
    assert {r.fields["warc-date"] for r in (response, request, metadata)} == {"2026-01-02T03:04:05.123456Z"}
    assert response.fields["warc-concurrent-to"] == request.fields["warc-record-id"]
    assert request.fields["warc-concurrent-to"] == response.fields["warc-record-id"]
    assert metadata.fields["warc-concurrent-to"] == response.fields["warc-record-id"]
    assert {r.fields["warc-target-uri"] for r in (response, request, metadata)} == {"http://example.org/a"}
    assert {r.fields["warc-ip-address"] for r in (response, request, metadata)} == {"192.0.2.7"}


def test_blocks_are_exactly_the_bytes_on_the_wire(tmp_path):
    answered = exchange(body=bytes(range(256)) * 9, chunked=True)
    odd_head = (
        b"HTTP/1.1 200 oK\r\nX-ODD:  two  spaces \r\nx-odd: again\r\nTRANSFER-encoding: Chunked\r\n\r\n"
    )
    answered = replace(answered, head=odd_head)
    _, response, request, _ = written(tmp_path, (answered, None, None))
    assert response.block == answered.head + answered.body
    assert request.block == answered.request


def test_metadata_says_how_we_got_there(tmp_path):
    answered = exchange()
    page = page_of(answered, b"hello", parent="http://example.org/start", depth=2)
    metadata = written(tmp_path, (answered, page, None))[-1]
    assert metadata.block == (
        b"fetchTimeMs: 250\r\nvia: http://example.org/start\r\nhopsFromSeed: LL\r\ncharset: utf-8\r\n"
    )


def test_a_long_way_from_the_seed_is_abbreviated(tmp_path):
    answered = exchange()
    metadata = written(tmp_path, (answered, page_of(answered, b"hello", depth=4321), None))[-1]
    assert b"hopsFromSeed: 4271+" + b"L" * 50 + b"\r\n" in metadata.block


def test_a_page_cannot_inject_fields(tmp_path):
    answered = exchange("http://example.org/\r\nWARC-Type: evil")
    page = replace(
        page_of(answered, b"hello"),
        charset="x\r\nevil: 1\x00",
        parent="http://example.org/\r\nevil: 2",
    )
    _, response, _, metadata = written(tmp_path, (answered, page, None))
    assert response.fields["warc-target-uri"] == "http://example.org/%0D%0AWARC-Type:%20evil"
    assert b"\nevil" not in metadata.block
    assert check(*files(tmp_path)) == []


def test_an_exchange_without_an_answer_is_a_bug_of_the_caller():
    with pytest.raises(ValueError, match="not answered"):
        records.pack(replace(exchange(), head=b"", body=b""), None, None)


def test_without_an_address_none_is_stated(tmp_path):
    assert "warc-ip-address" not in written(tmp_path, (replace(exchange(), address=""), None, None))[1].fields


def test_the_warcinfo_record_names_the_software_and_the_operator(tmp_path):
    crawl = tmp_path / "skitter-example.org" / "archive"
    warcinfo = written(crawl, (exchange(), None, None))[0]
    assert warcinfo.fields["warc-filename"] == files(crawl)[0].name == "00-20260102030405-00000.warc.gz"
    told = dict(line.split(": ", 1) for line in warcinfo.block.decode().splitlines())
    assert told == {
        "software": "Skitter/test",
        "format": "WARC File Format 1.1",
        "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "robots": "obey RFC 9309",
        "operator": "The operators",
        "http-header-user-agent": "Skitter/test (+x)",
        "isPartOf": "skitter-example.org",
    }


# ------------------------------------------------------------------------------------------------ digests


def test_the_payload_digest_is_that_of_the_page(tmp_path):
    answered = exchange(body=b"some payload")
    page = page_of(answered, b"some payload")
    response = written(tmp_path, (answered, page, None))[1]
    assert response.fields["warc-payload-digest"] == page.digest
    assert_all_readers_agree(*files(tmp_path))


def test_the_digest_of_a_chunked_payload_is_in_the_metadata_record(tmp_path):
    answered = exchange(body=b"some payload", chunked=True)
    page = page_of(answered, b"some payload")
    for directory, visit in ((tmp_path / "page", page), (tmp_path / "robots", None)):
        _, response, _, metadata = written(directory, (answered, visit, None))
        assert "warc-payload-digest" not in response.fields
        assert f"payload-digest: {page.digest}\r\n".encode() in metadata.block
        assert_all_readers_agree(*files(directory))


def test_the_payload_digest_keeps_the_content_coding_on(tmp_path):
    body = gzip.compress(b"hello " * 100)
    answered = exchange(body=body)
    head = answered.head.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    response = written(tmp_path, (replace(answered, head=head), None, None))[1]
    assert response.fields["warc-payload-digest"] == page_of(answered, body).digest
    assert_all_readers_agree(*files(tmp_path))


@pytest.mark.parametrize(
    ("body", "payload", "whole"),
    [
        (b"0\r\n\r\n", b"", True),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello", True),
        (b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n", b"hello", True),
        (b"3\nhel\n002 \nlo\n0\n\n", b"hello", True),
        (b"A\r\n0123456789\r\n000\r\nX-Sum: 1\r\nY: 2\r\n\r\n", b"0123456789", True),
        (b"5\r\nhello\r\n0\r\n", b"hello", False),
        (b"5\r\nhello\r\n", b"hello", False),
        (b"5\r\nhel", b"hel", False),
        (b"5\r\nhelloworld\r\n0\r\n\r\n", b"hello", False),
        (b"hello", b"", False),
        (b"", b"", False),
    ],
)
def test_dechunk(body, payload, whole):
    assert records.dechunk(body) == (payload, whole)


@given(st.binary(max_size=5000), st.integers(1, 2000))
def test_dechunk_undoes_chunking(body, size):
    assert records.dechunk(in_chunks(body, size)) == (body, True)


@given(st.binary(max_size=200))
def test_dechunk_never_raises(body):
    records.dechunk(body)


@pytest.mark.parametrize(
    ("answered", "truncated"),
    [
        (exchange(body=b"hello"), None),
        (replace(exchange(body=b"hello"), body=b"hel"), "unspecified"),
        (replace(exchange(body=b"hello"), body=b""), None),
        (exchange(body=b"hello", chunked=True), None),
        (replace(exchange(body=b"hello", chunked=True), body=b"5\r\nhel"), "unspecified"),
        (replace(exchange(body=b"hello"), body=b"hel", cut=True), "length"),
        (replace(exchange(body=b"hello", chunked=True), body=b"5\r\nhel", cut=True), "length"),
    ],
)
def test_a_body_that_was_cut_short_is_marked(tmp_path, answered, truncated):
    assert written(tmp_path, (answered, None, None))[1].fields.get("warc-truncated") == truncated
    assert check(*files(tmp_path)) == []


# ------------------------------------------------------------------------------------------------ revisits


def test_an_identical_payload_is_a_revisit_that_names_the_original_as_it_was_recorded(tmp_path):
    first, second = exchange("http://example.org/a|b"), exchange("http://example.org/b", chunked=True)
    first, second = replace(first, started=DAY + 0.1), replace(second, started=DAY + 9)
    original = page_of(first, b"hello")
    twin = Twin(first.url, first.started, original.digest, None)
    recorded = written(tmp_path, (first, original, None), (second, page_of(second, b"hello"), twin))
    response, revisit = recorded[1], recorded[4]
    assert revisit.fields["warc-type"] == "revisit"
    assert (
        revisit.fields["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    )
    assert revisit.fields["warc-refers-to-date"] == response.fields["warc-date"]
    assert revisit.fields["warc-refers-to-target-uri"] == response.fields["warc-target-uri"]
    assert revisit.fields["warc-payload-digest"] == response.fields["warc-payload-digest"]
    assert revisit.block == second.head
    assert_all_readers_agree(*files(tmp_path))


def test_not_modified_is_a_revisit_too_when_the_original_is_known(tmp_path):
    answered = replace(exchange(), head=b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", body=b"")
    twin = Twin(answered.url, DAY, "sha1:X", None)
    recorded = written(tmp_path, (answered, None, twin), (answered, None, None))
    revisit, response = recorded[1], recorded[4]
    assert revisit.fields["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    assert revisit.fields["warc-refers-to-date"] == "2026-01-02T03:04:05.500000Z"
    assert revisit.block == response.block == answered.head
    assert response.fields["warc-type"] == "response"
    assert_all_readers_agree(*files(tmp_path))


# ------------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, b"1970-01-01T00:00:00.000000Z"),
        (1_767_323_045.0, b"2026-01-02T03:04:05.000000Z"),
        (1_767_323_045.9999996, b"2026-01-02T03:04:06.000000Z"),
        (1_767_323_045.000001, b"2026-01-02T03:04:05.000001Z"),
        (4_102_444_799.123456, b"2099-12-31T23:59:59.123456Z"),
    ],
)
def test_dates_have_microseconds_and_are_utc(moment, text):
    assert records.date(moment) == text


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://example.org/a?b=c&d=[e]#f", b"http://example.org/a?b=c&d=[e]#f"),
        ("http://example.org/%7Ea%2f", b"http://example.org/%7Ea%2f"),
        ('http://example.org/a|b^c?{d}="e"`<>', b"http://example.org/a%7Cb%5Ec?%7Bd%7D=%22e%22%60%3C%3E"),
        ("http://example.org/100%?50%2", b"http://example.org/100%25?50%252"),
        ("http://example.org/a b\tc", b"http://example.org/a%20b%09c"),
        ("http://example.org/ä", b"http://example.org/%C3%A4"),
        ("http://example.org/\udc80", b"http://example.org/%3F"),
    ],
)
def test_target_uris_are_uris(url, text):
    assert records.uri(url) == text


@given(st.text())
def test_every_url_becomes_a_uri_without_line_breaks(url):
    text = records.uri(url)
    assert text.isascii()
    assert not set(text) & set(b" \r\n<>")


def test_record_ids_are_random_uuids_of_version_4():
    ids = records.record_ids(4000)
    assert len(set(ids)) == 4000
    for one in ids:
        assert len(one) == 36
        assert chr(one[14]) == "4"
        assert chr(one[19]) in "89ab"


# ------------------------------------------------------------------------------------------------ files


def append(archive: WarcArchive, *bodies: bytes) -> list[Place]:
    return asyncio.run(archive.append([archive.pack(exchange(body=body), None, None) for body in bodies]))


def test_every_record_is_one_gzip_member(tmp_path):
    places = append(opened(tmp_path), b"one", b"two")
    for place in places:
        octets = files(tmp_path)[0].read_bytes()[place.offset : place.offset + place.length]
        assert gzip.decompress(octets).startswith(b"WARC/1.1\r\nWARC-Type: response\r\n")
    assert assert_all_readers_agree(*files(tmp_path)) == 7


def test_a_file_that_has_grown_beyond_the_limit_is_left_and_no_group_is_divided(tmp_path):
    archive = opened(tmp_path, shard=3, max_file=4000)
    for n in range(8):
        places = append(archive, *(b"%d" % n for _ in range(3)))
        assert len({place.file for place in places}) == 1
    names = [path.name for path in files(tmp_path)]
    assert names == [f"03-20260102030405-{serial:05d}.warc.gz" for serial in range(len(names))]
    assert len(names) > 2
    assert all(path.stat().st_size > 4000 for path in files(tmp_path)[:-1])
    assert assert_all_readers_agree(*files(tmp_path)) == 8 * 9 + len(names)
    asyncio.run(archive.close())


def test_without_a_cut_no_existing_file_is_written_to(tmp_path):
    append(opened(tmp_path), b"one")
    before = files(tmp_path)[0].read_bytes()
    append(opened(tmp_path), b"two")
    assert len(files(tmp_path)) == 2
    assert files(tmp_path)[0].read_bytes() == before


def test_after_close_the_archive_continues_in_a_new_file(tmp_path):
    archive = opened(tmp_path)
    append(archive, b"one")
    asyncio.run(archive.close())
    append(archive, b"two")
    assert len(files(tmp_path)) == 2


def test_nothing_is_created_before_there_is_something_to_write(tmp_path):
    archive = opened(tmp_path / "archive")
    assert archive.mark() == Mark()
    assert asyncio.run(archive.cut(Mark())) == Mark()
    asyncio.run(archive.close())
    assert not (tmp_path / "archive").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_no_file_descriptor_is_left_open(tmp_path):
    before = open_files()
    archive = opened(tmp_path, max_file=1)
    for _ in range(5):
        append(archive, b"one")
        append(archive, b"two")
        asyncio.run(archive.sync())
        assert len(open_files()) == len(before) + 1
    asyncio.run(archive.cut(archive.mark()))
    append(archive, b"three")
    asyncio.run(archive.close())
    assert open_files() == before


def open_files() -> list[str]:
    """What the open descriptors of this process lead to."""
    links = sorted(Path("/proc/self/fd").iterdir(), key=lambda path: int(path.name))
    return [str(link.readlink()) for link in links if link.is_symlink()]


@contextmanager
def files_no_larger_than(octets: int) -> Iterator[None]:
    """A real limit of the system: a write beyond it stops short, and the next one fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path):
    archive = opened(tmp_path)
    append(archive, b"one")
    mark, before = archive.mark(), files(tmp_path)[0].read_bytes()
    packed = archive.pack(exchange(body=os.urandom(10_000)), None, None)
    with files_no_larger_than(mark.end + 5000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        asyncio.run(archive.append([packed]))
    assert files(tmp_path)[0].read_bytes() == before
    assert archive.mark() == mark
    (place,) = asyncio.run(archive.append([packed]))
    assert place.offset == mark.end
    assert assert_all_readers_agree(*files(tmp_path)) == 7


def test_a_failed_write_that_cannot_be_undone_at_once_is_undone_later(tmp_path, monkeypatch):
    archive = opened(tmp_path)
    append(archive, b"one")
    mark = archive.mark()
    packed = archive.pack(exchange(body=os.urandom(10_000)), None, None)

    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as broken, files_no_larger_than(mark.end + 5000):
        broken.setattr(os, "ftruncate", fail)
        for message_part in (os.strerror(errno.EFBIG), "the disk is gone"):
            with pytest.raises(OSError, match=message_part):
                asyncio.run(archive.append([packed]))
    assert files(tmp_path)[0].stat().st_size > mark.end
    (place,) = asyncio.run(archive.append([packed]))
    assert place.offset == mark.end
    assert assert_all_readers_agree(*files(tmp_path)) == 7


def test_a_file_truncated_by_others_is_not_written_to(tmp_path):
    archive = opened(tmp_path)
    append(archive, b"one")
    os.truncate(files(tmp_path)[0], 100)
    with pytest.raises(OSError, match="shortened"):
        append(archive, b"two")


def test_a_new_file_that_cannot_be_written_is_removed(tmp_path):
    archive = opened(tmp_path, max_file=1)
    append(archive, b"one")
    mark = archive.mark()
    packed = archive.pack(exchange(body=os.urandom(10_000)), None, None)
    with files_no_larger_than(5000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        asyncio.run(archive.append([packed]))
    assert archive.mark() == mark
    assert len(files(tmp_path)) == 1
    asyncio.run(archive.append([packed]))
    assert assert_all_readers_agree(*files(tmp_path)) == 8


# ------------------------------------------------------------------------------------------------ cutting


def small_archive(directory: Path) -> tuple[Path, Mark, list[int]]:
    """Two visits in one file; the offsets at which it may end without tearing a visit apart."""
    archive = opened(directory)
    ends = []
    for body in (b"one", b"two"):
        append(archive, body)
        ends.append(archive.mark().end)
    path = files(directory)[0]
    first = next(iter(Reader(directory).records(path.name)))
    return path, archive.mark(), [0, first.place.length, *ends]


def test_cutting_a_file_torn_at_any_byte_leaves_complete_visits(tmp_path):
    path, mark, ends = small_archive(tmp_path)
    octets = path.read_bytes()

    async def tear_and_cut() -> None:
        archive = opened(tmp_path)
        for length in range(mark.end + 1):
            path.write_bytes(octets[:length])
            end = await archive.cut(mark)
            assert end == Mark(mark.file, max(whole for whole in ends if whole <= length))
            assert (path.read_bytes() if path.exists() else b"") == octets[: end.end]
        await archive.close()

    asyncio.run(tear_and_cut())


def test_cutting_at_any_byte_leaves_complete_records(tmp_path):
    path, mark, ends = small_archive(tmp_path)
    octets = path.read_bytes()
    inner = [record.place.offset for record in Reader(tmp_path).records(path.name)]

    async def cut() -> None:
        archive = opened(tmp_path)
        for length in range(mark.end + 1):
            path.write_bytes(octets)
            end = await archive.cut(Mark(mark.file, length))
            # A mark between two records of one visit is none that we make; it is taken at its word.
            assert end.end == (length if length in inner else max(whole for whole in ends if whole <= length))
            assert (path.read_bytes() if path.exists() else b"") == octets[: end.end]
        await archive.close()

    asyncio.run(cut())


def test_cut_of_a_file_with_zeros_in_its_tail_drops_them(tmp_path):
    path, mark, ends = small_archive(tmp_path)
    path.write_bytes(path.read_bytes()[: ends[2] + 100] + bytes(50))
    assert asyncio.run(opened(tmp_path).cut(mark)) == Mark(mark.file, ends[2])


def test_cut_removes_the_later_files_of_this_shard_and_no_others(tmp_path):
    archive = opened(tmp_path, max_file=1)
    append(archive, b"one")
    append(archive, b"two")
    mark = archive.mark()
    append(archive, b"three")
    append(archive, b"four")
    append(opened(tmp_path, shard=1), b"neighbour")
    (tmp_path / "notes.txt").write_text("mine")
    assert asyncio.run(opened(tmp_path).cut(mark)) == mark
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00-20260102030405-00000.warc.gz",
        "00-20260102030405-00001.warc.gz",
        "01-20260102030405-00000.warc.gz",
        "notes.txt",
    ]


def test_serial_numbers_order_the_files_although_the_clock_was_set_back(tmp_path):
    archive = opened(tmp_path, max_file=1)
    append(archive, b"one")
    mark = archive.mark()
    clock = VirtualClock(DAY - 86400)
    later = WarcArchive(tmp_path, 0, ArchiveSettings(), clock)
    append(later, b"two")
    assert later.mark().file == "00-20260101030405-00001.warc.gz"
    assert asyncio.run(opened(tmp_path).cut(mark)) == mark
    assert [path.name for path in files(tmp_path)] == [mark.file]


def test_a_missing_marked_file_is_reported_and_its_name_is_not_reused(tmp_path):
    archive = opened(tmp_path, max_file=1)
    append(archive, b"one")
    append(archive, b"two")
    mark = archive.mark()
    (tmp_path / mark.file).unlink()
    again = opened(tmp_path)
    assert asyncio.run(again.cut(mark)) == again.mark() == Mark(mark.file, 0)
    append(again, b"three")
    assert again.mark().file == "00-20260102030405-00002.warc.gz"


@pytest.mark.parametrize(
    "name", ["../00-20260102030405-00000.warc.gz", "01-20260102030405-00000.warc.gz", "x"]
)
def test_a_mark_that_names_a_foreign_file_is_refused(tmp_path, name):
    append(opened(tmp_path), b"one")
    with pytest.raises(ValueError, match="shard 0"):
        asyncio.run(opened(tmp_path).cut(Mark(name, 10)))
    assert len(files(tmp_path)) == 1


# ------------------------------------------------------------------------------------------------ reading


def test_a_damaged_record_is_never_read_as_complete(tmp_path):
    (place,) = append(opened(tmp_path), b"hello" * 100)
    path, reader = files(tmp_path)[0], Reader(tmp_path)
    octets = path.read_bytes()
    assert reader.read(place) == message(exchange(body=b"hello" * 100))
    for wrong in (
        Place(place.file, place.offset, place.length - 1),
        Place(place.file, place.offset + 1, place.length),
    ):
        with pytest.raises(DamagedRecordError):
            reader.read(wrong)
    whole, spared = reader.read(place), 0
    header = 10  # of the gzip member: a flag or time changed there does not touch the content
    for at in range(place.offset + header, place.offset + place.length, 3):
        path.write_bytes(octets[:at] + bytes([octets[at] ^ 0x10]) + octets[at + 1 :])
        try:
            assert reader.read(place) == whole
            spared += 1
        except DamagedRecordError:
            continue
    assert spared <= 1, "only the unused bits behind the last code may change without notice"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", ""])
def test_a_place_outside_of_the_archive_is_refused(tmp_path, name):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "archive").mkdir()
    with pytest.raises(OSError, match="archive"):
        Reader(tmp_path / "archive").read(Place(name, 0, 6))


def test_reading_stops_after_the_last_complete_record(tmp_path):
    append(opened(tmp_path), b"one")
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert [record.fields["warc-type"] for record in Reader(tmp_path).records(path.name)] == [
        "warcinfo",
        "response",
        "request",
    ]


# ------------------------------------------------------------------------------------------------ kill -9

WRITER = """
import asyncio, json, os, random, sys, time
from pathlib import Path
from skitter.backends.warc import WarcArchive
from skitter.ports import Mark
from skitter.settings import ArchiveSettings
from skitter.testing.contracts.archive import exchange

class Clock:
    now, monotonic = staticmethod(time.time), staticmethod(time.monotonic)

async def write(directory, journal, seed):
    dice = random.Random(seed)
    lines = journal.read_text().split("\\n")[:-1] if journal.exists() else []
    last = json.loads(lines[-1]) if lines else {"mark": ["", 0], "number": 0}
    archive = WarcArchive(directory, 0, ArchiveSettings(max_file=2_000_000), Clock())
    mark = Mark(*last["mark"])
    assert await archive.cut(mark) == mark
    number = last["number"]
    settled = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.truncate(journal, sum(len(line) + 1 for line in lines))
    print("ready", flush=True)
    while True:
        group = range(number, number + dice.randrange(1, 40))
        answers = [exchange(f"http://example.org/{n}", dice.randbytes(n % 3000), chunked=n % 2 == 0) for n in group]
        places = await archive.append([archive.pack(answer, None, None) for answer in answers])
        number = group.stop
        told = {"mark": [archive.mark().file, archive.mark().end], "number": number}
        told["places"] = [[n, p.file, p.offset, p.length] for n, p in zip(group, places)]
        os.write(settled, (json.dumps(told) + "\\n").encode())

asyncio.run(write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_kill_9_at_any_time_loses_nothing_settled_and_leaves_nothing_broken(tmp_path, rounds):
    directory, journal = tmp_path / "archive", tmp_path / "settled.jsonl"
    dice = random.Random(rounds)
    for n in range(rounds):
        command = [sys.executable, "-c", WRITER, str(directory), str(journal), str(n)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(dice.uniform(0.0, 0.2))
            writer.kill()

    settled = [json.loads(line) for line in journal.read_text().split("\n")[:-1]]
    mark = Mark(*settled[-1]["mark"])
    archive = opened(directory)
    assert asyncio.run(archive.cut(mark)) == mark
    asyncio.run(archive.close())
    places = {n: Place(*place) for group in settled for n, *place in group["places"]}
    assert list(places) == list(range(settled[-1]["number"])), "every visit is settled exactly once"
    assert assert_all_readers_agree(*files(directory)) == 3 * len(places) + len(files(directory))
    reader = Reader(directory)
    for n, place in places.items():
        record = reader.record(place)
        assert record.fields["warc-target-uri"] == f"http://example.org/{n}"
        body = record.block.partition(b"\r\n\r\n")[2]
        payload = records.dechunk(body)[0] if n % 2 == 0 else body
        assert len(payload) == n % 3000

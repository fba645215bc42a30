"""WARC/1.1 (ISO 28500:2017): every broken file is detected, and what we write meets every requirement."""

import asyncio
import gzip
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from skitter.backends.warc import Reader, Record, WarcArchive
from skitter.model import Exchange
from skitter.ports import Mark, Twin
from skitter.settings import ArchiveSettings, Bytes
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.archive import exchange, page_of
from skitter.testing.warc_check import check
from tests.conformance.cases import FOLDER, needs_cases, rows
from tests.warc_readers import assert_all_readers_agree

NEGATIVE = rows("warc_negative_expected.jsonl")


@needs_cases
@pytest.mark.parametrize("row", NEGATIVE, ids=[row["file"] for row in NEGATIVE])
def test_the_checker_distinguishes_valid_and_invalid_files(row):
    problems = check(FOLDER / row["file"])
    assert (not problems) == row["strictly_valid_warc_1_1"], problems


@needs_cases
@pytest.mark.parametrize("row", NEGATIVE, ids=[row["file"] for row in NEGATIVE])
def test_wrong_files_joined_to_a_right_one_are_still_found_out(row):
    """A problem in the first part of a file hides none in the next, and a right file stays right."""
    right = (
        FOLDER / "warc_negative" / ("00_valid.warc.gz" if row["file"].endswith(".gz") else "00_valid.warc")
    )
    problems = check(right, FOLDER / row["file"])
    wrong = [problem for problem in problems if problem.rule != "record-id-twice"]
    twice = row["file"].endswith("17_duplicate_record_id.warc")
    assert (not wrong) == (row["strictly_valid_warc_1_1"] or twice), problems


# ------------------------------------------------------------------------------------------------ what we write


class Sample(NamedTuple):
    """An archive of ours: what was handed in, the files, and their records."""

    exchanges: Sequence[Exchange]
    directory: Path
    paths: Sequence[Path]
    records: Sequence[Record]

    def of(self, *kinds: str) -> list[Record]:
        """Records by type."""
        return [record for record in self.records if record.fields["warc-type"] in kinds]


def compressed(url: str) -> Exchange:
    body = gzip.compress(b"<p>compressed</p>" * 50)
    answered = exchange(url, body)
    return replace(answered, head=answered.head.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Sample:
    """Pages plain, chunked, compressed, large and cut short; odd URLs; a redirect, a copy and a 304; three files."""
    directory = tmp_path_factory.mktemp("crawl") / "archive"
    original, copy = exchange("http://example.org/a"), exchange("http://example.org/copy", chunked=True)
    unmodified = replace(
        original, head=b"HTTP/1.1 304 Not Modified\r\n\r\n", body=b"", started=original.started + 99
    )
    redirect = replace(
        original, url="http://example.org/r", head=b"HTTP/1.1 301 Moved\r\nLocation: /a\r\n\r\n", body=b""
    )
    odd_head = b"HTTP/1.1 200 ok\r\nx-Lower: 1\r\nX-UPPER:2\r\nX-Lower:  3 \r\ncontent-type:text/html\r\n\r\n"
    exchanges = [
        original,
        exchange("http://example.org/chunked", b"<p>chunks</p>" * 500, chunked=True),
        compressed("http://example.org/compressed"),
        exchange("http://example.org/large", bytes(range(256)) * 48 * 1024),
        replace(exchange("http://example.org/cut", b"x" * 100), body=b"x" * 60),
        exchange("http://xn--bcher-kva.example/a b?q={|}&r=100%"),
        replace(exchange("http://example.org/head"), head=odd_head),
        redirect,
    ]
    page = page_of(original, original.body)
    twin = Twin(original.url, original.started, page.digest, None)

    async def write() -> None:
        settings = ArchiveSettings(max_file=Bytes(3000), operator="Somebody")
        archive = WarcArchive(
            directory, 0, settings, VirtualClock(), software="Skitter/0", user_agent="Skitter/0 (+u)"
        )
        await archive.append([archive.pack(original, page, None)])
        for answered in exchanges[1:]:
            await archive.append([archive.pack(answered, None, None)])
        await archive.append([archive.pack(copy, page_of(copy, original.body, original.url, 1), twin)])
        await archive.append([archive.pack(unmodified, None, twin)])
        await archive.close()

    asyncio.run(write())
    paths = sorted(directory.iterdir())
    records = [record for path in paths for record in Reader(directory).records(path.name)]
    return Sample([*exchanges, copy, unmodified], directory, paths, records)


def strictly_right(sample: Sample) -> None:
    assert check(*sample.paths) == []


def right_by_every_reader(sample: Sample) -> None:
    assert assert_all_readers_agree(*sample.paths) == len(sample.records)


def ids_unique_over_all_files(sample: Sample) -> None:
    strictly_right(sample)
    ids = [record.fields["warc-record-id"] for record in sample.records]
    assert len(set(ids)) == len(ids) == 3 * len(sample.exchanges) + len(sample.paths)


def one_date_per_capture(sample: Sample) -> None:
    strictly_right(sample)
    for answer, request, metadata in captures(sample):
        dates = {record.fields["warc-date"] for record in (answer, request, metadata)}
        assert len(dates) == 1
        assert len(dates.pop()) == len("2026-01-02T03:04:05.123456Z")


def http_media_types(sample: Sample) -> None:
    assert {r.fields["content-type"] for r in sample.of("request")} == {"application/http;msgtype=request"}
    assert {r.fields["content-type"] for r in sample.of("response", "revisit")} == {
        "application/http;msgtype=response"
    }


def captures(sample: Sample) -> list[tuple[Record, Record, Record]]:
    answers, requests = sample.of("response", "revisit"), sample.of("request")
    return list(zip(answers, requests, sample.of("metadata"), strict=True))


def captures_are_tied(sample: Sample) -> None:
    for answer, request, metadata in captures(sample):
        assert request.fields["warc-concurrent-to"] == answer.fields["warc-record-id"]
        assert metadata.fields["warc-concurrent-to"] == answer.fields["warc-record-id"]
        assert answer.fields["warc-concurrent-to"] == request.fields["warc-record-id"]
    assert not any("warc-concurrent-to" in record.fields for record in sample.of("warcinfo"))


def digests_everywhere(sample: Sample) -> None:
    right_by_every_reader(sample)
    assert all("warc-block-digest" in record.fields for record in sample.records)


def one_digest_per_payload(sample: Sample) -> None:
    """The copy came in chunks and the original did not: their payload is the same, and so is the digest."""
    right_by_every_reader(sample)
    original, revisit = sample.of("response")[0], sample.of("revisit")[0]
    assert revisit.fields["warc-payload-digest"] == original.fields["warc-payload-digest"]
    chunked = next(record for record in sample.of("response") if b"chunked" in record.block)
    assert "warc-payload-digest" not in chunked.fields  # see backends/warc/records.py


def addresses(sample: Sample) -> None:
    strictly_right(sample)
    assert {r.fields.get("warc-ip-address") for r in sample.of("warcinfo")} == {None}
    assert {r.fields["warc-ip-address"] for r in sample.records if r.fields["warc-type"] != "warcinfo"} == {
        "192.0.2.7"
    }


def odd_urls_are_uris(sample: Sample) -> None:
    strictly_right(sample)
    uris = {record.fields["warc-target-uri"] for record in sample.of("response")}
    assert "http://xn--bcher-kva.example/a%20b?q=%7B%7C%7D&r=100%25" in uris


def cut_bodies_say_so(sample: Sample) -> None:
    cut = {r.fields["warc-target-uri"]: r.fields.get("warc-truncated") for r in sample.of("response")}
    assert {uri for uri, reason in cut.items() if reason} == {"http://example.org/cut"}


def warcinfo_ids_exist(sample: Sample) -> None:
    """We name none: the warcinfo that opens a file holds for all of it, and a group is packed before its file is known."""
    assert not any("warc-warcinfo-id" in record.fields for record in sample.records)


def file_names(sample: Sample) -> None:
    strictly_right(sample)
    assert [record.fields["warc-filename"] for record in sample.of("warcinfo")] == [
        p.name for p in sample.paths
    ]


def warcinfo_comes_first(sample: Sample) -> None:
    for path in sample.paths:
        first = next(iter(Reader(sample.directory).records(path.name)))
        told = dict(line.split(": ", 1) for line in first.block.decode().splitlines())
        assert first.fields["warc-type"] == "warcinfo"
        assert told["software"] == "Skitter/0"
        assert told["format"] == "WARC File Format 1.1"
        assert told["robots"] == "obey RFC 9309"
        assert told["operator"] == "Somebody"
        assert told["http-header-user-agent"] == "Skitter/0 (+u)"


def answers_are_exact(sample: Sample) -> None:
    answers = sample.of("response", "revisit")
    for answered, record in zip(sample.exchanges, answers, strict=True):
        body = b"" if record.fields["warc-type"] == "revisit" else answered.body
        assert record.block == answered.head + body


def requests_are_exact(sample: Sample) -> None:
    assert [record.block for record in sample.of("request")] == [
        answered.request for answered in sample.exchanges
    ]


def revisits(sample: Sample) -> None:
    strictly_right(sample)
    original, (copy, unmodified) = sample.of("response")[0], sample.of("revisit")
    for record in (copy, unmodified):
        assert record.fields["warc-refers-to-target-uri"] == original.fields["warc-target-uri"]
        assert record.fields["warc-refers-to-date"] == original.fields["warc-date"]
    assert copy.fields["warc-profile"].endswith("/1.1/revisit/identical-payload-digest")
    assert unmodified.fields["warc-profile"].endswith("/1.1/revisit/server-not-modified")


def no_segments(sample: Sample) -> None:
    assert not sample.of("continuation")
    assert not any("warc-segment-number" in record.fields for record in sample.records)
    assert max(len(record.block) for record in sample.records) > 12_000_000


def names_and_rolling(sample: Sample) -> None:
    assert [path.name for path in sample.paths] == [
        f"00-20260101000000-{serial:05d}.warc.gz" for serial in range(len(sample.paths))
    ]
    assert len(sample.paths) > 2
    assert all(path.stat().st_size > 3000 for path in sample.paths[:-1])


def one_member_per_record(sample: Sample) -> None:
    strictly_right(sample)
    for record in sample.records:
        octets = (sample.directory / record.place.file).read_bytes()
        inflate = zlib.decompressobj(31)
        inflate.decompress(octets[record.place.offset :])
        assert len(octets) - len(inflate.unused_data) == record.place.offset + record.place.length


def any_torn_file_is_mended(sample: Sample) -> None:
    """The processes that are really killed are in tests/unit/test_backends_warc.py and tests/crash."""
    path = sample.paths[0]
    octets = path.read_bytes()
    torn = sample.directory.parent / "torn"
    torn.mkdir()

    async def tear() -> None:
        archive = WarcArchive(torn, 0, ArchiveSettings(), VirtualClock())
        for length in range(0, len(octets), 7):
            (torn / path.name).write_bytes(octets[:length])
            end = await archive.cut(Mark(path.name, len(octets)))
            assert end.end <= length
            if end.end:
                assert check(torn / path.name) == []
        await archive.close()

    asyncio.run(tear())


PROOFS: dict[str, Callable[[Sample], None]] = {
    "warc-01": strictly_right,
    "warc-02": strictly_right,
    "warc-03": strictly_right,
    "warc-04": ids_unique_over_all_files,
    "warc-05": strictly_right,
    "warc-06": one_date_per_capture,
    "warc-07": strictly_right,  # and file 18 of warc_negative is accepted
    "warc-08": http_media_types,
    "warc-09": captures_are_tied,
    "warc-10": digests_everywhere,
    "warc-11": one_digest_per_payload,
    "warc-12": addresses,
    "warc-13": strictly_right,
    "warc-14": odd_urls_are_uris,
    "warc-15": cut_bodies_say_so,
    "warc-16": warcinfo_ids_exist,
    "warc-17": file_names,
    "warc-18": revisits,
    "warc-19": warcinfo_comes_first,
    "warc-20": answers_are_exact,
    "warc-21": requests_are_exact,
    "warc-22": revisits,
    "warc-23": no_segments,
    "warc-24": names_and_rolling,
    "warc-25": one_member_per_record,
    "warc-26": any_torn_file_is_mended,
}


@pytest.mark.parametrize("requirement", PROOFS)
def test_our_files_meet_the_requirement(sample, requirement):
    PROOFS[requirement](sample)


@needs_cases
def test_every_requirement_has_a_proof():
    assert {row["id"] for row in rows("warc_requirements.jsonl")} == set(PROOFS)

"""Other WARC readers: what we write has to be valid for all of them."""

import warnings
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from skitter.testing.warc_check import check

with warnings.catch_warnings():  # FastWARC 1.1 warns of its own old names while it is being imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from fastwarc.warc import ArchiveIterator as FastIterator


def assert_all_readers_agree(*paths: Path) -> int:
    """Our strict checker, warcio with its digests, and FastWARC; returns the number of records."""
    assert check(*paths) == []
    total = 0
    for path in paths:
        by_warcio = _read_with_warcio(path)
        assert by_warcio == _read_with_fastwarc(path)
        total += len(by_warcio)
    return total


def _read_with_warcio(path: Path) -> list[tuple[str | None, bytes]]:
    with path.open("rb") as stream:
        for record in WarcioIterator(stream, check_digests=True):
            record.raw_stream.read()
            assert record.digest_checker.passed is not False, record.digest_checker.problems
    with path.open("rb") as stream:
        whole = WarcioIterator(stream, no_record_parse=True)
        return [
            (record.rec_headers.get_header("WARC-Record-ID"), record.raw_stream.read()) for record in whole
        ]


def _read_with_fastwarc(path: Path) -> list[tuple[str | None, bytes]]:
    read = []
    for record in FastIterator(str(path), parse_http=False):
        assert record.verify_block_digest(False)
        read.append((record.record_id, record.reader.read()))
    for record in FastIterator(str(path), parse_http=True):
        # It hashes the empty body of a revisit, whose digest is by definition that of another record's payload.
        if "WARC-Payload-Digest" in record.headers and record.headers["WARC-Type"] != "revisit":
            assert record.verify_payload_digest(True)
    return read

"""Reading segments: from this disk if they are still here, otherwise from the bucket, by range."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from skitter.backends.s3.bucket import Bucket
from skitter.backends.warc import Reader, Record, from_member
from skitter.model import Place


class SegmentReader:
    """Reads the archive. Stateless: exports may read while the crawl runs."""

    def __init__(self, directory: Path, bucket: Bucket) -> None:
        self._local = Reader(directory)
        self._bucket = bucket

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place; for a revisit, only its head. May wait for S3."""
        return self.record(place).block

    async def read_soon(self, place: Place) -> bytes:
        """The same, for callers that must not block."""
        return await asyncio.to_thread(self.read, place)

    def record(self, place: Place) -> Record:
        """The record at a place. OSError if it is neither here nor in the bucket."""
        try:
            return self._local.record(place)
        except FileNotFoundError:
            return from_member(place, self._bucket.member(place))

    def records(self, file: str) -> Iterator[Record]:
        """Every record of a segment, in order, one in memory at a time."""
        try:
            yield from self._local.records(file)
        except FileNotFoundError:  # raised on opening, before the first record
            yield from self._from_bucket(file)

    def _from_bucket(self, file: str) -> Iterator[Record]:
        with tempfile.TemporaryDirectory(prefix="skitter-") as folder:
            self._bucket.fetch(file, Path(folder) / file)
            yield from Reader(Path(folder)).records(file)

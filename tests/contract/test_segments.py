from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skitter.backends.s3 import LocalSegments, Segments
from skitter.testing.contracts.segments import SegmentsContract


class TestLocalSegments(SegmentsContract):
    @asynccontextmanager
    async def opened(self, directory: Path) -> AsyncIterator[Segments]:
        yield LocalSegments(directory / "segments.json")

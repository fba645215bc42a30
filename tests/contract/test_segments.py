import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skitter.backends.postgres.segments import PostgresSegments
from skitter.backends.s3 import LocalSegments, Segments
from skitter.testing.contracts.segments import SegmentsContract
from tests.cluster.postgres import pool_of, schema, settings_for
from tests.engines import engine


class TestLocalSegments(SegmentsContract):
    @asynccontextmanager
    async def opened(self, directory: Path) -> AsyncIterator[Segments]:
        yield LocalSegments(directory / "segments.json")


class TestPostgresSegments(SegmentsContract):
    @pytest.fixture(autouse=True)
    def _crawl(self):
        with schema(settings_for(engine("postgres"))) as self.settings:
            yield

    @asynccontextmanager
    async def opened(self, directory: Path) -> AsyncIterator[Segments]:
        async with pool_of(self.settings) as pool:
            yield PostgresSegments(pool)

    def test_a_name_is_given_once(self, tmp_path):
        """Two disks with the same segment would mean two owners under one epoch."""

        async def use() -> None:
            name = f"00-20260102030405-{uuid.uuid4().int % 10**9:010d}.warc.gz"
            async with self.opened(tmp_path) as register:
                await register.begun(name, 0, "w1")
                with pytest.raises(ValueError, match="begun before"):
                    await register.begun(name, 0, "w2")

        asyncio.run(use())

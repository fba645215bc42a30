"""A cluster's crawl, read from a worker's directory: records of all shards from the engines, answers from disk or bucket.

Only what is asked for is opened: `why` and `status` need no bucket, and nobody who reads needs the mail.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from skitter.backends.remote.reading import RemoteReader
from skitter.backends.remote.store import Store
from skitter.backends.s3.bucket import open_bucket
from skitter.backends.s3.reading import SegmentReader
from skitter.backends.warc import Reader as LocalReader
from skitter.backends.warc import Record
from skitter.compose.engines import opened
from skitter.directory import CrawlDirectory
from skitter.export.source import Archived
from skitter.model import Place
from skitter.ports import Records
from skitter.settings import Settings
from skitter.sharded import ShardedRecords


class _Stored(Protocol):
    def stored(self) -> AsyncIterator[str]:
        """The names of all segments in the bucket, in order."""
        ...


class _Bucketed:
    """The archive, whose bucket is opened when the first answer is asked for."""

    def __init__(self, directory: CrawlDirectory, settings: Settings) -> None:
        self._folder, self._settings = directory.archive, settings

    @cached_property
    def _reader(self) -> SegmentReader:
        return SegmentReader(
            self._folder, open_bucket(self._settings.s3, self._settings.cluster.name, probe=False)
        )

    def read(self, place: Place) -> bytes:
        return self._reader.read(place)

    def records(self, file: str) -> Iterator[Record]:
        return self._reader.records(file)


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """`export.source.Source` of a crawl on many machines."""

    settings: Settings
    directory: CrawlDirectory
    frontier: Records
    archive: Archived
    register: _Stored | None
    engines: AsyncExitStack

    async def files(self) -> list[str]:
        """The files of the archive that can be had: in the bucket, and on this disk."""
        here = self.directory.files()
        return sorted({*here, *[name async for name in self.register.stored()]} if self.register else here)

    async def close(self) -> None:
        """Let go of the engines."""
        await self.frontier.close()
        await self.engines.aclose()


async def read_cluster(directory: CrawlDirectory, settings: Settings) -> ClusterReader:
    """The crawl that the settings in a worker's directory name. EngineError when its engines cannot be used."""
    async with AsyncExitStack() as stack:
        stores, register = await _stores(settings, stack)
        records = ShardedRecords([RemoteReader(store) for store in stores])
        bucket = settings.s3.bucket
        archive = _Bucketed(directory, settings) if bucket else LocalReader(directory.archive)
        return ClusterReader(
            settings, directory, records, archive, register if bucket else None, stack.pop_all()
        )


async def _stores(settings: Settings, stack: AsyncExitStack) -> tuple[Sequence[Store], _Stored | None]:
    if settings.cluster.size != "full":
        engines = await stack.enter_async_context(opened(settings, ""))
        return [engines.store(shard) for shard in range(engines.shards)], engines.segments
    # Its truth alone, without Kafka.
    from skitter.backends.postgres.claims import Claims  # noqa: PLC0415  its library is an extra
    from skitter.backends.postgres.migrate import open_pool  # noqa: PLC0415  the same
    from skitter.backends.postgres.segments import PostgresSegments  # noqa: PLC0415  the same
    from skitter.backends.postgres.store import PostgresStore  # noqa: PLC0415  the same

    pool = await open_pool(settings)
    stack.push_async_callback(pool.close)
    shards = len(await Claims(pool, "").standing())
    return [PostgresStore(pool, shard) for shard in range(shards)], PostgresSegments(pool)

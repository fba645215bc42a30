"""Reads a cluster's crawl: records of all shards from the engines, answers from workers' directories or the bucket.

Only what is asked for is opened: `why` and `status` need no bucket, and no reader needs forwarding. No worker's
directory is needed either, but without a bucket the text of a page is only in the directory of its worker.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from skitter.backends.s3.ends import by_shard
from skitter.backends.s3.settled import Register, SettledArchive
from skitter.cluster.orders import all_commands
from skitter.cluster.ports import Claims as OwnedShards
from skitter.compose.engines import opened
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.records import ShardedRecords
from skitter.frontier import ShardReader
from skitter.frontier.store import Store
from skitter.ports import Command, Records
from skitter.settings import Settings

_ROOTS = 10_000  # requested at once
_NOWHERE = Path("/nonexistent")


@dataclass(frozen=True, slots=True)
class _Truth:
    """What is read from the engines."""

    stores: Sequence[Store]
    claims: OwnedShards
    register: Register | None  # of segments in a bucket


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """`export.source.Source` of a cluster's crawl."""

    settings: Settings
    directories: Sequence[CrawlDirectory]
    frontier: Records
    archive: SettledArchive
    truth: _Truth
    engines: AsyncExitStack

    @property
    def directory(self) -> CrawlDirectory:
        """The first of the workers' directories. Without one, a path at which nothing is found."""
        return self.directories[0] if self.directories else CrawlDirectory(_NOWHERE)

    @property
    def name(self) -> str:
        """The given directory, or the cluster."""
        return str(self.directories[0].path) if self.directories else f"cluster {self.settings.cluster.name}"

    async def roots(self) -> list[str]:
        """The roots of the scope of all workers."""
        roots: list[str] = []
        some, after = await self.truth.claims.roots(0, _ROOTS)
        while some:
            roots += some
            some, after = await self.truth.claims.roots(after, _ROOTS)
        return roots

    async def commands(self) -> list[Command]:
        """Those on the engine."""
        return await all_commands(self.truth.claims)

    async def files(self) -> list[str]:
        """The archive files that can be read: in the bucket, and in the directories."""
        return await self.archive.files([(await store.meta()).mark for store in self.truth.stores])

    def path_of(self, file: str) -> str:
        """Its name in the bucket, if there is one; else below the archive folder of its worker."""
        return self.archive.path_of(file)

    async def elsewhere(self) -> dict[str, int]:
        """How many pages are in directories that were not given, by directory."""
        return await self.archive.elsewhere(self.frontier.pages())

    async def close(self) -> None:
        """Close the engines."""
        await self.frontier.close()
        await self.engines.aclose()


async def read_cluster(directories: Sequence[CrawlDirectory], settings: Settings) -> ClusterReader:
    """The crawl that the settings name. EngineError if its engines cannot be used."""
    async with AsyncExitStack() as stack:
        truth = await _truth(settings, stack)
        records = ShardedRecords([ShardReader(store) for store in truth.stores])
        found = by_shard(await truth.claims.ends())
        folders = [directory.archive for directory in directories]
        archive = SettledArchive(folders, settings, found, truth.register)
        return ClusterReader(settings, directories, records, archive, truth, stack.pop_all())


async def _truth(settings: Settings, stack: AsyncExitStack) -> _Truth:
    if settings.cluster.size != "full":
        engines = await stack.enter_async_context(opened(settings, ""))
        return _Truth([engines.store(shard) for shard in range(engines.shards)], engines.claims, None)
    # Without Kafka.
    from skitter.backends.postgres.claims import Claims  # noqa: PLC0415  its library is an extra
    from skitter.backends.postgres.migrate import open_pool  # noqa: PLC0415  the same
    from skitter.backends.postgres.segments import PostgresSegments  # noqa: PLC0415  the same
    from skitter.backends.postgres.store import PostgresStore  # noqa: PLC0415  the same

    pool = await open_pool(settings)
    stack.push_async_callback(pool.close)
    claims = Claims(pool, "")
    shards = range(len(await claims.standing()))
    register = PostgresSegments(pool) if settings.s3.bucket else None
    return _Truth([PostgresStore(pool, shard) for shard in shards], claims, register)

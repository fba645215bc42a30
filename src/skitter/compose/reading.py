"""A cluster's crawl, to read from: records of all shards from the engines, answers from workers' directories or the bucket.

Only what is asked for is opened: `why` and `status` need no bucket, and nobody who reads needs the mail. No worker's
directory is needed either, but without a bucket the text of a page can be read from the directory of its worker alone.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from skitter.backends.s3.bucket import open_bucket
from skitter.backends.s3.ends import Found, by_shard, directory_of, readable_end
from skitter.backends.s3.names import is_segment, segment_key, shard_of
from skitter.backends.s3.reading import SegmentReader
from skitter.backends.s3.segments import WHOLE, Segment, Stage
from skitter.backends.warc import Reader as LocalReader
from skitter.backends.warc import Record
from skitter.cluster.ports import Claims as OwnedShards
from skitter.compose.engines import opened
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.records import ShardedRecords
from skitter.export.cdxj import Record as Recorded
from skitter.export.source import Archived
from skitter.frontier.reading import RemoteReader
from skitter.frontier.store import Store
from skitter.model import Place
from skitter.ports import Records
from skitter.settings import Settings

_ROOTS = 10_000  # that are asked for at once
_NOWHERE = Path("/nonexistent")


class _Register(Protocol):
    def stored(self) -> AsyncIterator[str]:
        """The names of all segments in the bucket, in order."""
        ...

    async def look_up(self, names: Sequence[str]) -> list[Segment]:
        """Those of them that are known."""
        ...


class NotHere(OSError):  # noqa: N818  it is somewhere
    """The file lies in a worker's directory that is not read here. The message says where."""


class _Folders:
    """The archive files in the directories of some workers."""

    def __init__(self, directories: Sequence[CrawlDirectory], found: Found) -> None:
        self._folders = [directory.archive for directory in directories]
        self._found = found

    def read(self, place: Place) -> bytes:
        return LocalReader(self._folder(place.file)).read(place)

    def records(self, file: str) -> Iterator[Record]:
        return LocalReader(self._folder(file)).records(file)

    def _folder(self, file: str) -> Path:
        for folder in self._folders:
            if Path(file).name == file and (folder / file).is_file():
                return folder
        where = directory_of(file, self._found) or "a worker's directory"
        raise NotHere(f"{file} is in {where}; name that directory too, or a copy of it")


class _Bucketed:
    """The archive with a bucket, which is opened when the first answer is asked for."""

    def __init__(self, directories: Sequence[CrawlDirectory], settings: Settings) -> None:
        folders = [directory.archive for directory in directories] or [Path()]
        self._folders, self._settings = folders, settings

    @cached_property
    def _readers(self) -> list[SegmentReader]:
        bucket = open_bucket(self._settings.s3, self._settings.cluster.name, probe=False)
        return [SegmentReader(folder, bucket) for folder in self._folders]

    def read(self, place: Place) -> bytes:
        return self._reader(place.file).read(place)

    def records(self, file: str) -> Iterator[Record]:
        return self._reader(file).records(file)

    def _reader(self, file: str) -> SegmentReader:
        """The one whose directory has the file; any, if it is in the bucket."""
        for folder, reader in zip(self._folders, self._readers, strict=True):
            if (folder / file).is_file():
                return reader
        return self._readers[0]


class _Settled:
    """An archive without what was appended to a file and never settled (see `backends.s3.ends`)."""

    def __init__(self, archive: Archived) -> None:
        self._archive = archive
        self.limits: dict[str, int] = {}  # octets of a file that count

    def read(self, place: Place) -> bytes:
        return self._archive.read(place)

    def records(self, file: str) -> Iterator[Recorded]:
        end = self.limits.get(file, WHOLE)
        records = self._archive.records(file)
        return records if end == WHOLE else takewhile(lambda record: record.place.offset < end, records)


@dataclass(frozen=True, slots=True)
class _Truth:
    """What is read on the engines."""

    stores: Sequence[Store]
    claims: OwnedShards
    register: _Register | None  # of segments in a bucket


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """`export.source.Source` of a crawl on many machines."""

    settings: Settings
    directories: Sequence[CrawlDirectory]
    frontier: Records
    archive: _Settled
    truth: _Truth
    found: Found
    engines: AsyncExitStack

    @property
    def directory(self) -> CrawlDirectory:
        """The first of the workers' directories. Without one it is nowhere, and nothing is found in it."""
        return self.directories[0] if self.directories else CrawlDirectory(_NOWHERE)

    @property
    def name(self) -> str:
        """The directory that was named, or the cluster."""
        return str(self.directories[0].path) if self.directories else f"cluster {self.settings.cluster.name}"

    async def roots(self) -> list[str]:
        """What the scope of all workers is measured from."""
        roots: list[str] = []
        some, after = await self.truth.claims.roots(0, _ROOTS)
        while some:
            roots += some
            some, after = await self.truth.claims.roots(after, _ROOTS)
        return roots

    async def files(self) -> list[str]:
        """The files of the archive that can be had: in the bucket, and in the directories."""
        here = sorted({file for each in self.directories for file in each.files() if is_segment(file)})
        self.archive.limits.update(await self._limits(here))
        register = self.truth.register
        return sorted({*here, *[name async for name in register.stored()]}) if register else here

    async def _limits(self, files: Sequence[str]) -> dict[str, int]:
        """How much counts of files that are still on a worker's disk."""
        marks = [(await store.meta()).mark for store in self.truth.stores]
        limits = {file: readable_end(file, self.found, marks[shard_of(file)]) for file in files}
        if self.truth.register is not None and files:
            for segment in await self.truth.register.look_up(files):
                if segment.stage is not Stage.BEGUN:
                    limits[segment.name] = 0 if segment.stage is Stage.ABANDONED else segment.size
        return limits

    def path_of(self, file: str) -> str:
        """As the bucket calls it, if there is one; else below the archive folder of its worker."""
        s3 = self.settings.s3
        return segment_key(s3.prefix, self.settings.cluster.name, file) if s3.bucket else file

    async def elsewhere(self) -> dict[str, int]:
        """How many pages lie in files of directories that were not named. A bucket has all of them, sooner or later."""
        if self.settings.s3.bucket:
            return {}
        here = {file for each in self.directories for file in each.files()}
        files: Counter[str] = Counter()
        async for page in self.frontier.pages():
            if page.archive is not None and page.archive.file not in here:
                files[page.archive.file] += 1
        missing: Counter[str] = Counter()
        for file, pages in files.items():
            missing[directory_of(file, self.found)] += pages
        return dict(missing.most_common())

    async def close(self) -> None:
        """Let go of the engines."""
        await self.frontier.close()
        await self.engines.aclose()


async def read_cluster(directories: Sequence[CrawlDirectory], settings: Settings) -> ClusterReader:
    """The crawl that the settings name. EngineError when its engines cannot be used."""
    async with AsyncExitStack() as stack:
        truth = await _truth(settings, stack)
        records = ShardedRecords([RemoteReader(store) for store in truth.stores])
        found = by_shard(await truth.claims.ends())
        archive: Archived = (
            _Bucketed(directories, settings) if settings.s3.bucket else _Folders(directories, found)
        )
        return ClusterReader(settings, directories, records, _Settled(archive), truth, found, stack.pop_all())


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

"""The archive in S3: one uploader for all shards of a worker, and the register that all workers share."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from skitter.backends.s3 import (
    BucketError,
    LocalSegments,
    S3Archive,
    Segments,
    Stage,
    Uploader,
    open_bucket,
    worker_of,
)
from skitter.backends.warc import WarcArchive
from skitter.crawl.directory import CrawlDirectory
from skitter.engines.breaker import Guard
from skitter.export.reread import html_of
from skitter.frontier.patience import patiently
from skitter.model import Place
from skitter.ports import Archive, Clock, EngineError, Mark, Packed
from skitter.settings import Settings


class _Patient(S3Archive):
    """Waits while the register is away: what fails leaves nothing behind, and may be tried again."""

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Write records out at the end; one place per pack."""
        return await patiently(lambda: S3Archive.append(self, packs))

    async def cut(self, mark: Mark) -> Mark:
        """Drop what lies behind the mark, and let the register know."""
        return await patiently(lambda: S3Archive.cut(self, mark))


@dataclass(frozen=True)
class InBucket:
    """`compose.storing.Storage` with a bucket."""

    uploads: Uploader
    settings: Settings
    clock: Clock
    disk: str

    @property
    def full(self) -> bool:
        """Whether so much waits for its upload that nothing new should be begun."""
        return self.uploads.full

    async def ready(self) -> None:
        """Return when there is room."""
        await self.uploads.ready()

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        return _Patient(local, self.uploads, self.settings.s3, self.clock, shard=shard, epoch=epoch)

    @property
    def guards(self) -> Sequence[Guard]:
        """The breaker of S3."""
        return [self.uploads.guard]


async def in_bucket(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    warn: Callable[[str], None],
    shared: Segments | None,
) -> InBucket:
    """An uploader for this directory, with what an earlier life of it has left. `shared` is the register of all workers."""
    bucket = await asyncio.to_thread(open_bucket, settings.s3, settings.cluster.name)
    disk = worker_of(directory.archive)
    uploads = Uploader(
        directory.archive,
        bucket,
        shared or LocalSegments(directory.path / "segments.json"),
        settings.s3,
        clock,
        worker=disk,
        warn=warn,
    )
    if settings.s3.layout == "pages":
        uploads.content = partial(html_of, settings=settings)
    await uploads.recover()
    return InBucket(uploads, settings, clock, disk)


async def arrived(settings: Settings, register: Segments, disk: str) -> None:
    """Let the register know of segments from a lost disk that the bucket has: their worker died before it could say so.

    Else they would be given up, and their pages would be in the bucket twice. EngineError when S3 cannot be asked.
    """
    bucket = await asyncio.to_thread(open_bucket, settings.s3, settings.cluster.name, probe=False)
    for segment in await register.pending(disk):
        if segment.stage is Stage.FINISHED:
            try:
                there = await asyncio.to_thread(bucket.has, segment.name, segment.size, segment.digest)
            except BucketError as problem:
                raise EngineError(
                    f"S3: s3.endpoint: {problem}; start the server, or mend the address"
                ) from None
            if there:
                await register.uploaded(segment.name)

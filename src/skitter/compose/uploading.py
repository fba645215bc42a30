"""The archive in S3: one uploader for all shards of a worker."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skitter.backends.s3 import LocalSegments, S3Archive, Uploader, open_bucket, worker_of
from skitter.backends.warc import WarcArchive
from skitter.directory import CrawlDirectory
from skitter.ports import Archive, Clock
from skitter.settings import Settings


@dataclass(frozen=True)
class _InBucket:
    uploads: Uploader
    settings: Settings
    clock: Clock

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        return S3Archive(local, self.uploads, self.settings.s3, self.clock, shard=shard, epoch=epoch)

    def health(self) -> dict[str, Any]:
        return {"S3": self.uploads.guard.phase.name.lower()}


async def in_bucket(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    warn: Callable[[str], None],
) -> _InBucket:
    """An uploader for this directory, with what an earlier life of it has left."""
    bucket = open_bucket(settings.s3, settings.cluster.name)
    await asyncio.to_thread(bucket.probe)
    segments = LocalSegments(directory.path / "segments.json")
    uploads = Uploader(
        directory.archive,
        bucket,
        segments,
        settings.s3,
        clock,
        worker=worker_of(directory.archive),
        warn=warn,
    )
    await uploads.recover()
    return _InBucket(uploads, settings, clock)

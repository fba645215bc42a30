"""Where a cluster's archive goes: to S3 if there is a bucket, otherwise it stays on the worker's disk."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from skitter.backends.s3 import LocalSegments, Segments, Uploader, open_bucket, worker_of
from skitter.backends.s3.in_bucket import InBucket, note_arrived
from skitter.backends.warc import WarcArchive
from skitter.backends.warc.on_disk import OnDisk
from skitter.cluster.ports import Ends
from skitter.cluster.run import Storage, left_behind
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events, Warned
from skitter.export.reread import html_of
from skitter.ports import Archive, Clock
from skitter.settings import Settings


class ShardStorage(Storage, Protocol):
    """Makes an archive of a shard's local files."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        ...


@asynccontextmanager
async def storing(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    events: Events,
    ends: Ends,
    segments: Segments | None = None,
) -> AsyncIterator[ShardStorage]:
    """The storage that the settings name, while the worker lives. `segments` is the register of all workers."""

    def warn(text: str) -> None:
        events.emit(Warned(text))

    if settings.s3.bucket:
        in_bucket = await _in_bucket(directory, settings, clock, warn, segments)
        async with in_bucket.running(lambda sizes: warn(left_behind(directory, sizes))):
            yield in_bucket
    else:
        place = f"{socket.gethostname()}:{directory.path.absolute()}"
        on_disk = OnDisk(directory.archive, place, ends, warn)
        async with on_disk.kept_tidy(settings.cluster.renew):
            yield on_disk


async def _in_bucket(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    warn: Callable[[str], None],
    segments: Segments | None,
) -> InBucket:
    """An uploader for this directory, including what an earlier process left there."""
    bucket = await asyncio.to_thread(open_bucket, settings.s3, settings.cluster.name)
    disk = worker_of(directory.archive)
    uploads = Uploader(
        directory.archive,
        bucket,
        segments or LocalSegments(directory.path / "segments.json"),
        settings.s3,
        clock,
        worker=disk,
        warn=warn,
    )
    if settings.s3.layout == "pages":
        uploads.content = partial(html_of, settings=settings)
    await uploads.recover()
    return InBucket(uploads, settings.s3, clock, disk)


async def arrived(settings: Settings, register: Segments, disk: str) -> None:
    """Tell the register which segments from a lost disk the bucket has. EngineError if S3 cannot be asked."""
    bucket = await asyncio.to_thread(open_bucket, settings.s3, settings.cluster.name, probe=False)
    await note_arrived(bucket, register, disk)

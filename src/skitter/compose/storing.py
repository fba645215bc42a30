"""Where a cluster's archive goes: to S3 if there is a bucket, else it stays on the worker's disk."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from skitter.backends.s3.names import first_number
from skitter.backends.warc import WarcArchive
from skitter.directory import CrawlDirectory
from skitter.events import Events, Warned
from skitter.model import Exchange, Page, Place
from skitter.ports import Archive, Clock, Mark, Packed, Twin
from skitter.settings import Settings


class Storage(Protocol):
    """What makes an archive of a shard's local files."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        ...

    def health(self) -> dict[str, Any]:
        """How its engine does, in a word."""
        ...


class _Kept:
    """ports.Archive of a shard whose files stay where they were written: this worker has its own, others have theirs."""

    def __init__(self, local: WarcArchive, directory: CrawlDirectory, epoch: int) -> None:
        self._local = local
        self._folder = directory.archive
        local.segmented(first_number(epoch))

    def pack(self, exchange: Exchange, page: Page | None, twin: Twin | None) -> Packed:
        return self._local.pack(exchange, page, twin)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        return await self._local.append(packs)

    def mark(self) -> Mark:
        return self._local.mark()

    def settled(self) -> None:
        self._local.settled()

    async def sync(self) -> None:
        await self._local.sync()

    async def cut(self, mark: Mark) -> Mark:
        """A file that is not here ends where the mark says: another worker has it."""
        here = not mark.file or (self._folder / mark.file).exists()
        end = await self._local.cut(mark)
        self._local.leave()
        return end if here else mark

    def read(self, place: Place) -> bytes:
        return self._local.read(place)

    async def close(self) -> None:
        await self._local.close()


class _OnDisk:
    def __init__(self, directory: CrawlDirectory) -> None:
        self._directory = directory

    def archive(self, local: WarcArchive, _shard: int, epoch: int) -> Archive:
        return _Kept(local, self._directory, epoch)

    def health(self) -> dict[str, Any]:
        return {}


@asynccontextmanager
async def storing(
    directory: CrawlDirectory, settings: Settings, clock: Clock, events: Events
) -> AsyncIterator[Storage]:
    """The storage that the settings name, for as long as the worker lives."""
    if not settings.s3.bucket:
        yield _OnDisk(directory)
        return
    from skitter.compose.uploading import in_bucket  # noqa: PLC0415  its library is an extra

    storage = await in_bucket(directory, settings, clock, lambda text: events.emit(Warned(text)))
    uploading = asyncio.create_task(storage.uploads.run())
    try:
        yield storage
        await storage.uploads.drain()
    finally:
        uploading.cancel()
        with suppress(asyncio.CancelledError):
            await uploading

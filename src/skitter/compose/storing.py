"""Where a cluster's archive goes: to S3 if there is a bucket, else it stays on the worker's disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from skitter.backends.s3.names import first_number
from skitter.backends.warc import WarcArchive
from skitter.directory import CrawlDirectory
from skitter.display import amount, counted
from skitter.events import Events, Warned
from skitter.model import Exchange, Page, Place
from skitter.ports import Archive, Clock, Mark, Packed, Twin
from skitter.process import unwrapped
from skitter.settings import Settings

if TYPE_CHECKING:
    from skitter.backends.s3 import Segments, Uploader
    from skitter.breaker import Guard

_LAST_UPLOADS = 30.0  # seconds that a worker that leaves waits for S3; its shards are others' already


class Storage(Protocol):
    """What makes an archive of a shard's local files."""

    @property
    def disk(self) -> str:
        """What this directory is called in the register of segments; empty where there is none."""
        ...

    @property
    def full(self) -> bool:
        """Whether nothing new should be begun, because too much waits on this disk."""
        ...

    async def ready(self) -> None:
        """Return when there is room."""
        ...

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        ...

    @property
    def guards(self) -> "Sequence[Guard]":
        """The breaker of its engine, if it has one."""
        ...


class _Kept:
    """ports.Archive of a shard whose files stay where they were written: this worker has its own, others have theirs."""

    def __init__(self, local: WarcArchive, directory: CrawlDirectory, epoch: int) -> None:
        self._local = local
        self._folder = directory.archive
        self._mark = Mark()  # until something is appended here, it is where the last owner's files end
        local.segmented(first_number(epoch))

    def pack(self, exchange: Exchange, page: Page | None, twin: Twin | None) -> Packed:
        return self._local.pack(exchange, page, twin)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        places = await self._local.append(packs)
        if places:
            self._mark = self._local.mark()
        return places

    def mark(self) -> Mark:
        return self._mark

    def settled(self) -> None:
        self._local.settled()

    async def sync(self) -> None:
        await self._local.sync()

    async def cut(self, mark: Mark) -> Mark:
        """A file that is not here ends where the mark says: another worker has it."""
        here = not mark.file or (self._folder / mark.file).exists()
        end = await self._local.cut(mark)
        self._local.leave()
        self._mark = end if here else mark
        return self._mark

    def read(self, place: Place) -> bytes:
        return self._local.read(place)

    async def close(self) -> None:
        await self._local.close()


class _OnDisk:
    disk = ""
    full = False
    guards: "Sequence[Guard]" = ()

    def __init__(self, directory: CrawlDirectory) -> None:
        self._directory = directory

    async def ready(self) -> None:
        """There always is room."""

    def archive(self, local: WarcArchive, _shard: int, epoch: int) -> Archive:
        return _Kept(local, self._directory, epoch)


@asynccontextmanager
async def storing(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    events: Events,
    segments: "Segments | None" = None,
) -> AsyncIterator[Storage]:
    """The storage that the settings name, for as long as the worker lives. `segments` is the register of all workers."""
    if not settings.s3.bucket:
        yield _OnDisk(directory)
        return
    from skitter.compose.uploading import in_bucket  # noqa: PLC0415  its library is an extra

    def warn(text: str) -> None:
        events.emit(Warned(text))

    storage = await in_bucket(directory, settings, clock, warn, segments)
    async with _running(storage.uploads):
        yield storage
        await _last_uploads(storage.uploads, directory, warn)


@asynccontextmanager
async def _running(uploads: "Uploader") -> AsyncIterator[None]:
    """Uploads beside all the rest. Should they fail for good, that ends the worker, and not when it leaves."""
    worker = asyncio.current_task()

    def stop(uploading: asyncio.Task[None]) -> None:
        if worker is not None and not uploading.cancelled():
            worker.cancel()

    uploading = asyncio.create_task(uploads.run())
    uploading.add_done_callback(stop)
    try:
        yield
    finally:
        uploading.remove_done_callback(stop)
        uploading.cancel()
        with suppress(asyncio.CancelledError):
            await unwrapped(uploading)


async def _last_uploads(uploads: "Uploader", directory: CrawlDirectory, warn: Callable[[str], None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_UPLOADS):
            await uploads.leave()
    sizes = uploads.sizes()
    if sizes:
        warn(
            f"not in the bucket yet: {counted(len(sizes), 'segment')} ({amount(sum(sizes))}) in {directory.archive}; keep this "
            f"directory, and start a worker in it again (skitter work -o {directory.path})"
        )

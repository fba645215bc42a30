"""Where a cluster's archive goes: to S3 if there is a bucket, else it stays on the worker's disk."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from skitter.backends.s3.ends import by_shard, settled_end
from skitter.backends.s3.names import first_number
from skitter.backends.s3.segments import WHOLE
from skitter.backends.warc import WarcArchive, trim
from skitter.cluster.ports import End, Ends
from skitter.cluster.run import Storage
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events, Warned
from skitter.frontier.patience import patiently
from skitter.model import Exchange, Page, Place
from skitter.ports import Archive, Clock, EngineAway, Mark, Packed, Twin
from skitter.reporting.format import amount, counted
from skitter.runtime.process import unwrapped
from skitter.settings import Settings

if TYPE_CHECKING:
    from skitter.backends.s3 import Segments, Uploader
    from skitter.engines.breaker import Guard

_LAST_LOOKS = 3  # at what has become of files of lost shards, before a worker goes
_LAST_UPLOADS = 30.0  # seconds that a worker that leaves waits for S3; its shards are others' already


class ShardStorage(Storage, Protocol):
    """What makes an archive of a shard's local files."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        ...


class _Kept:
    """ports.Archive of a shard whose files stay where they were written: this worker has its own, others have theirs."""

    def __init__(self, local: WarcArchive, on_disk: "_OnDisk", shard: int, epoch: int) -> None:
        self._local = local
        self._on_disk = on_disk
        self._shard, self._epoch = shard, epoch
        self._mark = Mark()  # until something is appended here, it is where the last owner's files end
        self._settled = True
        local.segmented(first_number(epoch))

    def pack(self, exchange: Exchange, page: Page | None, twin: Twin | None) -> Packed:
        return self._local.pack(exchange, page, twin)

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        places = await self._local.append(packs)
        if places:
            self._mark, self._settled = self._local.mark(), False
        return places

    def mark(self) -> Mark:
        return self._mark

    def settled(self) -> None:
        self._settled = True
        self._local.settled()

    async def sync(self) -> None:
        await self._local.sync()

    async def cut(self, mark: Mark) -> Mark:
        """A file that is not here ends where the mark says: another worker has it, and learns of it by the engine."""
        here = not mark.file or (self._on_disk.folder / mark.file).exists()
        end = await self._local.cut(mark)
        self._local.leave()
        self._mark = end if here else mark
        self._settled = True
        found = End(self._shard, self._epoch, self._mark, self._on_disk.place)
        await patiently(lambda: self._on_disk.ends.add_end(found))
        return self._mark

    def read(self, place: Place) -> bytes:
        return self._local.read(place)

    async def close(self) -> None:
        """Finish the current file. If its end is not settled, the next owner of the shard says what counts of it."""
        if not self._settled:
            self._on_disk.doubtful.add(self._mark.file)
        await self._local.close()


class _OnDisk:
    """The archive of a worker without a bucket: all that it has ever written stays in its directory."""

    disk = ""
    full = False
    guards: "Sequence[Guard]" = ()

    def __init__(self, directory: CrawlDirectory, ends: Ends, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self.folder = directory.archive
        self.place = f"{socket.gethostname()}:{directory.path.absolute()}"
        self.ends = ends
        self._warn = warn
        self.doubtful: set[str] = set()  # files of shards that were lost: their ends may count or not

    async def ready(self) -> None:
        """There always is room."""

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        return _Kept(local, self, shard, epoch)

    async def tidy(self) -> None:
        """Cut from files of former tenures what nobody settled: whoever took the shards has fetched it again."""
        found = by_shard(await self.ends.ends())
        known = {file: settled_end(file, found) for file in self._directory.files()}
        cut = [trim(self.folder / file, end) for file, end in known.items() if end not in (None, WHOLE)]
        self.doubtful = {file for file in self.doubtful if known.get(file, 0) is None}
        if gone := sum(cut):
            files = counted(sum(map(bool, cut)), "file")
            self._warn(
                f"{amount(gone)} that this worker fetched and did not settle, because others had taken its shards, are cut "
                f"from {files} of its archive; they have fetched these pages"
            )

    async def tidy_now_and_then(self, every: float) -> None:
        """While the worker lives: whoever has taken a shard tells a moment later what counts."""
        while True:
            await asyncio.sleep(every)
            if self.doubtful:
                with suppress(EngineAway):
                    await self.tidy()

    async def tidy_last(self, every: float) -> None:
        """When the worker leaves. What is still not known is cut at the next start in this directory."""
        for _ in range(_LAST_LOOKS):
            if not self.doubtful:
                break
            with suppress(EngineAway):
                await self.tidy()
            await asyncio.sleep(every)


@asynccontextmanager
async def storing(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    events: Events,
    ends: Ends,
    segments: "Segments | None" = None,
) -> AsyncIterator[ShardStorage]:
    """The storage that the settings name, for as long as the worker lives. `segments` is the register of all workers."""

    def warn(text: str) -> None:
        events.emit(Warned(text))

    if not settings.s3.bucket:
        async with _kept_tidy(_OnDisk(directory, ends, warn), settings.cluster.renew) as on_disk:
            yield on_disk
        return
    from skitter.compose.uploading import in_bucket  # noqa: PLC0415  its library is an extra

    storage = await in_bucket(directory, settings, clock, warn, segments)
    async with _running(storage.uploads):
        yield storage
        await _last_uploads(storage.uploads, directory, warn)


@asynccontextmanager
async def _kept_tidy(on_disk: _OnDisk, every: float) -> AsyncIterator[_OnDisk]:
    """Files of earlier tenures hold nothing that nobody settled: from the start on, and until the worker leaves."""
    await patiently(on_disk.tidy)
    tidying = asyncio.create_task(on_disk.tidy_now_and_then(every))
    try:
        yield on_disk
    finally:
        tidying.cancel()
        with suppress(asyncio.CancelledError):
            await unwrapped(tidying)
    await on_disk.tidy_last(every)


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

"""The archive of a cluster worker with a bucket: one uploader for all of its shards."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from skitter.backends.s3.archive import S3Archive
from skitter.backends.s3.bucket import Bucket, BucketError
from skitter.backends.s3.segments import Segments, Stage
from skitter.backends.s3.uploader import Uploader
from skitter.backends.warc import WarcArchive
from skitter.engines.breaker import Guard
from skitter.engines.retry import patiently
from skitter.model import Place
from skitter.ports import Archive, Clock, EngineError, Mark, Packed
from skitter.runtime.metrics import Metrics
from skitter.runtime.process import unwrapped
from skitter.settings.engines import S3Settings

_LAST_UPLOADS = 30.0  # seconds that a leaving worker waits for S3; others own its shards by then


class PatientS3Archive(S3Archive):
    """Waits while the register is away: a failed call changes nothing and can be repeated."""

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Append records; one place per pack."""
        return await patiently(lambda: S3Archive.append(self, packs))

    async def cut(self, mark: Mark) -> Mark:
        """Drop everything beyond the mark, and update the register."""
        return await patiently(lambda: S3Archive.cut(self, mark))


@dataclass(frozen=True)
class InBucket:
    """The archive of a worker that has a bucket."""

    uploads: Uploader
    settings: S3Settings
    clock: Clock
    disk: str

    @property
    def full(self) -> bool:
        """Whether too much is waiting for upload to start anything new."""
        return self.uploads.full

    async def ready(self) -> None:
        """Wait until there is room."""
        await self.uploads.ready()

    def archive(self, local: WarcArchive, shard: int, epoch: int) -> Archive:
        """The archive of a shard under an epoch."""
        return PatientS3Archive(local, self.uploads, self.settings, self.clock, shard=shard, epoch=epoch)

    @property
    def guards(self) -> Sequence[Guard]:
        """The breaker of S3."""
        return [self.uploads.guard]

    def metrics(self) -> Metrics:
        """What waits for upload, and the state of the breaker."""
        return self.uploads.metrics()

    @asynccontextmanager
    async def running(self, left_behind: Callable[[Sequence[int]], None]) -> AsyncIterator[None]:
        """Upload in the background, and for a while at the end. `left_behind` is called with the sizes of what is not uploaded."""
        async with uploading(self.uploads):
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_UPLOADS):
                    await self.uploads.leave()
            if sizes := self.uploads.sizes():
                left_behind(sizes)


@asynccontextmanager
async def uploading(uploads: Uploader) -> AsyncIterator[None]:
    """Upload while the body runs. If uploading fails for good, the worker ends at once instead of when it leaves."""
    worker = asyncio.current_task()

    def stop(done: asyncio.Task[None]) -> None:
        if worker is not None and not done.cancelled():
            worker.cancel()

    task = asyncio.create_task(uploads.run())
    task.add_done_callback(stop)
    try:
        yield
    finally:
        task.remove_done_callback(stop)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await unwrapped(task)


async def note_arrived(bucket: Bucket, register: Segments, disk: str) -> None:
    """Register segments of a lost disk that are in the bucket: their worker died before it could do so.

    Otherwise they would be given up, and their pages would be in the bucket twice. EngineError if S3 cannot be reached.
    """
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

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
from skitter.frontier.patience import patiently
from skitter.model import Place
from skitter.ports import Archive, Clock, EngineError, Mark, Packed
from skitter.runtime.process import unwrapped
from skitter.settings.engines import S3Settings

_LAST_UPLOADS = 30.0  # seconds that a worker that leaves waits for S3; its shards are others' already


class PatientS3Archive(S3Archive):
    """Waits while the register is away: what fails leaves nothing behind, and may be tried again."""

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Write records out at the end; one place per pack."""
        return await patiently(lambda: S3Archive.append(self, packs))

    async def cut(self, mark: Mark) -> Mark:
        """Drop what lies behind the mark, and let the register know."""
        return await patiently(lambda: S3Archive.cut(self, mark))


@dataclass(frozen=True)
class InBucket:
    """Where the archive of a worker goes that has a bucket."""

    uploads: Uploader
    settings: S3Settings
    clock: Clock
    disk: str

    @property
    def full(self) -> bool:
        """Whether so much waits for its upload that nothing new should be begun."""
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

    @asynccontextmanager
    async def running(self, left_behind: Callable[[Sequence[int]], None]) -> AsyncIterator[None]:
        """Uploads beside all the rest; at the end they have a while. `left_behind` hears the sizes of what is not uploaded."""
        async with uploading(self.uploads):
            yield
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_UPLOADS):
                    await self.uploads.leave()
            if sizes := self.uploads.sizes():
                left_behind(sizes)


@asynccontextmanager
async def uploading(uploads: Uploader) -> AsyncIterator[None]:
    """Upload beside the body. Should that fail for good, it ends the worker at once, and not when it leaves."""
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
    """Let the register know of segments from a lost disk that the bucket has: their worker died before it could say so.

    Else they would be given up, and their pages would be in the bucket twice. EngineError when S3 cannot be asked.
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

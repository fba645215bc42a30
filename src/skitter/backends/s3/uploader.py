"""Uploads finished segments from a worker's disk to the bucket.

Nothing is dropped. A segment stays on the disk until the bucket has it, verified, and the register knows.
While S3 is away segments pile up, the breaker spaces the attempts out, and beyond a limit `full` is true:
then no more visits should start. Visits in flight may still be appended, so the disk holds the limit and a
little more.

File names in the directory and stages in the register are the whole state. A restart compares both
(`recover`) and continues: finished segments are uploaded, sealed ones are cut to their settled size and
uploaded, uploaded or abandoned ones are removed, and a segment that should be here and is not is abandoned. A
segment that is only begun waits until somebody takes its shard.
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from skitter.backends.s3 import names
from skitter.backends.s3.bucket import Bucket, BucketError, Digests, digests
from skitter.backends.s3.pages import Content, put_pages
from skitter.backends.s3.reading import SegmentReader
from skitter.backends.s3.segments import WHOLE, Segment, Segments, Stage
from skitter.backends.warc import Reader
from skitter.engines.breaker import BreakerRules, Guard
from skitter.engines.retry import patiently
from skitter.ports import Clock, EngineAway, Mark
from skitter.runtime.aside import aside
from skitter.runtime.metrics import Metrics, UploadMetrics
from skitter.settings.engines import S3Settings

_AT_ONCE = 2  # segments at once; each has several parts in parallel
# Uploads are rare, so a few of them decide; a pause of a minute does not matter to a segment that is safe on
# disk. Health checks cost money at some providers.
_RULES = BreakerRules(window=120.0, minimum=2, pause=0.5, longest=60.0, silence=60.0, deadline=15.0)


def worker_of(directory: Path) -> str:
    """The name of the worker that keeps its segments in a directory: generated once, and stored there.

    It identifies the disk, not a process or a machine: the worker with this name has these segments. So every
    worker has its own directory, and directories must not be copied.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "worker"
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        new = path.with_name("worker.new")
        new.write_text(f"{uuid.uuid4().hex}\n", "ascii")
        new.replace(path)
        return worker_of(directory)


class Uploader:
    """One per worker. `run` does the work; the rest may be called from any task of the same loop."""

    def __init__(
        self,
        directory: Path,
        bucket: Bucket,
        segments: Segments,
        settings: S3Settings,
        clock: Clock,
        *,
        worker: str,
        warn: Callable[[str], None],
    ) -> None:
        self.reader = SegmentReader(directory, bucket)
        self.guard = Guard(
            "S3",
            partial(aside, bucket.check),
            failures=(BucketError,),
            rules=_RULES,
            monotonic=clock.monotonic,
        )
        self.content: Content | None = None  # set for the pages layout: turns an answer into a page
        self._directory = directory
        self._bucket = bucket
        self._segments = segments
        self._settings = settings
        self._worker = worker
        self._warn = warn
        self._open: set[str] = set()  # being written by an archive
        self._waiting: dict[str, int] = {}  # waiting or uploading, with their size
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._changed = asyncio.Event()
        self._leaving = asyncio.Event()
        self._last_offered: set[str] = set()  # set when the worker leaves
        self.disk = asyncio.Lock()  # held while files are cut or removed
        self._recovering = asyncio.Lock()

    # -- called by archives ----------------------------------------------------------------------------------

    async def begin(self, name: str, shard: int) -> None:
        """A segment is written from now on; the register knows it when this returns."""
        self._open.add(name)
        await self._segments.begun(name, shard, self._worker)

    def finish(self, name: str) -> None:
        """A segment is complete and entirely settled."""
        self._open.discard(name)
        self._enqueue(name)

    def let_go(self, name: str) -> None:
        """Nobody writes to it any more, and its settled size is not known yet."""
        self._open.discard(name)

    def has(self, name: str) -> bool:
        """Whether a segment is on this disk."""
        return (self._directory / name).is_file()

    async def seal(self, shard: int, mark: Mark, epoch: int) -> None:
        """A shard was taken at this mark: its remaining segments on this disk can be uploaded."""
        await self._segments.sealed(shard, mark, epoch)
        await self.recover()

    # -- called by the worker --------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Bytes on this disk waiting to be uploaded."""
        return sum(self._waiting.values())

    @property
    def full(self) -> bool:
        """Whether so much waits that nothing new should start."""
        return self.waiting >= self._settings.spool

    async def ready(self) -> None:
        """Wait until there is room."""
        while self.full:
            await self._change()

    async def drain(self) -> None:
        """Wait until nothing is left to upload. `run` must be running; use a timeout."""
        while self._waiting:
            await self._change()

    async def leave(self) -> None:
        """Try all waiting segments once more, at once and ignoring the breaker; returns when nothing is left.

        A worker that leaves cannot wait for a pause to end, and S3 may be back. `run` must be running; use a
        timeout.
        """
        self._leaving.set()
        await self.drain()

    def sizes(self) -> list[int]:
        """All segments on this disk, including those waiting for somebody to take their shard."""
        found = self._directory.glob("*.warc.gz")
        return [path.stat().st_size for path in found if names.is_segment(path.name)]

    def metrics(self) -> Metrics:
        """What waits, and the state of the breaker."""
        return Metrics(uploads=UploadMetrics(len(self._waiting), self.waiting), s3=self.guard.metrics())

    async def recover(self) -> list[str]:
        """Compare disk and register, and continue. Returns the lost segments, whose pages are pending again."""
        async with self._recovering:
            lost = await self._look()
            gone = await self._segments.abandoned([segment.name for segment in lost]) if lost else []
        for name in gone:
            await self._remove(name)
        missed = [segment.name for segment in lost if segment.name in gone and segment.size]
        for name in missed:
            self._warn(f"the segment {name} is lost from this disk; its pages are fetched again")
        return missed

    async def _look(self) -> list[Segment]:
        """Resume what is here; returns what should be here and is not, or is incomplete."""
        here = {path.name for path in self._directory.glob("*.warc.gz") if names.is_segment(path.name)}
        idle = sorted(here - self._open - self._waiting.keys())
        torn = [segment for segment in await self._segments.look_up(idle) if not await self._resume(segment)]
        # The disk is checked again at the end, because more may have been begun since. A segment being
        # written or uploaded is not judged here; if it is gone, that ends the worker, and the next start
        # finds it missing.
        pending = await self._segments.pending(self._worker)
        busy = self._open | self._waiting.keys()
        return torn + [each for each in pending if each.name not in busy and not self.has(each.name)]

    # -- uploading -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Upload, and check periodically what was left here. Ends only by cancellation or with an error."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(self._upload_one_by_one())
            tasks.create_task(self._look_again())

    async def _look_again(self) -> None:
        """A shard that this worker lost may have been sealed by its new owner."""
        while True:
            await asyncio.sleep(self._settings.segment_time)
            with suppress(EngineAway):
                await self.recover()

    async def _upload_one_by_one(self) -> None:
        while True:
            name = await self._queue.get()
            if await self._deliver(name):
                del self._waiting[name]
                self._changed.set()
            else:
                self._queue.put_nowait(name)

    async def _deliver(self, name: str) -> bool:
        """Upload one segment until the bucket has it and the register knows; then remove it from this disk.

        False: the last attempt failed, and others should be tried first.
        """
        path = self._directory / name
        found = await asyncio.to_thread(digests, path, self._settings.part)
        if await self._registered(partial(self._segments.finished, name, found.size, found.sha256)):
            if not await self._offered(name, partial(self._put, path, found)):
                return False
            if not await self._registered(partial(self._segments.uploaded, name)):
                # Abandoned in the meantime: its pages are fetched again, and would be in the bucket twice.
                await self._until_it_works(partial(self._bucket.remove, name))
        await self._remove(name)
        return True

    def _put(self, path: Path, found: Digests) -> None:
        if self.content is not None:
            put_pages(self._bucket, Reader(self._directory), path.name, self.content)
        self._bucket.upload(path, found, self._settings.part)

    async def _registered(self, tell: Callable[[], Awaitable[bool]]) -> bool:
        """Tell the register, however long it is away: the segment is safe on disk."""
        return await patiently(tell)

    async def _offered(self, name: str, attempt: Callable[[], None]) -> bool:
        """Try until it succeeds.

        When the worker leaves, try once without asking the breaker; returns whether that succeeded.
        """
        while not self._leaving.is_set() or name in self._last_offered:
            try:
                await self.guard.call(partial(aside, attempt))
            except (BucketError, EngineAway):
                await self._until_again()
            else:
                return True
        self._last_offered.add(name)
        try:
            await aside(attempt)
        except BucketError:
            return False
        return True

    async def _until_again(self) -> None:
        """Wait until the breaker allows a call, or the worker leaves."""
        if self._leaving.is_set():
            return await self.guard.again()
        waits = [asyncio.ensure_future(wait) for wait in (self.guard.again(), self._leaving.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _until_it_works(self, attempt: Callable[[], None]) -> None:
        while True:
            try:
                return await self.guard.call(partial(aside, attempt))
            except (BucketError, EngineAway):
                await self.guard.again()

    # -- the disk --------------------------------------------------------------------------------------------

    async def _resume(self, segment: Segment) -> bool:
        """Continue with a segment that nobody works on. False: it is incomplete."""
        path = self._directory / segment.name
        match segment.stage:
            case Stage.UPLOADED | Stage.ABANDONED:
                await self._remove(segment.name)
            case Stage.SEALED | Stage.FINISHED:
                size = path.stat().st_size
                counts = size if segment.size == WHOLE else segment.size
                if counts == 0 or counts > size:
                    return False
                if counts < size:
                    os.truncate(path, counts)
                self._enqueue(segment.name)
        return True

    def _enqueue(self, name: str) -> None:
        self._waiting[name] = (self._directory / name).stat().st_size
        self._queue.put_nowait(name)

    async def _remove(self, name: str) -> None:
        async with self.disk:
            (self._directory / name).unlink(missing_ok=True)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

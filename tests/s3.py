"""A worker with an S3 archive, for tests: on the real server when there is one, or on a store in memory."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import obstore
from msgspec.structs import replace as settings_with
from obstore.store import MemoryStore, ObjectStore, S3Store

from skitter.backends.s3 import Bucket, LocalSegments, S3Archive, Segments, Uploader, open_bucket
from skitter.backends.warc import WarcArchive
from skitter.engines.watch import EngineWatch, working
from skitter.ports import Clock
from skitter.runtime.clock import SystemClock
from skitter.settings import ArchiveSettings
from skitter.settings.engines import S3Settings
from tests.engines import engine, make_bucket

PROBE = "skitter-may-write"


@dataclass
class Ground:
    """A bucket, and how to look into it without our own code."""

    bucket: Bucket
    store: ObjectStore
    settings: S3Settings
    environ: dict[str, str] = field(default_factory=dict)

    def objects(self) -> list[str]:
        """What lies in it."""
        found = [entry["path"] for page in obstore.list(self.store) for entry in page]
        return sorted(key for key in found if key != PROBE)

    def octets(self, key: str) -> bytes:
        """What an object holds."""
        return bytes(obstore.get(self.store, key).bytes())

    def download(self, to: Path) -> list[Path]:
        """Every segment, as files."""
        to.mkdir()
        paths = []
        for key in self.objects():
            if key.endswith(".warc.gz"):
                paths.append(to / key.rpartition("/")[2])
                paths[-1].write_bytes(self.octets(key))
        return paths


def memory_ground(**settings: Any) -> Ground:
    """A bucket in memory."""
    store = MemoryStore()
    return Ground(Bucket(store, "crawl"), store, S3Settings(bucket="memory", **settings))


def real_ground(name: str = "", crawl: str = "crawl", **settings: Any) -> Ground:
    """A bucket on the server that `make services` started; skips when there is none."""
    server = engine("s3")
    if not name:
        name = f"crawl-{uuid.uuid4().hex}"
        make_bucket(server, name)
    keys = server.settings
    chosen = settings_with(
        S3Settings(
            bucket=name, endpoint=server.address, region=keys["REGION"], access_key=keys["ACCESS_KEY"]
        ),
        **settings,
    )
    environ = {"SKITTER_S3_SECRET_KEY": keys["SECRET_KEY"]}
    store = S3Store(
        name,
        endpoint=server.address,
        region=keys["REGION"],
        access_key_id=keys["ACCESS_KEY"],
        secret_access_key=keys["SECRET_KEY"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    return Ground(open_bucket(chosen, crawl, environ), store, chosen, environ)


class Worker:
    """One worker: a disk, a register that it shares with others, and uploads that run while it is entered."""

    def __init__(
        self,
        ground: Ground,
        disk: Path,
        segments: Segments | None = None,
        clock: Clock | None = None,
        name: str = "w1",
    ) -> None:
        self.disk, self.clock = disk, clock or SystemClock()
        self.segments = segments or LocalSegments()
        self.warnings: list[str] = []
        self.ground = ground
        disk.mkdir(exist_ok=True)
        self.uploads = Uploader(
            disk,
            ground.bucket,
            self.segments,
            ground.settings,
            self.clock,
            worker=name,
            warn=self.warnings.append,
        )
        EngineWatch([self.uploads.guard], working("full"), self.clock, self.warnings.append)

    def archive(self, shard: int = 0, epoch: int = 1) -> S3Archive:
        """The archive of a shard that was taken under an epoch."""
        local = WarcArchive(self.disk, shard, ArchiveSettings(), self.clock, software="Skitter/test")
        return S3Archive(local, self.uploads, self.ground.settings, self.clock, shard=shard, epoch=epoch)

    def files(self) -> list[str]:
        """Segments on the disk."""
        return sorted(path.name for path in self.disk.glob("*.warc.gz"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Worker"]:
        """Uploads run; afterwards they are cancelled, wherever they are."""
        tasks = [asyncio.create_task(each) for each in (self.uploads.run(), self.uploads.guard.watch())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


class WholeArchive(S3Archive):
    """An archive that brings its worker along, for those who know archives only.

    With `eager`, everything appended counts as settled at once and is in the bucket when `append` returns.
    """

    def __init__(self, worker: Worker, *, eager: bool, shard: int = 0, epoch: int = 1) -> None:
        local = WarcArchive(worker.disk, shard, ArchiveSettings(), worker.clock, software="Skitter/test")
        settings = worker.ground.settings
        super().__init__(local, worker.uploads, settings, worker.clock, shard=shard, epoch=epoch)
        self._worker, self._eager = worker, eager
        self._running: asyncio.Task[None] | None = None

    async def append(self, packs):
        if self._running is None:
            self._running = asyncio.create_task(self._worker.uploads.run())
        places = await super().append(packs)
        if self._eager:
            self.settled()
            await self._worker.uploads.drain()
        return places

    async def close(self) -> None:
        await super().close()
        if self._running is not None:
            await self._worker.uploads.drain()
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

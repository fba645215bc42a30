"""What a worker does when its disk is full, and when its uploads fail for good."""

import asyncio
from typing import Any

import pytest

from skitter.backends.s3 import LocalSegments
from skitter.backends.warc import WarcArchive
from skitter.cluster import status
from skitter.cluster.held_shards import HeldShards
from skitter.compose import storing
from skitter.compose.uploading import InBucket
from skitter.ports import EngineAway, EngineError, Mark
from skitter.settings import ArchiveSettings, Settings
from skitter.testing.contracts.archive import exchange
from tests.s3 import Worker, memory_ground


class Watched:
    """A cluster that has nothing to do but pages that were lost, which are found again at the fourth look."""

    def __init__(self) -> None:
        self.looks = 0
        self.claims = self.segments = self

    async def unread(self):
        return {}

    async def standing(self):
        return []

    async def lost(self):
        self.looks += 1
        return ["a segment"] if self.looks < 4 else []


def test_a_crawl_is_not_finished_while_pages_of_lost_segments_are_not_pending(monkeypatch):
    monkeypatch.setattr(status, "_BETWEEN_LOOKS", 0.0)
    watched = Watched()
    asyncio.run(status.until_finished(watched, Settings()))
    assert watched.looks == 5


class Awoken:
    in_flight = 0

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        self.times += 1


def test_a_worker_takes_nothing_out_while_the_disk_is_full_and_wakes_when_it_is_not():
    async def use() -> None:
        shard: Any = Awoken()
        held, room = HeldShards(10), asyncio.Event()
        held.shards = {0: shard}
        held.full = lambda: not room.is_set()

        async def ready() -> None:
            await room.wait()

        waking = asyncio.create_task(held.wake_when(ready))
        assert held.room(shard) == 0
        await asyncio.sleep(0)
        assert shard.times == 0
        room.set()
        while not shard.times:
            await asyncio.sleep(0)
        assert held.room(shard) == 10
        waking.cancel()

    asyncio.run(use())


class Shy(LocalSegments):
    """A register that is away for the first two of every three calls."""

    calls = 0

    async def begun(self, name: str, shard: int, worker: str) -> None:
        self._answer()
        await super().begun(name, shard, worker)

    async def sealed(self, shard: int, mark: Mark, epoch: int) -> None:
        self._answer()
        await super().sealed(shard, mark, epoch)

    def _answer(self) -> None:
        self.calls += 1
        if self.calls % 3:
            raise EngineAway("PostgreSQL: it restarts")


def test_a_page_waits_for_a_register_that_is_away(tmp_path):
    """It is appended once, however often that takes, and the shard goes on."""

    async def use() -> None:
        register = Shy()
        worker = Worker(memory_ground(), tmp_path, register)
        kept = InBucket(worker.uploads, Settings(s3=worker.ground.settings), worker.clock, "w1")
        archive = kept.archive(
            WarcArchive(tmp_path, 0, ArchiveSettings(), worker.clock, software="Skitter/test"), 0, 1
        )
        assert await archive.cut(Mark()) == Mark()
        packed = archive.pack(exchange("http://example.org/", b"body"), None, None)
        [place] = await archive.append([packed])
        assert register.calls == 6
        assert [segment.name for segment in await register.pending("w1")] == [place.file] == worker.files()
        assert archive.read(place).endswith(b"body")

    asyncio.run(use())


def test_uploads_that_fail_for_good_end_the_worker_at_once():
    """Not when it leaves: until then it would fill its disk."""

    class Failing:
        async def run(self) -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._upload())

        async def _upload(self) -> None:
            raise EngineError("S3 has another object of that name")

    async def work() -> None:
        async with storing._running(Failing()):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    with pytest.raises(EngineError, match="another object"):
        asyncio.run(work())

"""What a worker with a bucket does when its register is away, and when its uploads fail for good."""

import asyncio

import pytest

from skitter.backends.s3 import LocalSegments
from skitter.backends.s3.in_bucket import InBucket, uploading
from skitter.backends.warc import WarcArchive
from skitter.ports import EngineAway, EngineError, Mark
from skitter.settings import ArchiveSettings
from skitter.testing.contracts.archive import exchange
from tests.s3 import Worker, memory_ground


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
        kept = InBucket(worker.uploads, worker.ground.settings, worker.clock, "w1")
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
        async with uploading(Failing()):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    with pytest.raises(EngineError, match="another object"):
        asyncio.run(work())

"""What a worker does when its disk is full, and when its uploads fail for good."""

import asyncio

import pytest

from skitter.cluster.crew import Crew
from skitter.compose import storing
from skitter.ports import EngineError


class Awoken:
    in_flight = 0

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        self.times += 1


def test_a_crew_takes_nothing_out_while_the_disk_is_full_and_wakes_when_it_is_not():
    async def use() -> None:
        crew, shard, room = Crew(10), Awoken(), asyncio.Event()
        crew.shards = {0: shard}  # type: ignore[dict-item]
        crew.full = lambda: not room.is_set()

        async def ready() -> None:
            await room.wait()

        waking = asyncio.create_task(crew.wake_when(ready))
        assert crew.room() == 0
        await asyncio.sleep(0)
        assert shard.times == 0
        room.set()
        while not shard.times:
            await asyncio.sleep(0)
        assert crew.room() == 10
        waking.cancel()

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

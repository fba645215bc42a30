"""The shards that a worker holds share its room."""

import asyncio
from typing import Any

from skitter.cluster.held_shards import HeldShards


class Awoken:
    in_flight = 0
    put_off = 0
    taking = 0

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


def test_a_visit_that_was_put_off_holds_no_place_though_it_is_not_settled():
    shard: Any = Awoken()
    held = HeldShards(10)
    held.shards = {0: shard}
    shard.in_flight = 10
    assert held.room(shard) == 0
    held.took()
    assert shard.times == 0
    shard.put_off = 4
    held.took()
    assert shard.times == 1
    assert held.room(shard) == 4

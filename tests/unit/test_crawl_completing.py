"""Visits are settled in batches, and wait for nothing that does not come."""

import asyncio

from skitter.crawl.completing import Batching
from skitter.testing.clock import VirtualClock, run_virtual

WINDOW = 0.5


class Shard:
    """`skitter.crawl.completing.Batched`: what it is told, and when."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.comes: float | None = None  # when more may finish; 0: it is under way
        self.went: list[float] = []

    def more_comes(self, within: float) -> bool:
        return self.comes is not None and self.comes <= self._clock.monotonic() + within

    def commit(self) -> None:
        self.went.append(round(self._clock.monotonic(), 3))


def played(scene, batching: Batching) -> list[Shard]:
    clock = VirtualClock()
    shards = [Shard(clock) for _ in range(3)]

    async def play() -> None:
        for shard in shards:
            batching.join(shard)
        await scene(batching, *shards)
        await asyncio.sleep(10)

    run_virtual(play(), clock)
    return shards


def test_all_go_when_the_window_of_the_first_visit_ends_and_the_next_visit_opens_another():
    async def scene(batching, a, b, c):
        c.comes = 0.0
        for _ in range(4):  # the last is too late for the first window
            batching.finished()
            await asyncio.sleep(0.2)

    for shard in played(scene, Batching(WINDOW, 100)):
        assert shard.went == [0.5, 1.1]


def test_all_go_at_once_when_there_is_enough():
    async def scene(batching, a, b, c):
        c.comes = 0.0
        for _ in range(5):
            await asyncio.sleep(0.1)
            batching.finished()

    for shard in played(scene, Batching(WINDOW, 4)):
        assert shard.went == [0.4, 1.0]  # the fifth waits for others, from 0.5 on


def test_all_go_at_once_when_none_expects_more_before_the_window_ends():
    async def scene(batching, a, b, c):
        a.comes, b.comes = 0.6, 0.3  # one after the window, one in it
        batching.finished()
        await asyncio.sleep(0.3)
        b.comes = None
        batching.finished()

    for shard in played(scene, Batching(WINDOW, 100)):
        assert shard.went == [0.3]


def test_nobody_waits_for_a_shard_that_has_left():
    async def scene(batching, a, b, c):
        c.comes = 0.4
        batching.leave(c)
        batching.finished()

    a, b, c = played(scene, Batching(WINDOW, 100))
    assert (a.went, b.went, c.went) == ([0.0], [0.0], [])


def test_what_is_urgent_goes_at_once_and_takes_the_others_along():
    async def scene(batching, a, b, c):
        c.comes = 0.0
        batching.finished()
        await asyncio.sleep(0.1)
        batching.finished(urgent=True)

    for shard in played(scene, Batching(WINDOW, 100, can_hurry=True)):
        assert shard.went == [0.1]
    for shard in played(scene, Batching(WINDOW, 100)):  # a round trip waits, urgent or not
        assert shard.went == [0.5]

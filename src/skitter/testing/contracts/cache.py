"""The contract of `skitter.ports.Cache`, executable.

class TestMyCache(CacheContract):
    def cache(self, capacity: int, clock: ManualClock) -> Cache:
        return MyCache(capacity, clock)
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skitter.ports import Cache
from skitter.runtime.metrics import CacheMetrics
from skitter.testing.contracts.owner import asynchronous

HOUR = 3600.0


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """Wall-clock seconds."""
        return self.time

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self.time


class Source:
    """A fetch that counts its calls, and answers when the test lets it."""

    def __init__(self, ttl: float = HOUR) -> None:
        self.ttl = ttl
        self.asked = 0
        self.answers = asyncio.Event()
        self.error: Exception | None = None

    def now(self) -> Callable[[], Awaitable[tuple[int, float]]]:
        """Answer at once: the number of calls."""
        self.answers.set()
        return self.later

    async def later(self) -> tuple[int, float]:
        """Answer when `answers` is set."""
        self.asked += 1
        mine = self.asked
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return mine, self.ttl


class CacheContract:
    """Every numbered invariant of the port."""

    def cache(self, capacity: int, clock: ManualClock) -> Cache:
        """An empty cache."""
        raise NotImplementedError

    @asynchronous
    async def test_a_kept_value_is_not_fetched_again(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        assert await cache.get_or_fetch("k", source.now()) == 1
        assert await cache.get_or_fetch("k", source.now()) == 1
        assert await cache.get_or_fetch("other", source.now()) == 2

    @asynchronous
    async def test_many_askers_cause_one_fetch_and_all_get_its_answer(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        async with asyncio.TaskGroup() as tasks:
            askers = [tasks.create_task(cache.get_or_fetch("k", source.later)) for _ in range(20)]
            await asyncio.sleep(0)
            source.answers.set()
        assert {asker.result() for asker in askers} == {1}
        assert source.asked == 1

    @asynchronous
    async def test_an_asker_that_goes_away_does_not_take_the_answer_from_the_others(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        first = asyncio.create_task(cache.get_or_fetch("k", source.later))
        await asyncio.sleep(0)
        second = asyncio.create_task(cache.get_or_fetch("k", source.later))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        source.answers.set()
        assert await second == 1

    @asynchronous
    async def test_a_value_lives_as_long_as_it_says(self) -> None:
        clock = ManualClock()
        cache, source = self.cache(10, clock), Source(ttl=60)
        await cache.get_or_fetch("k", source.now())
        clock.time += 59
        assert await cache.get_or_fetch("k", source.now()) == 1
        clock.time += 1
        assert await cache.get_or_fetch("k", source.now()) == 2

    @asynchronous
    async def test_a_value_without_time_to_live_is_not_kept(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source(ttl=0)
        await cache.get_or_fetch("k", source.now())
        assert await cache.get_or_fetch("k", source.now()) == 2

    @asynchronous
    async def test_the_least_recently_used_goes_first(self) -> None:
        cache, source = self.cache(2, ManualClock()), Source()
        await cache.get_or_fetch("a", source.now())
        await cache.get_or_fetch("b", source.now())
        await cache.get_or_fetch("a", source.now())
        await cache.get_or_fetch("c", source.now())
        assert await cache.get_or_fetch("a", source.now()) == 1
        assert await cache.get_or_fetch("b", source.now()) == 4

    @asynchronous
    async def test_a_fetch_that_raises_leaves_nothing_behind_and_everybody_sees_it(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        source.error = OSError("no route")
        askers = [asyncio.create_task(cache.get_or_fetch("k", source.later)) for _ in range(3)]
        await asyncio.sleep(0)
        source.answers.set()
        ends = await asyncio.gather(*askers, return_exceptions=True)
        assert [str(end) for end in ends] == ["no route"] * 3
        source.error = None
        assert await cache.get_or_fetch("k", source.now()) == 2

    @asynchronous
    async def test_what_is_forgotten_is_fetched_again(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        await cache.get_or_fetch("k", source.now())
        await cache.forget("k")
        await cache.forget("never kept")
        assert await cache.get_or_fetch("k", source.now()) == 2

    @asynchronous
    async def test_what_is_forgotten_under_way_is_not_kept(self) -> None:
        cache, source = self.cache(10, ManualClock()), Source()
        asker = asyncio.create_task(cache.get_or_fetch("k", source.later))
        await asyncio.sleep(0)
        await cache.forget("k")
        source.answers.set()
        assert await asker == 1
        assert await cache.get_or_fetch("k", source.now()) == 2

    @asynchronous
    async def test_metrics_tell_hits_and_misses_evictions_and_expirations(self) -> None:
        clock = ManualClock()
        cache, source = self.cache(2, clock), Source(ttl=60)
        for key in ("a", "b", "b", "c"):
            await cache.get_or_fetch(key, source.now())
        clock.time += 60
        await cache.get_or_fetch("c", source.now())
        counted = CacheMetrics(2, 2, hits=1, misses=4, evictions=1, expirations=1)
        assert cache.metrics() == counted

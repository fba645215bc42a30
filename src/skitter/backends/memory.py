"""A cache of one process: single flight, least recently used out first, and each value with its own time to live."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from skitter.ports import Clock
from skitter.runtime.metrics import CacheMetrics

T = TypeVar("T")


class MemoryCache:
    """`skitter.ports.Cache` in a dictionary. Time comes from the clock, so that a test can let it pass."""

    def __init__(self, capacity: int, clock: Clock) -> None:
        if capacity < 1:
            raise ValueError(f"a cache of {capacity} entries holds nothing; use at least 1")
        self._capacity = capacity
        self._clock = clock
        self._values: OrderedDict[str, tuple[Any, float]] = OrderedDict()  # value, expiry; oldest use first
        self._flights: dict[str, asyncio.Task[tuple[Any, float]]] = {}
        self._hits = self._misses = self._evictions = self._expirations = 0

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached value, or what one call of `fetch` gives to everybody who asks meanwhile."""
        kept = self._values.get(key)
        if kept is not None:
            if kept[1] > self._clock.monotonic():
                self._values.move_to_end(key)
                self._hits += 1
                return cast("T", kept[0])
            del self._values[key]
            self._expirations += 1
        flight = self._flights.get(key)
        if flight is None:
            self._misses += 1
            flight = asyncio.ensure_future(self._fly(key, fetch))
            self._flights[key] = flight
        else:
            self._hits += 1
        # The flight is a task of its own: an asker that is cancelled does not take the answer from the others.
        value, _ = await asyncio.shield(flight)
        return cast("T", value)

    async def _fly(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> tuple[T, float]:
        mine = asyncio.current_task()
        try:
            value, ttl = await fetch()
        finally:
            landed = self._flights.get(key) is mine  # no longer, when `forget` was called meanwhile
            if landed:
                del self._flights[key]
        if landed and ttl > 0:
            self._values[key] = value, self._clock.monotonic() + ttl
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)
                self._evictions += 1
        return value, ttl

    async def forget(self, key: str) -> None:
        """Drop a key. A fetch that is under way answers those who wait for it, and is not kept."""
        self._values.pop(key, None)
        self._flights.pop(key, None)

    def metrics(self) -> CacheMetrics:
        """How well it works."""
        return CacheMetrics(
            entries=len(self._values),
            capacity=self._capacity,
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            expirations=self._expirations,
        )

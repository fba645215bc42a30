"""The cache of one process keeps the contract of the port."""

import asyncio

import pytest

from skitter.backends.memory import MemoryCache
from skitter.ports import Cache
from skitter.testing.contracts.cache import CacheContract, ManualClock


class TestMemoryCache(CacheContract):
    def cache(self, capacity: int, clock: ManualClock) -> Cache:
        return MemoryCache(capacity, clock)

    def test_a_cache_that_holds_nothing_is_an_error(self):
        with pytest.raises(ValueError, match="at least 1"):
            MemoryCache(0, ManualClock())

    def test_a_failed_fetch_without_waiters_gives_no_warning(self, recwarn):
        async def ask() -> None:
            cache = MemoryCache(1, ManualClock())

            async def fail() -> tuple[int, float]:
                await asyncio.sleep(0)
                raise OSError("too late")

            asker = asyncio.create_task(cache.get_or_fetch("k", fail))
            await asyncio.sleep(0)
            asker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asker
            await asyncio.sleep(0.01)

        complaints = []

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _loop, context: complaints.append(context)
            )
            await ask()

        asyncio.run(main())
        assert complaints == []

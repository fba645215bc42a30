"""Redis keeps the contract of the cache, across processes, and a crawl does not notice when it is away."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from skitter.backends.redis.cache import RedisCache
from skitter.backends.redis.client import Client
from skitter.model import RobotsCopy
from skitter.ports import Cache
from skitter.runtime.clock import SystemClock
from skitter.runtime.metrics import CacheMetrics
from skitter.settings import Settings
from skitter.testing.contracts.cache import CacheContract, ManualClock, Source
from skitter.testing.contracts.owner import asynchronous
from tests.cluster.redis import cleaned, server, settings_for
from tests.engines import engine

ASKERS, PROCESSES = 50, 4
# One of several workers that all want the same thing at the same time.
ASKING = """
import asyncio, sys
from tests.cluster.test_redis_cache import ask
asyncio.run(ask(*sys.argv[1:]))
"""


class TestRedisCache(CacheContract):
    @pytest.fixture(autouse=True)
    def settings(self) -> Iterator[None]:
        self.clients: list[Client] = []
        with cleaned(settings_for(engine("redis"))) as self.options:
            yield

    def cache(self, capacity: int, clock: ManualClock) -> Cache:
        self.clients.append(Client(self.options))
        return RedisCache(self.clients[-1], f"cache{len(self.clients)}", int, capacity, clock)

    async def release(self) -> None:
        for client in self.clients:
            await client.close()

    @asynchronous
    async def test_the_least_recently_used_goes_first(self) -> None:
        """Out of the process. Redis has it until its time is over, and nobody fetches it again before."""
        cache, source = self.cache(2, ManualClock()), Source()
        for key in ("a", "b", "a", "c"):
            await cache.get_or_fetch(key, source.now())
        assert await cache.get_or_fetch("b", source.now()) == 2
        assert cache.metrics().entries == 2
        assert source.asked == 3

    @asynchronous
    async def test_metrics_tell_hits_and_misses_evictions_and_expirations(self) -> None:
        clock = ManualClock()
        cache, source = self.cache(2, clock), Source(ttl=60)
        for key in ("a", "b", "b", "c"):
            await cache.get_or_fetch(key, source.now())
        clock.time += 60
        await cache.get_or_fetch("c", source.now())
        counted = CacheMetrics(2, 2, hits=1, misses=4, evictions=1, expirations=1, fetched=4)
        assert cache.metrics() == counted

    @asynchronous
    async def test_what_one_worker_has_fetched_the_others_have(self) -> None:
        clock = ManualClock()
        first = Client(self.options)
        second = Client(self.options)
        self.clients += [first, second]
        copy = RobotsCopy(origin="https://a.example", status=200, body=b"\x00\xff", expires=5.5)

        async def fetch() -> tuple[RobotsCopy, float]:
            return copy, 60.0

        async def never() -> tuple[RobotsCopy, float]:
            raise AssertionError("it is known")

        cache = RedisCache(first, "robots", RobotsCopy, 9, clock)
        assert await cache.get_or_fetch("https://a.example", fetch) == copy
        other = RedisCache(second, "robots", RobotsCopy, 9, clock)
        assert await other.get_or_fetch("https://a.example", never) == copy
        await cache.forget("https://a.example")
        third = RedisCache(second, "robots", RobotsCopy, 9, clock)
        with pytest.raises(AssertionError, match="it is known"):
            await third.get_or_fetch("https://a.example", never)

    @asynchronous
    async def test_what_another_version_has_left_is_fetched_again(self) -> None:
        client = Client(self.options)
        self.clients.append(client)
        source = Source()
        await client.send(lambda: [("SET", f"{client.name}:x:k", b"\xc1 of another time")])
        cache = RedisCache(client, "x", int, 9, ManualClock())
        assert await cache.get_or_fetch("k", source.now()) == 1

    @asynchronous
    async def test_a_lock_whose_holder_died_runs_out(self, monkeypatch) -> None:
        monkeypatch.setattr("skitter.backends.redis.cache._LOCK", 0.2)
        client = Client(self.options)
        self.clients.append(client)
        await client.send(lambda: [("SET", f"{client.name}:x:lock:k", "a dead worker's", "PX", 200)])
        cache, source = RedisCache(client, "x", int, 9, ManualClock()), Source()
        assert await cache.get_or_fetch("k", source.now()) == 1

    @asynchronous
    async def test_who_comes_back_after_its_lock_has_run_out_changes_nothing(self, monkeypatch) -> None:
        monkeypatch.setattr("skitter.backends.redis.cache._LOCK", 0.1)
        clock = ManualClock()
        caches = []
        for _ in range(3):
            self.clients.append(Client(self.options))
            caches.append(RedisCache(self.clients[-1], "x", int, 9, clock))
        slow, quick = Source(), Source()
        quick.asked = 1
        late = asyncio.create_task(caches[0].get_or_fetch("k", slow.later))
        while not slow.asked:
            await asyncio.sleep(0.001)
        assert await caches[1].get_or_fetch("k", quick.now()) == 2
        slow.answers.set()
        assert await late == 1
        assert await caches[2].get_or_fetch("k", slow.now()) == 2


def test_many_workers_cause_one_fetch():
    with cleaned(settings_for(engine("redis"))) as options:
        command = [sys.executable, "-c", ASKING, options.redis.addresses[0], options.cluster.name]
        workers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
        told = []
        for worker in workers:
            out, _ = worker.communicate()
            assert worker.returncode == 0
            told.append(out)
    assert sorted(told) == [f"{ASKERS} askers heard 1\n".encode()] * PROCESSES


async def ask(address: str, name: str) -> None:
    """Fifty askers of one process, once all processes are there."""
    base = Settings()
    client = Client(
        type(base)(
            cluster=type(base.cluster)(size="redis", name=name), redis=type(base.redis)(addresses=(address,))
        )
    )
    await client.send(lambda: [("INCR", f"{name}:here")])
    while int((await client.send(lambda: [("GET", f"{name}:here")]))[0]) < PROCESSES:
        await asyncio.sleep(0.01)

    async def fetch() -> tuple[int, float]:
        (asked,) = await client.send(lambda: [("INCR", f"{name}:asked")])
        await asyncio.sleep(0.3)
        return asked, 60.0

    cache = RedisCache(client, "robots", int, 100, SystemClock())
    heard = await asyncio.gather(*(cache.get_or_fetch("https://new.example", fetch) for _ in range(ASKERS)))
    print(f"{len(heard)} askers heard {heard[0] if len(set(heard)) == 1 else heard}")
    await client.close()


def test_without_redis_it_is_the_cache_of_one_process(tmp_path):
    async def use(settings: Settings, mine) -> None:
        client = Client(settings)
        cache, source = RedisCache(client, "x", int, 9, ManualClock()), Source(ttl=600)
        assert await cache.get_or_fetch("a", source.now()) == 1
        mine.kill()
        assert await cache.get_or_fetch("a", source.now()) == 1
        assert await cache.get_or_fetch("b", source.now()) == 2
        assert await cache.get_or_fetch("b", source.now()) == 2
        await cache.forget("b")
        assert await cache.get_or_fetch("b", source.now()) == 3
        assert cache.metrics().alone == 2
        await client.close()

    with server(tmp_path, "--appendonly", "yes") as mine:
        asyncio.run(use(settings_for(mine.engine), mine))


def test_redis_lost_during_a_fetch_loses_no_answer(tmp_path):
    async def use(settings: Settings, mine) -> None:
        client = Client(settings)
        cache, source = RedisCache(client, "x", int, 9, ManualClock()), Source(ttl=600)
        asker = asyncio.create_task(cache.get_or_fetch("a", source.later))
        while not source.asked:
            await asyncio.sleep(0.001)
        mine.kill()
        source.answers.set()
        assert await asker == 1
        await client.close()

    with server(tmp_path, "--appendonly", "yes") as mine:
        asyncio.run(use(settings_for(mine.engine), mine))

"""Permits leased from Redis keep the contract, and each worker keeps to its part while Redis is away."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from msgspec.structs import replace

from skitter.backends.redis import permits as module
from skitter.backends.redis.client import Client
from skitter.backends.redis.permits import RedisPermits
from skitter.ports import Permits
from skitter.runtime.clock import SystemClock
from skitter.settings import PolitenessSettings
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.owner import asynchronous
from skitter.testing.contracts.permits import (
    PATIENCE,
    A,
    B,
    PermitsContract,
    Uses,
    granted,
    politeness,
    refused,
)
from tests.cluster.redis import cleaned, settings_for
from tests.engines import engine, freeze, killed, our_engine, thaw


class TestRedisPermits(PermitsContract):
    @pytest.fixture(autouse=True)
    def settings(self) -> Iterator[None]:
        self.clients: list[Client] = []
        self.open: list[RedisPermits] = []
        self.tasks: dict[RedisPermits, asyncio.Task[None]] = {}
        with cleaned(settings_for(engine("redis"))) as self.options:
            yield

    async def sharers(self, count: int, settings: PolitenessSettings) -> Sequence[Permits]:
        options = replace(self.options, politeness=settings)
        for number in range(count):
            self.clients.append(Client(options))
            permits = RedisPermits(self.clients[-1], f"worker{number}", options, SystemClock())
            permits.workers = lambda: count
            self.tasks[permits] = asyncio.create_task(permits.run())
            self.open.append(permits)
        return self.open

    async def succeed(self, dead: Permits) -> None:
        """Nobody replaces it: its leases end."""
        assert isinstance(dead, RedisPermits)
        self.tasks[dead].cancel()

    async def release(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for each in self.open:
            await each.close()
        for client in self.clients:
            await client.close()

    @asynchronous
    async def test_a_permit_that_was_not_used_gives_back_no_turn_that_another_has_taken(self) -> None:
        """The first got no permit for another key, but only after the second had begun."""
        options, clock = replace(self.options, politeness=politeness(None, 1.0)), VirtualClock()
        self.clients.append(Client(options))
        permits = RedisPermits(self.clients[-1], "worker", options, clock)
        self.open.append(permits)
        await granted(permits, A)
        clock.advance(1.0)
        await granted(permits, A)
        permits.give_back(A, None)
        clock.advance(0.5)
        await refused(permits, A)
        permits.give_back(A, 0.5)

    # -- round trips -------------------------------------------------------------------------------------------

    @asynchronous
    async def test_permits_in_use_cost_no_round_trips(self) -> None:
        (permits,) = await self.sharers(1, politeness(8))
        uses, client = Uses(), self.clients[0]
        addresses = [f"192.0.2.{number}" for number in range(100)]
        for address in addresses:
            await granted(permits, address)
            permits.give_back(address, 0.01)
        before = client.trips
        async with asyncio.TaskGroup() as tasks:
            for address in addresses:
                tasks.create_task(uses.requests(permits, address, 0, 50, 0.02))
        spent = client.trips - before
        print(f"\n{spent} round trips for {sum(uses.done.values())} requests to {len(addresses)} addresses")
        assert spent < 0.01 * sum(uses.done.values())

    @asynchronous
    async def test_new_addresses_that_are_needed_at_once_share_a_round_trip(self) -> None:
        (permits,) = await self.sharers(1, politeness(8))
        await granted(permits, A)
        before = self.clients[0].trips
        addresses = [f"192.0.2.{number}" for number in range(100, 200)]
        assert await asyncio.gather(*(permits.ask(address) for address in addresses)) == [None] * 100
        assert self.clients[0].trips - before <= 2

    @asynchronous
    async def test_what_is_not_used_is_left_to_others(self) -> None:
        first, second = await self.sharers(2, politeness(4))
        assert [await first.ask(A) for _ in range(4)] == [None] * 4
        await refused(second, A)
        for _ in range(4):
            first.give_back(A, 0.1)
        for _ in range(4):
            await granted(second, A)

    # -- outages -----------------------------------------------------------------------------------------------

    @pytest.fixture
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leases that a test can wait for."""
        for name, seconds in {
            "_TERM": 3.0,
            "_TRUSTED": 2.4,
            "_RENEW": 0.5,
            "_EVERY": 0.2,
            "_MODEST": 2.0,
        }.items():
            monkeypatch.setattr(module, name, seconds)

    @asynchronous
    async def test_while_redis_is_away_each_keeps_to_its_part(self, quick: None) -> None:
        """The first had everything. The second gets its part when the leases of the first have ended, not before."""
        our_engine("redis")
        first, second = await self.sharers(2, politeness(4))
        uses = Uses()
        busy = [asyncio.create_task(uses.requests(first, A, 0, 10**9, 0.05)) for _ in range(12)]
        try:
            await until(lambda: uses.now[A] == 4)
            await asyncio.to_thread(freeze, "redis")
            try:
                frozen = time.monotonic()
                other = [asyncio.create_task(uses.requests(second, A, 1, 10**9, 0.05)) for _ in range(12)]
                busy += other
                await until(lambda: uses.done[1] > 20)
                assert time.monotonic() > frozen + 2  # all leases were over
                assert uses.most[A] <= 4
                done = dict(uses.done)
                await until(lambda: uses.done[0] > done[0] + 20 and uses.done[1] > done[1] + 20)
                assert uses.most[A] <= 4
            finally:
                await asyncio.to_thread(thaw, "redis")
            for task in other:
                task.cancel()
            uses.most.clear()
            await until(lambda: uses.most[A] == 4)  # the first has everything again
        finally:
            for task in busy:
                task.cancel()
            await asyncio.wait(busy)
        assert uses.most[A] <= 4

    @asynchronous
    async def test_a_redis_that_was_restarted_is_asked_again(self, quick: None) -> None:
        our_engine("redis")
        (permits,) = await self.sharers(1, politeness(2))
        await granted(permits, A)
        with killed("redis"):
            await asyncio.sleep(1)
            assert await permits.ask(A) is None  # it is alone: its part is everything, and it holds that
            await refused(permits, A)
            await granted(permits, B)  # when every lease has ended
        permits.give_back(A, 0.1)
        permits.give_back(A, 0.1)
        await granted(permits, A)
        await granted(permits, A)
        await refused(permits, A)

    @asynchronous
    async def test_with_fewer_permits_than_workers_each_has_one_while_redis_is_away(
        self, quick: None
    ) -> None:
        our_engine("redis")
        sharers = await self.sharers(3, politeness(2))
        with killed("redis"):
            for permits in sharers:
                await granted(permits, A)
                await refused(permits, A)


async def until(happens: Callable[[], object]) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)

"""Permits leased from Redis keep the contract, and each worker keeps to its part while Redis is away."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from skitter.backends.redis.client import Client
from skitter.backends.redis.permits import RedisPermits
from skitter.ports import Permits
from skitter.runtime.clock import SystemClock
from skitter.settings import PolitenessSettings
from skitter.testing.contracts.permits import PermitsContract
from tests.cluster.redis import cleaned, settings_for
from tests.engines import engine


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
        await asyncio.wait(self.tasks.values())
        for each in self.open:
            await each.close()
        for client in self.clients:
            await client.close()

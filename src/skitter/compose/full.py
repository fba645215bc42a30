"""The full cluster: PostgreSQL is the truth, Kafka forwards links and pages, Redis is the shared cache.

Everything in Redis can be had without it, more slowly.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from skitter.backends.kafka import topics
from skitter.backends.kafka.documents import Documents
from skitter.backends.kafka.forwarding import Inbox, KafkaForwarding
from skitter.backends.kafka.lag import made_anew, waiting
from skitter.backends.kafka.sending import Sender
from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.migrate import drop, open_pool
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.round_trips import RoundTrips
from skitter.backends.postgres.segments import PostgresSegments
from skitter.backends.postgres.store import PostgresStore
from skitter.backends.redis.accounts import RedisAccounts
from skitter.backends.redis.bloom import BloomStore
from skitter.backends.redis.cache import RedisCache
from skitter.backends.redis.client import Client, connect
from skitter.backends.redis.permits import RedisPermits
from skitter.backends.redis.removing import remove
from skitter.cluster import ports
from skitter.compose.engines import Register
from skitter.engines.breaker import Guard
from skitter.engines.retry import patiently
from skitter.frontier.store import Forwarding, Store
from skitter.model import Settlement
from skitter.ports import Cache, Clock, EngineAway, EngineError, PermitTerms
from skitter.reporting.format import counted
from skitter.settings import Settings


class FullEngines:
    """`compose.engines.Engines` on PostgreSQL and Kafka."""

    def __init__(
        self, settings: Settings, shards: int, pool: Pool, sender: Sender, redis: Client, worker: str
    ) -> None:
        self.shards = shards
        self._redis = redis
        self.claims: ports.Claims = Claims(pool, worker)
        self.segments: Register | None = PostgresSegments(pool)
        self.forwarding: Forwarding = KafkaForwarding(settings, sender)
        self._inbox = Inbox(settings, shards, sender)
        self.inbox: ports.Inbox = self._inbox
        self.guards: Sequence[Guard] = [pool.guard, sender.guard, redis.guard]
        self._settings = settings
        self._worker = worker
        self._pool = pool
        self._round_trips = RoundTrips(pool)
        self._sender = sender
        self._documents = Documents(settings, sender)

    def store(self, shard: int, epoch: int = 0) -> Store:
        """One shard; reading needs no epoch. Only its owner uses the filter of unknown URLs."""
        store = PostgresStore(self._pool, shard, epoch, self._round_trips)
        return BloomStore(store, self._redis, shard, epoch) if epoch else store

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Pages and errors, through Kafka."""
        await patiently(lambda: self._documents.announce(settlements))

    async def unread(self) -> dict[int, int]:
        """Forwarded messages that are not read yet, by shard."""
        standing = {shard.shard: shard.positions for shard in await self.claims.standing()}
        try:
            found = await waiting(self._settings.kafka, standing)
        except EngineError as unfit:  # it was usable when we started
            raise EngineAway(str(unfit)) from None
        return {one.shard: one.messages for one in found}

    async def lag(self) -> dict[str, int]:
        """Forwarded messages that are not read yet, by the priority of their topic."""
        standing = {shard.shard: shard.positions for shard in await self.claims.standing()}
        try:
            found = await waiting(self._settings.kafka, standing)
        except EngineError as unfit:
            raise EngineAway(str(unfit)) from None
        topics_of = zip(("high", "medium", "low"), topics.link_topics(self._settings.kafka), strict=True)
        return {priority: sum(one.behind[topic] for one in found) for priority, topic in topics_of}

    def trips(self) -> dict[str, float]:
        """Round trips so far, by engine."""
        return {"postgres": self._pool.trips, "kafka": self._sender.trips, "redis": self._redis.trips}

    def cache(self, name: str, kind: Any, capacity: int, clock: Clock) -> Cache:  # noqa: ANN401
        """Answers that all workers share. Without Redis each has its own, which is slower but correct."""
        return RedisCache(self._redis, name, kind, capacity, clock)

    def accounts(self) -> RedisAccounts:
        """What all shards have used of the budgets of groups."""
        return RedisAccounts(self._redis, self.shards)

    def permits(self, clock: Clock, terms: PermitTerms, kind: str = "") -> RedisPermits:
        """Permits to send to an address, or of keys of another kind, for all workers together. Without Redis each has its part."""
        return RedisPermits(self._redis, self._worker, self._settings, clock, terms, kind)

    async def close(self) -> None:
        """Stop receiving links. The engines are closed where they were opened."""
        await self._inbox.close()


async def open_full(
    settings: Settings, worker: str, stack: AsyncExitStack, *, looking: bool = False
) -> FullEngines:
    """Connect and check: schema, topics, versions. Without Kafka and Redis, the truth can still be read."""
    pool = await open_pool(settings, settings.crawl.shards or None, worker)
    stack.push_async_callback(pool.close)
    standing = await Claims(pool, worker).standing()
    shards = len(standing)
    if not looking:
        await topics.check(settings.kafka, shards)
        if anew := await made_anew(settings.kafka, {each.shard: each.positions for each in standing}):
            fix = "stop all workers and run `skitter cluster init`, so that no link in it is passed over"
            raise EngineError(f"Kafka: {not_the_same(anew)}; {fix}")
    sender = Sender(settings.kafka)
    stack.push_async_callback(sender.close)
    redis = Client(settings) if looking else await connect(settings, durable=False)
    stack.push_async_callback(redis.close)
    engines = FullEngines(settings, shards, pool, sender, redis, worker)
    stack.push_async_callback(engines.close)
    return engines


@asynccontextmanager
async def open_truth(settings: Settings) -> AsyncIterator[ports.Claims]:
    """PostgreSQL only."""
    pool = await open_pool(settings, settings.crawl.shards or None)
    try:
        yield Claims(pool, "")
    finally:
        await pool.close()


async def unmake_full(settings: Settings) -> list[str]:
    """The truth is removed last: until then, an interrupted removal can be repeated."""
    client = await connect(settings, durable=False)
    try:
        keys = await remove(client)
    finally:
        await client.close()
    gone = [f"Redis: {counted(keys, 'key')} removed"] if keys else []
    gone += [f"Kafka: topic {name} removed" for name in await topics.remove(settings.kafka)]
    return [*gone, f"PostgreSQL: schema {settings.cluster.name} removed"] if await drop(settings) else gone


def not_the_same(anew: Sequence[str]) -> str:
    """The error for topics that end before the positions stored for them."""
    many = len(anew) > 1
    which = f"the topics {', '.join(anew)} are not those" if many else f"the topic {anew[0]} is not the one"
    return f"{which} whose links were taken in (made anew, or links in {'them' if many else 'it'} are lost)"

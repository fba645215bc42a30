"""The full cluster: PostgreSQL is the truth, Kafka carries links and pages, Redis is the cache that all workers share.

Whatever is in Redis can be had otherwise, more slowly.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import Any

from skitter.backends.kafka import topics
from skitter.backends.kafka.documents import CrawlError, DocumentReader, Documents
from skitter.backends.kafka.lag import made_anew, waiting
from skitter.backends.kafka.mail import Inbox, Mail
from skitter.backends.kafka.sending import Sender
from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.journeys import Journeys
from skitter.backends.postgres.migrate import drop, open_pool
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.segments import PostgresSegments
from skitter.backends.postgres.store import PostgresStore
from skitter.backends.redis.bloom import BloomStore
from skitter.backends.redis.cache import RedisCache
from skitter.backends.redis.client import Client, connect
from skitter.backends.redis.removing import remove
from skitter.cluster import ports
from skitter.compose.engines import PatientInbox, Register
from skitter.engines.breaker import Guard, until_again
from skitter.frontier import mail
from skitter.frontier.patience import patiently
from skitter.frontier.store import Store
from skitter.model import Settlement, State
from skitter.ports import Cache, Clock, EngineAway, EngineError, Entry
from skitter.reporting.format import counted
from skitter.settings import Settings
from skitter.urls import registrable_domain

_LOOKS = 5  # without a page, each about a second: then there are none, and the group has had time to form


class FullEngines:
    """`compose.engines.Engines` on PostgreSQL and Kafka."""

    def __init__(
        self, settings: Settings, shards: int, pool: Pool, sender: Sender, redis: Client, worker: str
    ) -> None:
        self.shards = shards
        self._redis = redis
        self.claims: ports.Claims = Claims(pool, worker)
        self.segments: Register | None = PostgresSegments(pool)
        self.mail: mail.Mail = Mail(settings, sender)
        self._inbox = Inbox(settings, shards, sender)
        self.inbox: ports.Inbox = PatientInbox(self._inbox)
        self.guards: Sequence[Guard] = [pool.guard, sender.guard, redis.guard]
        self._settings = settings
        self._pool = pool
        self._journeys = Journeys(pool)
        self._sender = sender
        self._documents = Documents(settings, sender)

    def store(self, shard: int, epoch: int = 0) -> Store:
        """One shard; to read from it, no epoch is needed. Its owner alone can say what it does not know."""
        store = PostgresStore(self._pool, shard, epoch, self._journeys)
        return BloomStore(store, self._redis, shard, epoch) if epoch else store

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Pages go to the index by Kafka, errors to whoever cares."""
        entries = [_entry(settlement) for settlement in settlements if settlement.page is not None]
        errors = [error for settlement in settlements if (error := _error(settlement)) is not None]
        if entries or errors:
            await patiently(lambda: self._documents.send(entries, errors))

    async def unread(self) -> dict[int, int]:
        """Messages on the link topics that are not taken in, by shard."""
        standing = {shard.shard: shard.mail for shard in await self.claims.standing()}
        try:
            found = await waiting(self._settings.kafka, standing)
        except EngineError as unfit:  # it was fit when we came
            raise EngineAway(str(unfit)) from None
        return {one.shard: one.messages for one in found}

    def trips(self) -> dict[str, float]:
        """Round trips so far, by engine."""
        return {"postgres": self._pool.trips, "kafka": self._sender.trips, "redis": self._redis.trips}

    def cache(self, name: str, kind: Any, capacity: int, clock: Clock) -> Cache:  # noqa: ANN401
        """Answers that all workers share. Without Redis each has its own, which is slower and never wrong."""
        return RedisCache(self._redis, name, kind, capacity, clock)

    async def close(self) -> None:
        """Receive no more links. Who has opened the engines closes them."""
        await self._inbox.close()


def _entry(settlement: Settlement) -> Entry:
    """A page with its text, and where it leads, wanted or not."""
    if settlement.page is None:
        raise AssertionError(settlement)
    refused = (link for link, _ in settlement.refused)
    return Entry(settlement.page, [link.url for link in chain(settlement.links, refused)])


def _error(settlement: Settlement) -> CrawlError | None:
    verdict, link = settlement.verdict, settlement.visit.link
    retry = verdict.state is State.QUEUED and verdict.due is not None and verdict.attempted
    if verdict.reason is None or not (retry or verdict.state is State.FAILED):
        return None
    return CrawlError(
        url=link.url,
        key=link.key,
        host=link.host,
        domain=registrable_domain(link.host),
        reason=verdict.reason,
        status=settlement.status,
        attempt=settlement.visit.attempt,
        at=settlement.exchange.ended if settlement.exchange else settlement.visit.leased_at,
        final=not retry,
    )


async def open_full(
    settings: Settings, worker: str, stack: AsyncExitStack, *, looking: bool = False
) -> FullEngines:
    """Connected, and checked: schema, topics, versions. Without Kafka and Redis one can still look at the truth."""
    pool = await open_pool(settings, settings.crawl.shards or None, worker)
    stack.push_async_callback(pool.close)
    standing = await Claims(pool, worker).standing()
    shards = len(standing)
    if not looking:
        await topics.check(settings.kafka, shards)
        if anew := await made_anew(settings.kafka, {each.shard: each.mail for each in standing}):
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
    """PostgreSQL alone."""
    pool = await open_pool(settings, settings.crawl.shards or None)
    try:
        yield Claims(pool, "")
    finally:
        await pool.close()


class DocumentSource:
    """Pages from Kafka, batch by batch, for whoever indexes them. A batch is done when the next one is asked for."""

    def __init__(self, settings: Settings) -> None:
        self._sender = Sender(settings.kafka)
        self.guard = self._sender.guard
        self._reader = DocumentReader(settings, self._sender)
        self._size = settings.search.bulk

    async def batches(self, *, until_none_are_left: bool = False) -> AsyncIterator[Sequence[Entry]]:
        """What comes, for ever, or until nothing has come for a while."""
        empty = 0
        while not (until_none_are_left and empty >= _LOOKS):
            batch = await patiently(lambda: self._reader.batch(self._size))
            if batch:
                empty = 0
                yield batch
            elif until_none_are_left:
                empty = empty + 1 if await self._answers() else 0
            await patiently(self._reader.done)

    async def _answers(self) -> bool:
        """Whether there are brokers who could have had a page."""
        try:
            await self.guard.call(self._sender.check)
        except EngineAway as away:
            await until_again(away)
            return False
        return True

    async def close(self) -> None:
        """Leave the group; what is not done is read again by whoever comes next."""
        await self._reader.close()
        await self._sender.close()


async def unmake_full(settings: Settings) -> list[str]:
    """The truth last: as long as it is there, what is left of the crawl can be removed by asking again."""
    client = await connect(settings, durable=False)
    try:
        keys = await remove(client)
    finally:
        await client.close()
    gone = [f"Redis: {counted(keys, 'key')} removed"] if keys else []
    gone += [f"Kafka: topic {name} removed" for name in await topics.remove(settings.kafka)]
    return [*gone, f"PostgreSQL: schema {settings.cluster.name} removed"] if await drop(settings) else gone


def not_the_same(anew: Sequence[str]) -> str:
    """What is wrong with topics that end before the positions that are stored for them."""
    many = len(anew) > 1
    which = f"the topics {', '.join(anew)} are not those" if many else f"the topic {anew[0]} is not the one"
    return f"{which} whose links were taken in (made anew, or links in {'them' if many else 'it'} are lost)"

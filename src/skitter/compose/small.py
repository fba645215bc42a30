"""A small cluster: Redis has the frontier, forwarded links and the shared cache; the archive is on the workers'
disks.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from skitter.backends.redis.accounts import RedisAccounts
from skitter.backends.redis.cache import RedisCache
from skitter.backends.redis.claims import RedisClaims, prepare, shards_of
from skitter.backends.redis.client import Client, connect, unfit
from skitter.backends.redis.forwarding import RedisForwarding, RedisInbox, unread
from skitter.backends.redis.permits import RedisPermits
from skitter.backends.redis.removing import remove
from skitter.backends.redis.store import RedisStore
from skitter.cluster import ports
from skitter.compose.engines import Register
from skitter.engines.breaker import Guard
from skitter.frontier.store import Forwarding
from skitter.model import Settlement
from skitter.ports import Cache, Clock, PermitTerms
from skitter.reporting.format import counted
from skitter.settings import Settings, SettingsError


class SmallEngines:
    """`compose.engines.Engines` on Redis only."""

    def __init__(self, shards: int, client: Client, listener: Client, worker: str) -> None:
        """`listener` waits for messages, so it needs its own connection."""
        self.shards = shards
        self.claims: ports.Claims = RedisClaims(client, worker, shards)
        self.segments: Register | None = None
        self.forwarding: Forwarding = RedisForwarding(client)
        self.inbox: ports.Inbox = RedisInbox(listener)
        self.guards: Sequence[Guard] = [client.guard]
        self._worker = worker
        self._settings = client.settings
        self._client = client
        self._listener = listener

    def store(self, shard: int, epoch: int = 0) -> RedisStore:
        """One shard; reading needs no epoch."""
        return RedisStore(self._client, shard, epoch)

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Nobody listens."""

    async def unread(self) -> dict[int, int]:
        """Forwarded messages that are not read yet, by shard."""
        return await unread(
            self._client, {shard.shard: shard.positions for shard in await self.claims.standing()}
        )

    async def lag(self) -> dict[str, int]:
        """Forwarded messages that are not read yet. They have one list per shard, whatever their priority."""
        return {"all": sum((await self.unread()).values())}

    def trips(self) -> dict[str, float]:
        """Round trips so far, by engine."""
        return {"redis": self._client.trips + self._listener.trips}

    def cache(self, name: str, kind: Any, capacity: int, clock: Clock) -> Cache:  # noqa: ANN401
        """Answers that all workers share."""
        return RedisCache(self._client, name, kind, capacity, clock)

    def accounts(self) -> RedisAccounts:
        """What all shards have used of the budgets of groups."""
        return RedisAccounts(self._client, self.shards)

    def permits(self, clock: Clock, terms: PermitTerms, kind: str = "") -> RedisPermits:
        """Permits to send to an address, or of keys of another kind, for all workers together."""
        return RedisPermits(self._client, self._worker, self._settings, clock, terms, kind)


async def open_small(settings: Settings, worker: str, stack: AsyncExitStack) -> SmallEngines:
    """Connect and check."""
    _check_archive(settings)
    client = await connect(settings, worker=worker)
    stack.push_async_callback(client.close)
    shards = await _checked_shards(client, settings)
    listener = Client(settings, guard=client.guard, worker=worker)
    stack.push_async_callback(listener.close)
    return SmallEngines(shards, client, listener, worker)


@asynccontextmanager
async def open_only_truth(settings: Settings) -> AsyncIterator[ports.Claims]:
    """Without forwarding."""
    _check_archive(settings)
    client = await connect(settings)
    try:
        yield RedisClaims(client, "", await _checked_shards(client, settings))
    finally:
        await client.close()


async def _checked_shards(client: Client, settings: Settings) -> int:
    shards = await shards_of(client)
    if settings.crawl.shards not in (0, shards):
        raise unfit(
            "crawl.shards",
            f"the crawl {client.name} has {shards} shards, not {settings.crawl.shards}; use these, or another cluster.name",
        )
    return shards


def _check_archive(settings: Settings) -> None:
    """The register of segments is in PostgreSQL. Without one, a segment could stay on a disk for ever."""
    if settings.s3.bucket:
        raise SettingsError(
            "s3.bucket: a cluster around one Redis keeps its archive on the disks of its workers; leave the bucket out, or "
            'write size = "full" under [cluster]'
        )


async def unmake_small(settings: Settings) -> list[str]:
    """Remove everything under the crawl's name."""
    client = await connect(settings)
    try:
        keys = await remove(client)
    finally:
        await client.close()
    return [f"Redis: {counted(keys, 'key')} removed"] if keys else []


async def make_small(settings: Settings) -> list[str]:
    """Record the number of shards."""
    _check_archive(settings)
    client = await connect(settings)
    try:
        made = await prepare(client, settings.crawl.shards)
    finally:
        await client.close()
    return [f"Redis: crawl {settings.cluster.name} with {settings.crawl.shards} shards"] if made else []

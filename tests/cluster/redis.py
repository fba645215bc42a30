"""Crawls of their own on the real Redis, and servers of a test's own that may be killed or configured badly."""

import asyncio
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from skitter.backends.redis.client import Client
from skitter.backends.redis.store import RedisStore, listed, tag
from skitter.frontier import ShardFrontier
from skitter.frontier.crashes import InHand
from skitter.frontier.rows import standing
from skitter.ports import Frontier
from skitter.settings import Seconds, Settings
from skitter.settings.engines import ClusterSettings, RedisSettings
from tests.contract.grounds import Messages
from tests.engines import Engine


def settings_for(redis: Engine, **changes) -> Settings:
    """A crawl that nobody else has a part in."""
    options = {"addresses": (f"{redis.host}:{redis.port}",)}
    cluster = ClusterSettings(size="redis", name=f"test-{uuid.uuid4().hex[:12]}")
    return Settings(cluster=cluster, redis=RedisSettings(**{**options, **changes}))


@contextmanager
def cleaned(settings: Settings) -> Iterator[Settings]:
    """Nothing is left of a crawl afterwards."""
    try:
        yield settings
    finally:
        asyncio.run(clean(settings))


async def clean(settings: Settings) -> None:
    client = Client(settings)
    for pattern in (f"{{{settings.cluster.name}*", f"{settings.cluster.name}:*"):
        (keys,) = await client.send(lambda pattern=pattern: [("KEYS", pattern)])  # type: ignore[misc]
        if keys:
            await client.send(lambda keys=keys: [("UNLINK", *keys)])  # type: ignore[misc]
    await client.close()


async def judge_lists(settings: Settings) -> None:
    """Every list of URLs in Redis holds those whose rows say so, and no other."""
    client = Client(settings)
    for shard in range(settings.crawl.shards):
        told: dict[bytes, set[bytes]] = {}
        async for row in RedisStore(client, shard).urls():
            if (stands := standing(row)) is not None:
                _, suffix, entry = listed(stands, row.id)
                told.setdefault(tag(client.name, shard) + suffix, set()).add(entry)
        found = await _lists(client, tag(client.name, shard))
        assert found == told, f"shard {shard}: {found} instead of {told}"
    await client.close()


async def _lists(client: Client, prefix: bytes) -> dict[bytes, set[bytes]]:
    found: dict[bytes, set[bytes]] = {}
    for suffix, *read in ((b"q:*", 0, -1), (b"retry", 0, -1), (b"recrawl", 0, -1), (b"parked:*",)):
        search = ("KEYS", prefix + suffix)
        (keys,) = await client.send(lambda search=search: [search])  # type: ignore[misc]
        asks = [("ZRANGE" if read else "SMEMBERS", key, *read) for key in keys]
        entries = await client.send(lambda asks=asks: asks) if asks else []  # type: ignore[misc]
        found |= {key: set(some) for key, some in zip(keys, entries, strict=True)}
    return found


class Owner(RedisStore):
    """A store with a client of its own, closed with it."""

    async def close(self) -> None:
        await self._client.close()


async def claim(settings: Settings, shard: int = 0) -> Owner:
    """Take a shard, whoever has it."""
    client = Client(settings)
    (epoch,) = await client.send(lambda: [("INCR", tag(settings.cluster.name, shard) + b"epoch")])
    return Owner(client, shard, epoch)


class Server:
    """A redis-server that this test may do anything to."""

    def __init__(self, place: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._place = place
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def engine(self) -> Engine:
        return Engine("redis", f"redis://127.0.0.1:{self.port}")

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._place)),
                *("--save", "", *self._options),
            ],
            stdout=subprocess.DEVNULL,
        )
        for _ in range(1000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(7).startswith((b"+PONG", b"-NOAUTH")):
                        return
            time.sleep(0.01)
        self.kill()
        raise AssertionError("redis-server does not answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def server(place: Path, *options: str) -> Iterator[Server]:
    """A server of the test's own; skips where redis-server is not installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: make services")
    mine = Server(place, *options)
    mine.start()
    try:
        yield mine
    finally:
        mine.kill()


# ------------------------------------------------------------------------------------------------ frontiers


class Late:
    """The epoch is taken when the frontier is opened, because a ground makes frontiers outside of any loop."""

    hash_key, domain_prefix = staticmethod(RedisStore.hash_key), RedisStore.domain_prefix
    secret = 0

    def __init__(self, ground: "FrontierGround", settings: Settings) -> None:
        self._ground, self._settings = ground, settings
        self._store: RedisStore | None = None

    async def open(self):
        client = self._ground.client or Client(self._settings)
        self._ground.client = client
        (epoch,) = await client.send(lambda: [("INCR", tag(client.name, 0) + b"epoch")])
        self._store = RedisStore(client, 0, epoch)
        return await self._store.open()

    def __getattr__(self, name):
        return getattr(self._store, name)


class FrontierGround:
    def __init__(self, settings: Settings, hand: Path) -> None:
        self.settings, self.hand = settings, hand
        self.client: Client | None = None
        self.messages = Messages()
        self.sent = self.messages.sent

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> ShardFrontier:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = structs.replace(self.settings, politeness=politeness)
        store = Late(self, settings)
        return ShardFrontier(
            store,
            settings,
            shard=shard,
            shards=shards,
            forwarding=self.messages,
            in_hand=InHand(self.hand),
        )

    async def kill(self, frontier: Frontier) -> None:
        """The next owner has another epoch."""

    async def release(self) -> None:
        if self.client is not None:
            await self.client.close()
            self.client = None


def ground_at(place: str) -> FrontierGround:
    """From one word: redis://host:port/name#hand."""
    parts = urlsplit(place)
    cluster = ClusterSettings(size="redis", name=parts.path.strip("/"), lease_ahead=Seconds(0.2))
    settings = Settings(cluster=cluster, redis=RedisSettings(addresses=(parts.netloc,)))
    return FrontierGround(settings, Path(parts.fragment))

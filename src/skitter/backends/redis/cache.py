"""A cache shared by many workers: one fetch for all of them, with a small cache in each process in front.

A worker that finds nothing takes a lock with a random token and a time to live, looks again, fetches, and stores the
answer; the others wait for it. Only the holder of the lock stores an answer and releases it (compare and delete in
one script). If the holder dies, the lock expires. Without Redis this is a cache of one process, never an error; its
breaker decides how long Redis is left alone.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from skitter.backends.memory import MemoryCache
from skitter.backends.redis.client import Client
from skitter.engines.damaged import DAMAGED
from skitter.ports import Clock, EngineAway
from skitter.runtime.metrics import CacheMetrics

T = TypeVar("T")
_LOCK = 30.0  # seconds that a fetch may take before another worker may try
_LOOK = 0.05  # seconds between two looks while another worker fetches
_FRONT = 30.0  # seconds that a process trusts its own copy

_encode = Encoder().encode


class RedisCache:
    """`skitter.ports.Cache` in Redis. All values of a cache are of one type."""

    def __init__(
        self,
        client: Client,
        name: str,
        kind: Any,  # noqa: ANN401  whatever msgspec can pack
        capacity: int,
        clock: Clock,
    ) -> None:
        self._client = client
        self._prefix = f"{client.name}:{name}:"
        self._decode: Callable[[bytes], Any] = Decoder(tuple[float, kind]).decode
        self._front = MemoryCache(capacity, clock)
        self._clock = clock
        self._leave = client.script("leave")
        self._asked_for: dict[
            str, object
        ] = {}  # keys that callers here wait for, and that were not forgotten
        self._shared = self._fetched = self._alone = 0

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached value, or the result of one call of `fetch` for all callers that ask meanwhile, on any machine."""
        asked = self._asked_for.setdefault(key, object())
        try:
            return await self._front.get_or_fetch(key, lambda: self._from_all(key, fetch, asked))
        finally:
            if self._asked_for.get(key) is asked:
                del self._asked_for[key]

    async def _from_all(
        self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]], asked: object
    ) -> tuple[T, float]:
        token = secrets.token_hex(16)
        try:
            found = await self._found_or_locked(key, token)
        except EngineAway:
            self._alone += 1
            return await fetch()
        if found is not None:
            self._shared += 1
            return cast("T", found[0]), min(found[1], _FRONT)
        packed, kept_for = b"", 0.0
        try:
            value, ttl = await fetch()
            self._fetched += 1
            if self._asked_for.get(key) is asked:  # else it was forgotten meanwhile
                packed, kept_for = _encode((self._clock.now() + ttl, value)), max(ttl, 0.0)
        finally:
            lasts = round(kept_for * 1000)
            keys = [self._lock(key), self._value(key)]
            with suppress(EngineAway):
                await self._client.run(self._leave, keys, [token, packed, lasts])
        return value, min(ttl, _FRONT)

    async def _found_or_locked(self, key: str, token: str) -> tuple[Any, float] | None:
        """A stored value and how long it lasts; or None, and then we hold the lock."""
        lock, value = self._lock(key), self._value(key)
        while True:
            # Looked up after trying for the lock: whoever gets it finds what its last holder stored.
            locked, packed = await self._client.send(
                lambda: [("SET", lock, token, "NX", "PX", round(_LOCK * 1000)), ("GET", value)]
            )
            found = self._unpacked(packed)
            if found is not None and locked:
                await self._client.run(self._leave, [lock, value], [token, b"", 0])
            if found is not None or locked:
                return found
            await asyncio.sleep(_LOOK)

    def _unpacked(self, packed: bytes | None) -> tuple[Any, float] | None:
        """An expired value, or one of another version, counts as none."""
        if packed is None:
            return None
        try:
            expires, value = self._decode(packed)
        except DAMAGED:
            return None
        left = expires - self._clock.now()
        return (value, left) if left > 0 else None

    async def forget(self, key: str) -> None:
        """Drop a key, for all workers; other processes may use their own copy for as long as they trust it."""
        await self._front.forget(key)
        self._asked_for.pop(key, None)
        with suppress(EngineAway):
            await self._client.send(lambda: [("DEL", self._value(key), self._lock(key))])

    def _value(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _lock(self, key: str) -> bytes:
        return (self._prefix + "lock:" + key).encode()

    def metrics(self) -> CacheMetrics:
        """Those of the local copy; and what other workers fetched, what this one did, and what it did without Redis."""
        return replace(self._front.metrics(), shared=self._shared, fetched=self._fetched, alone=self._alone)

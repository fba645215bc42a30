"""The cache of many workers: one fetch for all of them, and a small cache of each process in front.

Who finds nothing takes a lock with a random token and a time to live, looks again, fetches, and leaves the answer; the others
wait for it. Only whoever holds the lock leaves an answer and gives it back (compared and deleted in one script). When its
holder dies, the lock runs out. Losing Redis makes this the cache of one process, and never an error; for how long it is left
alone then is for its breaker to say.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from msgspec.msgpack import Decoder, Encoder

from skitter.backends.memory import MemoryCache
from skitter.backends.redis.client import Client
from skitter.engines.damaged import DAMAGED
from skitter.ports import Clock, EngineAway

T = TypeVar("T")
_LOCK = 30.0  # seconds that a fetch may take before somebody else may try
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
        self._asked_for: dict[str, object] = {}  # keys that somebody here waits for, and has not forgotten
        self._shared = self._fetched = self._alone = 0

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """The cached value, or what one call of `fetch` gives to everybody who asks meanwhile, on any machine."""
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
        """A value that somebody has left, and how long it lasts; or None, and then the lock is ours."""
        lock, value = self._lock(key), self._value(key)
        while True:
            # Looked at after the lock was tried for: who gets it finds what its last holder has left.
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
        """What has run out, or what another version has left, is as good as nothing."""
        if packed is None:
            return None
        try:
            expires, value = self._decode(packed)
        except DAMAGED:
            return None
        left = expires - self._clock.now()
        return (value, left) if left > 0 else None

    async def forget(self, key: str) -> None:
        """Drop a key, for everybody; other processes may have it for as long as they trust their own copy."""
        await self._front.forget(key)
        self._asked_for.pop(key, None)
        with suppress(EngineAway):
            await self._client.send(lambda: [("DEL", self._value(key), self._lock(key))])

    def _value(self, key: str) -> bytes:
        return (self._prefix + key).encode()

    def _lock(self, key: str) -> bytes:
        return (self._prefix + "lock:" + key).encode()

    def statistics(self) -> dict[str, float]:
        """Of the copy in this process; besides, what other workers have fetched, what this one has, what it had to alone."""
        shared = {"shared": self._shared, "fetched": self._fetched, "alone": self._alone}
        return self._front.statistics() | shared

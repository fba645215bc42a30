"""What every shard has used of the budget of a group, in Redis: a hash per group, by shard. Its owner writes it."""

import asyncio
from collections.abc import Sequence

import msgspec

from skitter.backends.redis.client import Client
from skitter.ports import Account, EngineAway

_PATIENCE = 1.0  # seconds that a visit waits for an answer
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Account).decode


class RedisAccounts:
    """`skitter.ports.Accounts` of the workers of a cluster."""

    may_be_away = True

    def __init__(self, client: Client, shards: int) -> None:
        self._client = client
        self._shards = shards
        self._prefix = f"{{{client.name}}}:accounts:"

    async def exchange(self, group: str, shard: int, own: Account) -> Sequence[Account] | None:
        """Write the account of a shard; returns those of the others, or None if Redis is away, or has not heard from all of them."""
        key = f"{self._prefix}{group}"
        try:
            async with asyncio.timeout(_PATIENCE):
                _, found = await self._client.send(
                    lambda: [("HSET", key, str(shard), _encode(own)), ("HGETALL", key)]
                )
        except (EngineAway, TimeoutError):
            return None
        pairs = list(found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True))
        if (
            len(pairs) < self._shards
        ):  # not all are open yet; or it has lost some, which their owners tell again
            return None
        return [_decode(value) for name, value in pairs if int(name) != shard]

    async def close(self) -> None:
        """The client is closed where it was opened."""

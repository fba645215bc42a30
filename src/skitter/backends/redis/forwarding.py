"""Forwarded links: one stream per shard in Redis, read from the position that is stored with the links.

A stream absorbs bursts. It keeps its entries until they are trimmed, and only entries below the stored position are.
A worker waits for the messages of all its shards in one blocking read.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.msgpack import Decoder, Encoder

from skitter.backends.redis.client import Client
from skitter.backends.redis.store import tag
from skitter.cluster.ports import Delivery
from skitter.engines.damaged import DAMAGED
from skitter.model import Link

Positions = Mapping[str, str]
"""Under "mail", the id of the last stored entry of a shard's stream."""

SOURCE = "mail"
_TOGETHER = 200  # links per entry, at most
_USUAL = 10  # links per entry, typically, from a batch of pages
_FEW = 4  # entries read per stream, at least
_BEGIN = "0-0"
_TRIM_EVERY = 5.0  # seconds
_DEAD = 10_000  # unreadable entries that are kept

_encode = Encoder().encode
_links = Decoder(list[Link]).decode


class RedisForwarding:
    """Sends links to the shards that own them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Returns when the server has all links; one round trip."""
        entries = [
            ("XADD", stream(self._client.name, shard), "*", "links", _encode(some[at : at + _TOGETHER]))
            for shard, some in links.items()
            for at in range(0, len(some), _TOGETHER)
        ]
        if entries:
            await self._client.send(lambda: entries)


class RedisInbox:
    """Receives the links of the shards that this process owns."""

    def __init__(self, client: Client, wait: float = 1.0) -> None:
        self._client = client
        self._wait = wait
        self._gather = float(client.settings.cluster.commit_interval)
        self._not_before = 0.0  # small messages are collected and read together
        self._read: dict[int, str] = {}  # the last id returned, by shard
        self._trimmed: dict[int, float] = {}

    async def own(self, shard: int, positions: Positions) -> None:
        """Receive a shard's links from its stored position on. Called again, it goes back to that position."""
        self._read[shard] = positions.get(SOURCE, _BEGIN)

    async def disown(self, shard: int) -> None:
        """Another worker owns the shard now."""
        self._read.pop(shard, None)
        self._trimmed.pop(shard, None)

    async def receive(self, limit: int) -> list[Delivery]:
        """About `limit` links of any shard; waits a moment if there are none."""
        if not self._read:
            await asyncio.sleep(self._wait)
            return []
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._not_before - loop.time()))
        read = dict(self._read)
        if not read:  # all were disowned meanwhile
            return []
        streams = [stream(self._client.name, shard) for shard in read]
        each = max(_FEW, limit // len(read) // _USUAL)
        ask = ("XREAD", "COUNT", each, "BLOCK", round(self._wait * 1000), "STREAMS", *streams, *read.values())
        (found,) = await self._client.send(lambda: [ask])
        shards = dict(zip(streams, read, strict=True))
        opened = [await self._opened(shards[name], entries) for name, entries in _by_stream(found) if entries]
        deliveries = []
        for delivery in opened:  # only once all of them can be returned
            shard = delivery.shard
            if self._read.get(shard) == read[shard]:  # else disowned or rewound meanwhile
                self._read[shard] = delivery.positions[SOURCE]
                deliveries.append(delivery)
        if deliveries and all(len(entries) < each for _, entries in _by_stream(found)):
            self._not_before = loop.time() + self._gather
        return deliveries

    async def _opened(self, shard: int, entries: Sequence[Any]) -> Delivery:
        links: list[Link] = []
        for number, fields in entries:
            try:
                links += _links(_field(fields))
            except DAMAGED as problem:
                await self._bury(shard, number, fields, problem)
        return Delivery(shard, links, {SOURCE: entries[-1][0].decode()})

    async def _bury(self, shard: int, number: bytes, fields: Any, problem: Exception) -> None:  # noqa: ANN401
        """Keep an unreadable entry in the dead-letter stream, with the reason."""
        grave = tag(self._client.name, shard) + b"dead"
        told = ("entry", number, "reason", str(problem), "links", _field(fields))
        await self._client.send(lambda: [("XADD", grave, "MAXLEN", "~", _DEAD, "*", *told)])

    async def stored(self, shard: int, positions: Positions, now: float) -> None:
        """Everything up to these positions is stored and may be trimmed."""
        if now < self._trimmed.get(shard, 0.0) + _TRIM_EVERY:
            return
        self._trimmed[shard] = now
        first, second = positions[SOURCE].split("-")
        ask = ("XTRIM", stream(self._client.name, shard), "MINID", f"{first}-{int(second) + 1}")
        await self._client.send(lambda: [ask])


async def unread(client: Client, positions: Mapping[int, Positions]) -> dict[int, int]:
    """Entries not read yet, by shard, given the stored positions."""
    ask = [
        ("XRANGE", stream(client.name, shard), "(" + stored.get(SOURCE, _BEGIN), "+", "COUNT", 10_000)
        for shard, stored in positions.items()
    ]
    answers = await client.send(lambda: ask) if ask else []
    return {shard: len(entries) for shard, entries in zip(positions, answers, strict=True)}


def stream(name: str, shard: int) -> bytes:
    """The key of a shard's stream."""
    return tag(name, shard) + b"mail"


def _by_stream(found: Any) -> list[tuple[bytes, Any]]:  # noqa: ANN401  nothing, a list or a map, by the protocol
    if not found:
        return []
    if isinstance(found, dict):
        return [(name, entries) for name, several in found.items() for entries in _unnested(several)]
    return [(name, entries) for name, entries in found]


def _unnested(several: Any) -> list[Any]:  # noqa: ANN401
    return several if several and several[0] and isinstance(several[0][0], list | tuple) else [several]


def _field(fields: Any) -> bytes:  # noqa: ANN401  a list or a map, by the protocol
    pairs = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    return bytes(pairs.get(b"links", b""))

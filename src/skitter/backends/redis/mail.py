"""Links between shards: a stream per shard in Redis, read on from the position that is stored with the links.

A stream takes what a burst brings and keeps it until it is trimmed, which is done below the stored position only. Waiting
for mail is one blocking read for all shards of a worker.
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
"""Under "mail", the id of the last entry of a shard's stream that is stored."""

SOURCE = "mail"
_TOGETHER = 200  # links in one entry, at most
_USUAL = 10  # links in one entry, as they come from a group of pages
_FEW = 4  # entries of a stream that are read at least
_BEGIN = "0-0"
_TRIM_EVERY = 5.0  # seconds
_DEAD = 10_000  # entries that nobody could read are kept, so many

_encode = Encoder().encode
_links = Decoder(list[Link]).decode


class RedisMail:
    """Sends links to the shards that own them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Returns when the server has all of them; one round trip."""
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
        self._not_before = 0.0  # mail that comes in small pieces is taken in together
        self._read: dict[int, str] = {}  # the last id that was handed out, by shard
        self._trimmed: dict[int, float] = {}

    async def own(self, shard: int, positions: Positions) -> None:
        """Receive a shard's links from its stored position on; called again, from there once more."""
        self._read[shard] = positions.get(SOURCE, _BEGIN)

    async def disown(self, shard: int) -> None:
        """The shard is somebody else's."""
        self._read.pop(shard, None)
        self._trimmed.pop(shard, None)

    async def receive(self, limit: int) -> list[Delivery]:
        """About so many links of any shard; waits a moment when there are none."""
        if not self._read:
            await asyncio.sleep(self._wait)
            return []
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._not_before - loop.time()))
        read = dict(self._read)
        streams = [stream(self._client.name, shard) for shard in read]
        each = max(_FEW, limit // len(read) // _USUAL)
        ask = ("XREAD", "COUNT", each, "BLOCK", round(self._wait * 1000), "STREAMS", *streams, *read.values())
        (found,) = await self._client.send(lambda: [ask])
        shards = dict(zip(streams, read, strict=True))
        opened = [await self._opened(shards[name], entries) for name, entries in _by_stream(found) if entries]
        deliveries = []
        for delivery in opened:  # not before all of them can be handed out
            shard = delivery.shard
            if self._read.get(shard) == read[shard]:  # else given away, or told to begin again, meanwhile
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
        """Set aside what nobody can read, with the reason, and go on."""
        grave = tag(self._client.name, shard) + b"dead"
        told = ("entry", number, "reason", str(problem), "links", _field(fields))
        await self._client.send(lambda: [("XADD", grave, "MAXLEN", "~", _DEAD, "*", *told)])

    async def stored(self, shard: int, positions: Positions, now: float) -> None:
        """Everything up to these positions is never asked for again."""
        if now < self._trimmed.get(shard, 0.0) + _TRIM_EVERY:
            return
        self._trimmed[shard] = now
        first, second = positions[SOURCE].split("-")
        ask = ("XTRIM", stream(self._client.name, shard), "MINID", f"{first}-{int(second) + 1}")
        await self._client.send(lambda: [ask])


async def unread(client: Client, positions: Mapping[int, Positions]) -> dict[int, int]:
    """Entries that wait, by shard, with what each has stored."""
    ask = [
        ("XRANGE", stream(client.name, shard), "(" + stored.get(SOURCE, _BEGIN), "+", "COUNT", 10_000)
        for shard, stored in positions.items()
    ]
    answers = await client.send(lambda: ask) if ask else []
    return {shard: len(entries) for shard, entries in zip(positions, answers, strict=True)}


def stream(name: str, shard: int) -> bytes:
    """The mail of a shard."""
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

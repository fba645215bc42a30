"""A Bloom filter per shard, in front of a store that is slower than memory to say that it does not know a URL.

Most links of a crawl that are not remembered are new, and the database would be asked for each of them in vain. The owner of
a shard is the only one who adds URLs, so it has the bits in memory: asking costs no round trip. When it gives the shard back
it leaves them in Redis, in parts of 128 KiB, under the number of its last write, which stands in the store too. Whoever opens
the shard next looks there. Where it finds nothing (a crash, a Redis that was away or has lost its data) every URL is looked up, as if there were no filter, until it is made again from the store in the background.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from skitter.backends.redis.client import Client
from skitter.backends.redis.store import tag
from skitter.backends.remote.patience import patiently
from skitter.backends.remote.rows import Batch, Found, HostRow, Meta, Opening, PageRow, UrlRow, Wanted
from skitter.backends.remote.store import Store
from skitter.model import Link
from skitter.ports import EngineAway

_PART = 128 * 2**10  # bytes
_LEAST = 262_144  # URLs that there is room for, at least; else for twice those that are known
_AT_ONCE = 1000  # ids added in one step
_TOGETHER = 8  # parts asked for in one round trip
_KEPT = 7 * 86_400  # seconds: who comes later makes it again
_NUMBER = "bloom"  # where the number of a write stands, among the positions in the store
HASHES = 7
BITS_EACH = 10  # bits per URL: with seven hashes 0.8 % of the new URLs are looked up in vain (Bloom 1970)


class Bits:
    """The filter itself, in memory."""

    def __init__(self, capacity: int) -> None:
        parts = max(1, -(-capacity * BITS_EACH // (8 * _PART)))
        self.octets: NDArray[np.uint8] = np.zeros(parts * _PART, np.uint8)
        self._size = np.uint64(8 * len(self.octets))

    @classmethod
    def of(cls, octets: bytes) -> "Bits":
        """A filter that was left behind."""
        bits = cls(0)
        bits.octets = np.frombuffer(octets, np.uint8).copy()
        bits._size = np.uint64(8 * len(octets))
        return bits

    def places(self, ids: Sequence[bytes]) -> NDArray[np.uint64]:
        """The bits of each URL, a row each. An id is a hash already: two halves of it make all the others (Kirsch and
        Mitzenmacher 2006)."""
        halves = np.frombuffer(b"".join(ids), ">u8").astype(np.uint64).reshape(-1, 2)
        steps = np.arange(HASHES, dtype=np.uint64)
        places: NDArray[np.uint64] = (halves[:, :1] + steps * (halves[:, 1:] | np.uint64(1))) % self._size
        return places

    def has(self, ids: Sequence[bytes]) -> NDArray[np.bool_]:
        """Whether each may have been added; False: it was not."""
        places = self.places(ids)
        octets = self.octets[places >> np.uint64(3)]
        bits = (octets >> (places & np.uint64(7)).astype(np.uint8)) & 1
        found: NDArray[np.bool_] = bits.all(axis=1)
        return found

    def add(self, ids: Sequence[bytes]) -> None:
        """Add URLs."""
        places = self.places(ids).ravel()
        masks = np.left_shift(np.uint8(1), (places & np.uint64(7)).astype(np.uint8))
        np.bitwise_or.at(self.octets, places >> np.uint64(3), masks)


class BloomStore:
    """A `Store` that is asked only for URLs that it may know."""

    def __init__(self, store: Store, client: Client, shard: int, epoch: int) -> None:
        self._store = store
        self._client = client
        self._prefix = tag(client.name, shard) + b"bloom:"
        self._epoch = epoch
        self._bits = Bits(_LEAST)
        self._whole = False  # it has every URL of the store
        self._filling: asyncio.Task[None] | None = None
        self._writes = 0
        self._spared = 0

    # ------------------------------------------------------------------------------------------------ the filter

    async def open(self) -> Opening:
        """Take the filter over, or begin to make it."""
        opening = await self._store.open()
        meta = opening.meta
        known = meta.seq + sum(meta.counts.refused.values())
        self._bits = Bits(max(_LEAST, 2 * known))
        self._whole = not known or await self._took_over(meta.mail.get(_NUMBER, ""))
        if not self._whole:
            self._filling = asyncio.create_task(patiently(self._fill))
        return opening

    async def _took_over(self, number: str) -> bool:
        """Whether the last owner has left the filter that goes with its last write."""
        if not number:
            return False
        try:
            (size,) = await self._client.send(lambda: [("GET", self._key(number, "parts"))])
            keys = [self._key(number, part) for part in range(int(size or 0))]
            found: list[bytes | None] = []
            for at in range(0, len(keys), _TOGETHER):
                some = keys[at : at + _TOGETHER]
                found += await self._client.send(lambda some=some: [("GET", key) for key in some])  # type: ignore[misc]
            if keys:
                await self._client.send(lambda: [("UNLINK", *keys, self._key(number, "parts"))])
        except EngineAway:
            return False
        return self._use(found)

    def _use(self, found: list[bytes | None]) -> bool:
        """Take these bits, unless a part is missing. A filter that is too small by now is made again."""
        wanted = len(self._bits.octets) // _PART
        if not found or len(found) * 2 < wanted or any(part is None or len(part) != _PART for part in found):
            return False
        self._bits = Bits.of(b"".join(part for part in found if part))
        return True

    async def _fill(self) -> None:
        ids: list[bytes] = []
        async for row in self._store.urls():
            ids.append(row.id)
            if len(ids) == _AT_ONCE:
                self._bits.add(ids)
                ids = []
        if ids:
            self._bits.add(ids)
        self._whole = True

    async def close(self) -> None:
        """Leave the filter to the next owner, if it is worth having."""
        if self._filling is not None:
            self._filling.cancel()
        if self._whole and self._writes:
            with suppress(EngineAway):  # it will be made again
                await self._leave()
        await self._store.close()

    async def _leave(self) -> None:
        """Under the number of our last write, so that nobody else's is touched; how many parts there are comes last."""
        octets, number = self._bits.octets.tobytes(), self._number()
        parts = len(octets) // _PART
        for part in range(parts):
            piece = octets[part * _PART : (part + 1) * _PART]
            ask = ("SET", self._key(number, part), piece, "EX", _KEPT)
            await self._client.send(lambda ask=ask: [ask])  # type: ignore[misc]
        await self._client.send(lambda: [("SET", self._key(number, "parts"), parts, "EX", _KEPT)])

    def _key(self, number: str, part: int | str) -> bytes:
        return self._prefix + f"{number}:{part}".encode()

    def _number(self) -> str:
        return f"{self._epoch}-{self._writes}"

    # ------------------------------------------------------------------------------------------------ the store

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, without those URLs that cannot be there."""
        if self._whole and wanted.urls:
            may_be = self._bits.has(wanted.urls)
            urls = [id16 for id16, known in zip(wanted.urls, may_be, strict=True) if known]
            self._spared += len(wanted.urls) - len(urls)
            wanted = replace(wanted, urls=urls)
        return await self._store.load(wanted) if wanted else Found()

    async def write(self, batch: Batch) -> None:
        """Into the filter first: a URL that the store has is never taken for new."""
        new = [id16 for id16, row in batch.urls.items() if row is not None]
        if new:
            self._bits.add(new)
        self._writes += 1
        batch.meta.mail[_NUMBER] = self._number()
        await self._store.write(batch)

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        return await self._store.meta()

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links for other shards behind a number."""
        return await self._store.outbox(limit, after)

    def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        return self._store.urls()

    def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        return self._store.pages()

    def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        return self._store.hosts()

    def statistics(self) -> dict[str, float]:
        """Of the store; and how many URLs it was not asked for, and whether the filter is whole."""
        return self._store.statistics() | {"spared": self._spared, "bloom_whole": float(self._whole)}

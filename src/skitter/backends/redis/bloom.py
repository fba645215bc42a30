"""A Bloom filter per shard, in front of a store that is slower than memory to say that it does not know a URL.

Most links of a crawl that are not remembered are new, and the database would be asked for each of them in vain. The owner of
a shard is the only one who adds URLs, so it has the bits in memory: asking costs no round trip. When it gives the shard back
it leaves them in Redis, in parts of at most 128 KiB, under the number of its last write, which stands in the store too. Whoever opens
the shard next looks there. Where it finds nothing (a crash, a Redis that was away or has lost its data) every URL is looked
up, as if there were no filter, until it is made again from the store in the background. So is one that has become too small.

A filter may have bits too many, which costs a look-up. It must never have too few, so only one that is whole is trusted.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from skitter.backends.redis.client import Client
from skitter.backends.redis.store import tag
from skitter.engines.retry import patiently
from skitter.frontier.rows import Batch, Found, HostRow, Meta, Opening, PageRow, UrlRow, Wanted
from skitter.frontier.store import Store
from skitter.ports import EngineAway

_PART = 128 * 2**10  # bytes
# URLs that there is room for, at least; else for twice those that are known. 32 KiB: a cluster may have thousands of shards.
_LEAST = 26_214
_GRAIN = 4096  # bytes; a filter is a whole number of them
_TOGETHER = 8  # parts asked for in one round trip
_KEPT = 7 * 86_400  # seconds: who comes later makes it again
_NUMBER = "bloom"  # where the number of a write stands, among the positions in the store
HASHES = 7
BITS_EACH = 10  # bits per URL: with seven hashes 0.8 % of the new URLs are looked up in vain (Bloom 1970)


class Bits:
    """The filter itself, in memory."""

    def __init__(self, capacity: int) -> None:
        grains = max(1, -(-capacity * BITS_EACH // (8 * _GRAIN)))
        self.octets: NDArray[np.uint8] = np.zeros(grains * _GRAIN, np.uint8)
        self._size = np.uint64(8 * len(self.octets))

    @property
    def capacity(self) -> int:
        """URLs that there is room for."""
        return 8 * len(self.octets) // BITS_EACH

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


class Known(Store, Protocol):
    """A store that can tell all that it knows by name alone."""

    def ids(self) -> AsyncIterator[Sequence[bytes]]:
        """The ids of every URL, a bounded number at a time."""
        ...


class BloomStore:
    """A `Store` that is asked only for URLs that it may know."""

    def __init__(self, store: Known, client: Client, shard: int, epoch: int) -> None:
        self._store = store
        self._client = client
        self._prefix = tag(client.name, shard) + b"bloom:"
        # Epochs begin anew with a store that is made again, or go back with one that is restored.
        self._tenure = f"{epoch}-{secrets.token_hex(8)}"
        self._bits = Bits(_LEAST)
        self._whole = False  # it has every URL of the store
        self._next: Bits | None = None  # the one that is being made
        self._filling: asyncio.Task[None] | None = None
        self._under_way: dict[
            int, list[bytes]
        ] = {}  # on their way into the store, by the number of the write
        self._writes = 0
        self._spared = 0

    # ------------------------------------------------------------------------------------------------ the filter

    async def open(self) -> Opening:
        """Take the filter over, or begin to make it; again, if the shard is read again."""
        await self._stop_filling()
        opening = await self._store.open()
        number, known = opening.meta.positions.pop(_NUMBER, ""), _known(opening.meta)
        self._bits = Bits(max(_LEAST, 2 * known))
        self._whole = not known or await self._took_over(number)
        if not self._whole:
            self._make(2 * known)
        return opening

    async def _took_over(self, number: str) -> bool:
        """Whether the last owner has left the filter that goes with its last write."""
        if not number:
            return False
        try:
            (said,) = await self._client.send(lambda: [("GET", self._key(number, "size"))])
            size = int(said or 0)
            keys = [self._key(number, part) for part in range(-(-size // _PART))]
            found: list[bytes | None] = []
            for at in range(0, len(keys), _TOGETHER):
                some = keys[at : at + _TOGETHER]
                found += await self._client.send(lambda some=some: [("GET", key) for key in some])  # type: ignore[misc]
            if keys:
                await self._client.send(lambda: [("UNLINK", *keys, self._key(number, "size"))])
        except EngineAway:
            return False
        return self._use(b"".join(part or b"" for part in found), size)

    def _use(self, octets: bytes, size: int) -> bool:
        """Take these bits, unless a part is missing. A filter that is too small by now is made again."""
        if not octets or len(octets) != size or size * 2 < len(self._bits.octets):
            return False
        self._bits = Bits.of(octets)
        return True

    def _make(self, capacity: int) -> None:
        """Begin to make a filter from the store; what is written from now on is put into it besides."""
        bits = self._next = Bits(max(_LEAST, capacity))
        for ids in self._under_way.values():  # they may be committed behind the place that is being read
            bits.add(ids)
        self._filling = asyncio.create_task(patiently(lambda: self._fill(bits)))

    async def _fill(self, bits: Bits) -> None:
        async for ids in self._store.ids():
            bits.add(ids)
        self._bits, self._next, self._whole = bits, None, True

    async def close(self) -> None:
        """Leave the filter to the next owner, if it is worth having."""
        await self._stop_filling()
        if self._whole and self._writes:
            with suppress(EngineAway):  # it will be made again
                await self._leave()
        await self._store.close()

    async def _stop_filling(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait([self._filling])
            if not self._filling.cancelled():
                self._filling.result()  # what went wrong beside us is heard now

    async def _leave(self) -> None:
        """Under the number of our last write, so that nobody else's is touched; how large it is comes last."""
        octets, number = self._bits.octets.tobytes(), self._number()
        for part in range(-(-len(octets) // _PART)):
            piece = octets[part * _PART : (part + 1) * _PART]
            ask = ("SET", self._key(number, part), piece, "EX", _KEPT)
            await self._client.send(lambda ask=ask: [ask])  # type: ignore[misc]
        await self._client.send(lambda: [("SET", self._key(number, "size"), len(octets), "EX", _KEPT)])

    def _key(self, number: str, part: int | str) -> bytes:
        return self._prefix + f"{number}:{part}".encode()

    def _number(self) -> str:
        return f"{self._tenure}-{self._writes}"

    # ------------------------------------------------------------------------------------------------ the store

    @property
    def hash_key(self) -> Callable[[bytes], bytes]:
        """What the store knows a URL by."""
        return self._store.hash_key

    def domain_prefix(self, domain: str) -> bytes:
        """The same."""
        return self._store.domain_prefix(domain)

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
            for bits in (self._bits, self._next):
                if bits is not None:
                    bits.add(new)
        self._writes += 1
        number = self._writes
        meta = replace(batch.meta, positions={**batch.meta.positions, _NUMBER: self._number()})
        self._under_way[number] = new
        try:
            await self._store.write(replace(batch, meta=meta))
        finally:
            del self._under_way[number]
        if self._whole and self._next is None and (known := _known(meta)) > self._bits.capacity:
            self._make(2 * known)

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        meta = await self._store.meta()
        meta.positions.pop(_NUMBER, None)
        return meta

    async def sync(self) -> None:
        """As safe as the store makes it."""
        await self._store.sync()

    def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        return self._store.urls()

    def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        return self._store.pages()

    def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        return self._store.hosts()

    def statistics(self) -> dict[str, dict[str, float]]:
        """Of the store; and how many URLs it was not asked for, and whether the filter is whole."""
        own = {"spared": self._spared, "bloom_whole": float(self._whole)}
        return {"store": self._store.statistics()["store"] | own}


def _known(meta: Meta) -> int:
    """URLs that a store has, at most about."""
    return meta.seq + sum(meta.counts.refused.values())

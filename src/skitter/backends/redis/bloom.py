"""A Bloom filter per shard, in front of a store that is slower than memory to say that it does not know a URL.

Most links that are not in memory are new, and the database would be asked for each of them in vain. Only the owner of
a shard adds URLs, so it keeps the bits in memory: a look-up costs no round trip. When it gives the shard back it
leaves them in Redis, in parts of at most 128 KiB, under the number of its last write, which is also in the store. The
next owner looks there. If it finds nothing (a crash, or a Redis that was away or lost its data), every URL is looked
up in the store until the filter is rebuilt from it in the background. So is a filter that has become too small.

A filter may have too many bits set, which costs a look-up. It must never have too few, so only a complete one is
used.
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
from skitter.runtime.metrics import StoreMetrics
from skitter.schedule.learning.learned import Learned

_PART = 128 * 2**10  # bytes
# room for at least this many URLs, else for twice the known ones. 32 KiB: a cluster may have thousands of
# shards.
_LEAST = 26_214
_GRAIN = 4096  # bytes; a filter is a multiple of them
_TOGETHER = 8  # parts read in one round trip
_KEPT = 7 * 86_400  # seconds: a later owner rebuilds it
_NUMBER = "bloom"  # key of the write's number, among the positions in the store
HASHES = 7
BITS_EACH = 10  # bits per URL: with seven hashes, 0.8 % of the new URLs are looked up in vain (Bloom 1970)


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
        """A filter left by another owner."""
        bits = cls(0)
        bits.octets = np.frombuffer(octets, np.uint8).copy()
        bits._size = np.uint64(8 * len(octets))
        return bits

    def places(self, ids: Sequence[bytes]) -> NDArray[np.uint64]:
        """The bits of each URL, one row each.

        An id is already a hash: its two halves generate all the others (Kirsch and Mitzenmacher 2006).
        """
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
    """A store that can list the ids of all its URLs."""

    def ids(self) -> AsyncIterator[Sequence[bytes]]:
        """The ids of every URL, a bounded number at a time."""
        ...


class BloomStore:
    """A `Store` that is asked only for URLs that it may know."""

    def __init__(self, store: Known, client: Client, shard: int, epoch: int) -> None:
        self._store = store
        self._client = client
        self._prefix = tag(client.name, shard) + b"bloom:"
        # Epochs start over in a store that is recreated, or go back in one that is restored.
        self._tenure = f"{epoch}-{secrets.token_hex(8)}"
        self._bits = Bits(_LEAST)
        self._whole = False  # it has every URL of the store
        self._next: Bits | None = None  # the one being rebuilt
        self._filling: asyncio.Task[None] | None = None
        self._under_way: dict[
            int, list[bytes]
        ] = {}  # on their way into the store, by the number of the write
        self._writes = 0
        self._spared = 0

    # ------------------------------------------------------------------------------------------------ the filter

    async def open(self) -> Opening:
        """Take over the filter, or start to rebuild it; also if the shard is read again."""
        await self._stop_filling()
        opening = await self._store.open()
        number, known = opening.meta.positions.pop(_NUMBER, ""), _known(opening.meta)
        self._bits = Bits(max(_LEAST, 2 * known))
        self._whole = not known or await self._took_over(number)
        if not self._whole:
            self._make(2 * known)
        return opening

    async def _took_over(self, number: str) -> bool:
        """Whether the last owner left the filter that matches its last write."""
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
        """Use these bits, unless a part is missing. A filter that is too small by now is rebuilt."""
        if not octets or len(octets) != size or size * 2 < len(self._bits.octets):
            return False
        self._bits = Bits.of(octets)
        return True

    def _make(self, capacity: int) -> None:
        """Start to rebuild the filter from the store; writes from now on are added as well."""
        bits = self._next = Bits(max(_LEAST, capacity))
        for ids in self._under_way.values():  # they may be committed behind the place being read
            bits.add(ids)
        self._filling = asyncio.create_task(patiently(lambda: self._fill(bits)))

    async def _fill(self, bits: Bits) -> None:
        async for ids in self._store.ids():
            bits.add(ids)
        self._bits, self._next, self._whole = bits, None, True

    async def close(self) -> None:
        """Leave the filter to the next owner, if it is usable."""
        await self._stop_filling()
        if self._whole and self._writes:
            with suppress(EngineAway):  # it will be rebuilt
                await self._leave()
        await self._store.close()

    async def _stop_filling(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait([self._filling])
            if not self._filling.cancelled():
                self._filling.result()  # errors of the background task are raised now

    async def _leave(self) -> None:
        """Under the number of our last write, so that no other filter is touched; its size is written last."""
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
    def hash_key(self) -> Callable[[bytes, int], bytes]:
        """The same as the store's."""
        return self._store.hash_key

    @property
    def secret(self) -> int:
        """The same as the store's."""
        return self._store.secret

    def domain_prefix(self, domain: str) -> bytes:
        """The same."""
        return self._store.domain_prefix(domain)

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, without URLs that cannot exist."""
        if self._whole and wanted.urls:
            may_be = self._bits.has(wanted.urls)
            urls = [id16 for id16, known in zip(wanted.urls, may_be, strict=True) if known]
            self._spared += len(wanted.urls) - len(urls)
            wanted = replace(wanted, urls=urls)
        return await self._store.load(wanted) if wanted else Found()

    async def write(self, batch: Batch) -> None:
        """Into the filter first: a stored URL is never taken for new."""
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

    def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        return self._store.learned()

    def metrics(self) -> StoreMetrics:
        """Those of the store, the look-ups saved, and whether the filter is complete."""
        return replace(self._store.metrics(), spared=self._spared, bloom_whole=int(self._whole))


def _known(meta: Meta) -> int:
    """Roughly the most URLs that a store has."""
    return meta.seq + sum(meta.counts.refused.values())

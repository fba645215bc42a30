"""Which stored page does a new one repeat? By digest, and by SimHash up to three bits apart.

Two 64-bit SimHashes that differ in three bits at most agree in one of four blocks of 16 bits (pigeonhole), so each page
stands under its four blocks, and four short ranges are read instead of all pages (Manku, Jain and Das Sarma, 2007).
"""

from itertools import islice

from skitter.backends.rocksdb.layout import after
from skitter.backends.rocksdb.nearby import Nearby
from skitter.backends.rocksdb.records import decode_stored
from skitter.backends.rocksdb.store import Batch, Store
from skitter.frontier import rules
from skitter.frontier.sortable import time8, time_of
from skitter.model import Page
from skitter.ports import Twin

BLOCKS = 4
FURTHEST = BLOCKS - 1
# A site can be made so that all its pages share a block. What is read of one is bounded; the oldest values of the
# SimHash order then hide the rest, and a near-duplicate may go unnoticed.
_READ_AT_MOST = 2_000


def _by_digest(dom8: bytes, digest: str) -> bytes:
    return dom8 + b"d" + digest.encode()


def _by_block(dom8: bytes, block: int, simhash: bytes) -> bytes:
    """The common beginning of all SimHashes of a domain that agree in this block. Block 0 are the last 16 bits."""
    return dom8 + b"0123"[block : block + 1] + simhash[6 - 2 * block : 8 - 2 * block]


def index(batch: Batch, nearby: Nearby, dom8: bytes, id16: bytes, page: Page) -> None:
    """Later pages are compared with this one, unless an older one stands for it."""
    by_digest, by_simhash = rules.indexed(page)
    value = id16 + time8(page.fetched_at)
    if by_digest:
        key = _by_digest(dom8, page.digest)
        if batch.get("twins", key) is None:
            batch.put("twins", key, value)
    if by_simhash and page.simhash is not None:
        whole = page.simhash.to_bytes(8, "big")
        keys = [_by_block(dom8, block, whole) + whole for block in range(BLOCKS)]
        if batch.get("twins", keys[0]) is None:
            batch.changes["twins"].update(dict.fromkeys(keys, value))
            nearby.add(dom8, page.simhash)


def unindex(batch: Batch, nearby: Nearby, dom8: bytes, id16: bytes, page: Page) -> None:
    """Later pages are no longer compared with this one."""
    nearby.forget(dom8)
    keys = [_by_digest(dom8, page.digest)]
    if page.simhash is not None:
        whole = page.simhash.to_bytes(8, "big")
        keys += [_by_block(dom8, block, whole) + whole for block in range(BLOCKS)]
    for key in keys:
        value = batch.get("twins", key)
        if value is not None and value[:16] == id16:
            batch.delete("twins", key)


def find(
    store: Store, nearby: Nearby | None, dom8: bytes, digest: str, simhash: int | None, distance: int
) -> Twin | None:
    """The page with the same digest, else the nearest, else none. The owner of the store has SimHashes in memory."""
    found = store.get("twins", _by_digest(dom8, digest)) if digest else None
    if found is None and simhash is not None:
        held = None if nearby is None else nearby.of(dom8, dom8 + b"0")
        reach = min(distance, FURTHEST)
        if held is None:
            found = _nearest(store, dom8, simhash, reach)
        elif similar := held.nearest(simhash, reach):
            found = _oldest(store, dom8, similar)
    packed = store.get("pages", found[:16]) if found is not None else None
    if packed is None:
        return None
    page = decode_stored(packed).page
    return Twin(page.url, page.fetched_at, page.digest, page.simhash, page.archive)


def _oldest(store: Store, dom8: bytes, similar: list[int]) -> bytes | None:
    found = []
    for simhash in similar:
        whole = simhash.to_bytes(8, "big")
        value = store.get("twins", _by_block(dom8, 0, whole) + whole)
        if value is not None:
            found.append((time_of(value, 16), simhash, value))
    return min(found)[2] if found else None


def _nearest(store: Store, dom8: bytes, simhash: int, distance: int) -> bytes | None:
    best: tuple[int, float, int, bytes] | None = None
    whole = simhash.to_bytes(8, "big")
    for block in range(BLOCKS):
        prefix = _by_block(dom8, block, whole)
        for key, value in islice(store.scan("twins", prefix, after(prefix)), _READ_AT_MOST):
            other = int.from_bytes(key[-8:], "big")
            apart = (other ^ simhash).bit_count()
            if apart <= distance:
                candidate = (apart, time_of(value, 16), other, value)
                best = candidate if best is None else min(best, candidate)
    return None if best is None else best[3]

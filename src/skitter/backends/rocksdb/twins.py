"""Which stored page does a new one repeat? By digest, and by SimHash up to three bits apart.

Two 64-bit SimHashes that differ in three bits at most agree in one of four blocks of 16 bits (pigeonhole), so each page
stands under its four blocks, and four short ranges are read instead of all pages (Manku, Jain and Das Sarma, 2007).
"""

from itertools import islice

from skitter.backends import rules
from skitter.backends.rocksdb.layout import after, time8, time_of
from skitter.backends.rocksdb.records import decode_stored
from skitter.backends.rocksdb.store import Batch, Store
from skitter.model import Page
from skitter.ports import Twin

BLOCKS = 4
FURTHEST = BLOCKS - 1
# A site can be made so that all its pages share a block. What is read of one is bounded; the oldest values of the
# SimHash order then hide the rest, and a near-duplicate may go unnoticed.
_READ_AT_MOST = 2_000


def _by_digest(dom8: bytes, digest: str) -> bytes:
    return dom8 + b"d" + digest.encode()


def _by_block(dom8: bytes, block: int, simhash: int) -> bytes:
    """The common beginning of all SimHashes of a domain that agree in this block."""
    return dom8 + b"0123"[block : block + 1] + (simhash >> (16 * block) & 0xFFFF).to_bytes(2, "big")


def index(batch: Batch, dom8: bytes, id16: bytes, page: Page) -> None:
    """Later pages are compared with this one, unless an older one stands for it."""
    by_digest, by_simhash = rules.indexed(page)
    value = id16 + time8(page.fetched_at)
    if by_digest and batch.get("twins", _by_digest(dom8, page.digest)) is None:
        batch.put("twins", _by_digest(dom8, page.digest), value)
    if by_simhash and page.simhash is not None:
        whole = page.simhash.to_bytes(8, "big")
        if batch.get("twins", _by_block(dom8, 0, page.simhash) + whole) is None:
            for block in range(BLOCKS):
                batch.put("twins", _by_block(dom8, block, page.simhash) + whole, value)


def unindex(batch: Batch, dom8: bytes, id16: bytes, page: Page) -> None:
    """Later pages are no longer compared with this one."""
    keys = [_by_digest(dom8, page.digest)]
    if page.simhash is not None:
        whole = page.simhash.to_bytes(8, "big")
        keys += [_by_block(dom8, block, page.simhash) + whole for block in range(BLOCKS)]
    for key in keys:
        value = batch.get("twins", key)
        if value is not None and value[:16] == id16:
            batch.delete("twins", key)


def find(store: Store, dom8: bytes, digest: str, simhash: int | None, distance: int) -> Twin | None:
    """The page with the same digest, else the nearest, else none."""
    found = store.get("twins", _by_digest(dom8, digest)) if digest else None
    if found is None and simhash is not None:
        found = _nearest(store, dom8, simhash, min(distance, FURTHEST))
    packed = store.get("pages", found[:16]) if found is not None else None
    if packed is None:
        return None
    page = decode_stored(packed).page
    return Twin(page.url, page.fetched_at, page.digest, page.simhash, page.archive)


def _nearest(store: Store, dom8: bytes, simhash: int, distance: int) -> bytes | None:
    best: tuple[int, float, int, bytes] | None = None
    for block in range(BLOCKS):
        prefix = _by_block(dom8, block, simhash)
        for key, value in islice(store.scan("twins", prefix, after(prefix)), _READ_AT_MOST):
            other = int.from_bytes(key[-8:], "big")
            apart = (other ^ simhash).bit_count()
            if apart <= distance:
                candidate = (apart, time_of(value, 16), other, value)
                best = candidate if best is None else min(best, candidate)
    return None if best is None else best[3]

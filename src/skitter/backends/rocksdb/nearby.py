"""The SimHashes of the domains that are crawled now, in memory.

The index on disk answers for any domain and any number of pages, but it takes four seeks for every page, 60 µs. Most
domains have few pages, and all their SimHashes can be compared with one in a few: 4 µs for 3,000 of them.
"""

from itertools import islice
from typing import TYPE_CHECKING

from skitter.backends.rocksdb.layout import after
from skitter.backends.rocksdb.store import Store

if TYPE_CHECKING:
    from skitter.dedup.simhash_set import Held

_PER_DOMAIN = 16_384  # SimHashes that are held for one domain; of more, the index on disk is asked
_IN_ALL = 1_000_000  # … for all together: 8 MB. Then everything is forgotten and read again as it is needed


class Nearby:
    """SimHashes by domain."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._domains: dict[bytes, Held | None] = {}  # None: there are too many
        self._total = 0

    def of(self, dom8: bytes, prefix: bytes) -> "Held | None":
        """The SimHashes of a domain, read once from its part of the index; None when there are too many to hold."""
        try:
            return self._domains[dom8]
        except KeyError:
            keys = (key for key, _ in self._store.scan("twins", prefix, after(prefix)))
            found = [int.from_bytes(key[-8:], "big") for key in islice(keys, _PER_DOMAIN)]
            return self._hold(dom8, found)

    def _hold(self, dom8: bytes, found: list[int]) -> "Held | None":
        from skitter.dedup.simhash_set import Held  # noqa: PLC0415  numpy, which not every crawl needs

        self._total += len(found) + 8
        if self._total > _IN_ALL:
            self._domains.clear()
            self._total = len(found)
        held = Held(found) if len(found) < _PER_DOMAIN else None
        self._domains[dom8] = held
        return held

    def add(self, dom8: bytes, simhash: int) -> None:
        """A page is in the index now."""
        held = self._domains.get(dom8)
        if held is None:
            return
        if held.size + 1 >= _PER_DOMAIN:
            self._domains[dom8] = None
        else:
            held.add(simhash)
            self._total += 1

    def forget(self, dom8: bytes) -> None:
        """A page was taken out of the index."""
        self._domains.pop(dom8, None)

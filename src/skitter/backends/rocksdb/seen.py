"""What stands before the exact look-up of a URL: what was offered lately, and a Bloom filter of everything.

Both only spare reads; the truth is in the family `urls`. The filter may have bits too many (after a crash, for links that
were never committed), never too few. It is saved when a frontier is closed; the note that says so is deleted in the first
commit after it was read. So after a crash there is no note: the filter is built again, a slice with every verb, and
until then every answer is "perhaps" and the store is asked.
"""

import math
from functools import lru_cache, partial
from pathlib import Path

from msgspec import Struct
from msgspec.msgpack import decode
from rbloom import Bloom

from skitter.backends.rocksdb.bounded import Bounded
from skitter.backends.rocksdb.records import encode
from skitter.backends.rocksdb.store import Batch, Store

Rank = tuple[int, float]  # level, -score: smaller is sooner
NEVER: Rank = (-1, 0.0)  # nothing would move this one forward
ALWAYS: Rank = (255, 0.0)  # whoever wants this one changes something

FALSE_POSITIVES = (
    0.01  # 9.6 bits per URL, 7 hashes; a false alarm costs one read, more hashes cost every link
)
_RECENT = 50_000  # links: some 8 MB
_SLICE = 2_000  # keys per verb while the filter is rebuilt: under 2 ms
_KEY = b"seen"


@lru_cache(maxsize=4096)  # few are in use at a time, and many links share one
def rank(level: int, score: float) -> Rank:
    """Where a link stands, for comparison."""
    return int(level), -score


# An id is two fingerprints already: hashing it once more would gain nothing.
_bits = partial(int.from_bytes, byteorder="big", signed=True)


class SavedFilter(Struct, array_like=True):
    """What is noted of a filter that was saved."""

    file: str
    capacity: int
    items: int


class Filter(Struct):
    """One of the filters; when it is full, one of twice the size is added."""

    bloom: Bloom
    capacity: int
    items: int = 0


class Seen:
    """The seen test before the seen test."""

    def __init__(self, store: Store, batch: Batch, expected: int) -> None:
        self._store = store
        self.recent: Bounded[bytes, Rank] = Bounded(_RECENT)
        self._cursor = b""  # how far the filter is rebuilt
        self._filters, self.complete = self._load(batch, expected)
        self._last = self._filters[-1]
        self._asked = self._spared = 0

    def _load(self, batch: Batch, expected: int) -> tuple[list[Filter], bool]:
        note = self._store.get("default", _KEY)
        if note is None:
            nothing_yet = next(self._store.keys("urls", b"", b"\xff" * 17), None) is None
            return [_new(expected)], nothing_yet
        batch.delete("default", _KEY)
        saved = decode(note, type=list[SavedFilter])
        try:
            filters = [
                Filter(Bloom.load(str(self._store.path / one.file), _bits), one.capacity, one.items)
                for one in saved
            ]
        except (OSError, ValueError):  # gone or cut short: it is only a shortcut, and can be made again
            return [_new(expected)], False
        return filters, True

    def perhaps(self, id16: bytes) -> bool:
        """False when this URL was certainly never offered."""
        if not self.complete:
            return True
        self._asked += 1
        for one in self._filters:
            if id16 in one.bloom:
                return True
        self._spared += 1
        return False

    def add(self, id16: bytes) -> None:
        """This URL has a record from now on."""
        last = self._last
        last.bloom.add(id16)
        last.items += 1
        if last.items >= last.capacity:
            self._last = _new(2 * last.capacity)
            self._filters.append(self._last)

    def rebuild(self) -> None:
        """Read the next slice of the URLs into the filter, if it is not whole."""
        if self.complete:
            return
        for count, id16 in enumerate(self._store.keys("urls", self._cursor, b"\xff" * 17), 1):
            self.add(id16)
            if count == _SLICE:
                self._cursor = id16 + b"\x00"
                return
        self.complete = True

    def save(self, batch: Batch) -> None:
        """Keep the filter for whoever opens the store next. To be called with the last commit."""
        if not self.complete:
            return
        notes = []
        for number, one in enumerate(self._filters):
            name = f"seen-{number}.bloom"
            try:
                one.bloom.save(str(self._store.path / name))
            except OSError:  # the disk is full: it can be made again
                return
            notes.append(SavedFilter(name, one.capacity, one.items))
        batch.put("default", _KEY, encode(notes))

    def statistics(self) -> dict[str, dict[str, float]]:
        """The filter and the memory before it."""
        bits = sum(one.bloom.size_in_bits for one in self._filters)
        wrong = [_false_positives(one) for one in self._filters]
        numbers = {
            "capacity": sum(one.capacity for one in self._filters),
            "items": sum(one.items for one in self._filters),
            "bits": bits,
            "hashes": _hashes(self._filters[0]),
            "fill": sum(_fill(one) * one.bloom.size_in_bits for one in self._filters) / bits,
            "false_positive_rate": 1 - math.prod(1 - rate for rate in wrong),
            "asked": self._asked,
            "spared": self._spared,
            "complete": float(self.complete),
        }
        return {"seen": numbers, "recent": {"entries": len(self.recent), "capacity": _RECENT}}


def _new(capacity: int) -> Filter:
    return Filter(Bloom(capacity, FALSE_POSITIVES, hash_func=_bits), capacity)


def _hashes(one: Filter) -> int:
    """The best number for bits per item is their ratio times ln 2; rbloom uses it, rounded."""
    return round(one.bloom.size_in_bits / one.capacity * math.log(2))


def _fill(one: Filter) -> float:
    """The share of bits that are set, as expected of this many items."""
    return -math.expm1(-_hashes(one) * one.items / one.bloom.size_in_bits)


def _false_positives(one: Filter) -> float:
    return float(_fill(one) ** _hashes(one))


def remove_saved(path: Path) -> None:
    """Saved filters are of no use once they were read."""
    for file in path.glob("seen-*.bloom"):
        file.unlink(missing_ok=True)

"""Every URL ever offered, in eight bytes each, in memory: a fingerprint and how urgently it is wanted.

256 tables with open addressing, chosen by the last byte of a 64-bit fingerprint. A slot holds the first 48 bits of it and a
16-bit rank, so two URLs are mistaken for one when 56 bits agree: 0.0007 expected cases among ten million URLs. Where a
fingerprint belongs grows with the fingerprint, so a table is nearly sorted and is made of sorted fingerprints in a few
numpy operations; each table grows by itself, so there is no moment in which everything is held twice.

One look-up in plain Python costs 0.5 to 0.8 µs, as part of a look-up of many with numpy it would be 0.2 to 0.4. Links are
looked up one by one all the same: what is new in a group must be known to the links behind it.
"""

import mmap
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

ABSENT = -1
PARTS = 256
FINGERPRINT_BITS = 56
_FULL = 0.75  # of the slots: linear probing looks at 8.5 slots for what is new, 2.5 for what is known
_GROWTH = 1.25  # for the sake of memory; small tables double, for the sake of time
_SMALL = 4096  # fingerprints
_SMALLEST = 32  # slots
_SLACK = 32  # slots behind the last one at which a fingerprint may belong, for those that are pushed on
_PART = np.uint64(PARTS - 1)
_RANK_BITS = np.uint64(16)
_HALF = np.uint64(32)


class Table:
    """Fingerprints and ranks."""

    def __init__(self) -> None:
        self._slots: list[Words] = []
        self._views: list[memoryview[int]] = []  # of the same: an item of these is a plain number at once
        self._homes: list[int] = []  # slots at which a fingerprint may belong
        self._room: list[int] = []  # how many more go in before it grows
        nothing = np.empty(0, dtype=np.uint64)
        for _ in range(PARTS):
            self._slots.append(nothing)
            self._views.append(nothing.data)
            self._homes.append(0)
            self._room.append(0)
        for part in range(PARTS):
            self._fill(part, nothing)

    def find(self, fingerprint: int) -> int:
        """The rank, or ABSENT."""
        part = fingerprint & 0xFF
        view, word = self._views[part], fingerprint >> 16 or 1
        slot = (fingerprint >> 32) * self._homes[part] >> 32
        while found := view[slot]:
            if found >> 16 == word:
                return found & 0xFFFF
            slot += 1
        return ABSENT

    def setdefault(self, fingerprint: int, rank: int) -> int:
        """The rank, or ABSENT, and then it has this one from now on. `find` written out, to spare the call."""
        part = fingerprint & 0xFF
        view, word = self._views[part], fingerprint >> 16 or 1
        slot = (fingerprint >> 32) * self._homes[part] >> 32
        while found := view[slot]:
            if found >> 16 == word:
                return found & 0xFFFF
            slot += 1
        view[slot] = word << 16 | rank
        self._room[part] -= 1
        if self._room[part] <= 0 or slot + 2 >= len(view):
            self._fill(part, self._words(part))
        return ABSENT

    def put(self, fingerprint: int, rank: int) -> None:
        """Set the rank, of a fingerprint that is here or a new one."""
        if self.setdefault(fingerprint, rank) == ABSENT:
            return
        part = fingerprint & 0xFF
        view, word = self._views[part], fingerprint >> 16 or 1
        slot = (fingerprint >> 32) * self._homes[part] >> 32
        while view[slot] >> 16 != word:
            slot += 1
        view[slot] = word << 16 | rank

    def __len__(self) -> int:
        return sum(int(homes * _FULL) - room for homes, room in zip(self._homes, self._room, strict=True))

    @property
    def capacity(self) -> int:
        """How many fingerprints it holds before it grows."""
        return sum(int(homes * _FULL) for homes in self._homes)

    @property
    def slots(self) -> int:
        """How many there are, taken or not."""
        return sum(map(len, self._slots))

    # -- many at once ------------------------------------------------------------------------------------------

    def dump(self) -> Iterator[Words]:
        """What `restore` needs, table by table."""
        return map(self._words, range(PARTS))

    def restore(self, part: int, words: Words) -> None:
        """Take a table as it was dumped."""
        self._fill(part, words)

    def put_all(self, fingerprints: Words, ranks: NDArray[np.uint16]) -> None:
        """Like `put` for each in turn: of two that agree, the later counts."""
        words = np.maximum(fingerprints >> _RANK_BITS, np.uint64(1)) << _RANK_BITS | ranks
        parts = (fingerprints & _PART).astype(np.uint8)  # numbers this small are sorted in linear time
        words = words[np.argsort(parts, kind="stable")]
        ends = np.cumsum(np.bincount(parts, minlength=PARTS))
        for part, new in enumerate(np.split(words, ends[:-1])):
            if len(new):
                self._fill(part, _latest(np.concatenate((self._words(part), new))))

    def _words(self, part: int) -> Words:
        slots = self._slots[part]
        words: Words = slots[slots != 0]
        return words

    def _fill(self, part: int, words: Words) -> None:
        """Make a table of these words and room for more."""
        words = np.sort(words)
        homes = max(_SMALLEST, int(len(words) / _FULL * (2 if len(words) < _SMALL else _GROWTH)))
        belongs = (words >> _HALF) * np.uint64(homes) >> _HALF
        # Each goes where it belongs or, if that is taken, right behind the one before it.
        turn = np.arange(len(words), dtype=np.int64)
        places = np.maximum.accumulate(belongs.astype(np.int64) - turn) + turn
        last = int(places[-1]) if len(words) else 0
        slots = _zeros(max(homes, last + 1) + _SLACK)
        slots[places] = words
        self._slots[part], self._views[part], self._homes[part] = slots, slots.data, homes
        self._room[part] = int(homes * _FULL) - len(words)


def _zeros(count: int) -> Words:
    """Memory of its own from the kernel: what is given back would stay in the allocator's heap as holes."""
    return np.frombuffer(mmap.mmap(-1, 8 * count), dtype=np.uint64)


def _latest(words: Words) -> Words:
    """One word per fingerprint, the last of them."""
    words = words[np.argsort(words >> _RANK_BITS, kind="stable")]
    names = words >> _RANK_BITS
    last: Words = words[np.append(names[1:] != names[:-1], [True])]
    return last

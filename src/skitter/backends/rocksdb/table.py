"""Every URL ever offered, in eight bytes each, in memory: a fingerprint and how urgently it is wanted.

256 tables with open addressing, chosen by the last byte of a 64-bit fingerprint. A slot holds the first 48 bits of it and a
16-bit rank, so two URLs are mistaken for one when 56 bits agree: 0.0007 expected cases among ten million URLs. Where a
fingerprint belongs grows with the fingerprint, so a table is nearly sorted, and a larger one is made by laying sorted words
out again. Each table grows by itself, so there is no moment in which everything is held twice. Small ones are laid out in
plain Python, large ones with numpy (see `bulk`), which a crawl of a few hundred thousand URLs need not load for this.

One look-up in plain Python costs 0.5 to 0.8 µs, as part of a look-up of many with numpy it would be 0.2 to 0.4. Links are
looked up one by one all the same: what is new in a group must be known to the links behind it.
"""

import mmap
from collections.abc import Iterator

ABSENT = -1
PARTS = 256
FINGERPRINT_BITS = 56
SLACK = 32  # slots behind the last one at which a fingerprint may belong, for those that are pushed on
_FULL = 0.75  # of the slots: linear probing looks at 8.5 slots for what is new, 2.5 for what is known
_GROWTH = 1.25  # for the sake of memory; small tables double, for the sake of time
_SMALL = 4096  # fingerprints
_SMALLEST = 32  # slots


class Table:
    """Fingerprints and ranks."""

    def __init__(self) -> None:
        nothing = zeros(1)
        self._views = [nothing] * PARTS
        self._homes = [0] * PARTS  # slots at which a fingerprint may belong
        self._room = [0] * PARTS  # how many more go in before it grows
        for part in range(PARTS):
            self._lay_out(part, [])

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
            self._grow(part)
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
        return sum(map(len, self._views))

    # -- making tables -----------------------------------------------------------------------------------------

    def _grow(self, part: int) -> None:
        if len(self._views[part]) < _SMALL:
            self._lay_out(part, sorted(filter(None, self._views[part])))
        else:
            self._replace(part, self._views[part])

    def _lay_out(self, part: int, words: list[int]) -> None:
        """Sorted words: each goes where it belongs or, if that is taken, right behind the one before it."""
        homes, places, at = homes_for(len(words)), [], -1
        for word in words:
            at = max(at + 1, (word >> 32) * homes >> 32)
            places.append(at)
        slots = zeros(max(homes, at + 1) + SLACK)
        for place, word in zip(places, words, strict=True):
            slots[place] = word
        self._set(part, slots, homes, len(words))

    def _replace(self, part: int, words: memoryview | bytes) -> None:
        from skitter.backends.rocksdb import bulk  # noqa: PLC0415  numpy takes 60 ms

        self._set(part, *bulk.laid_out(bulk.words_in(words)))

    def _set(self, part: int, slots: memoryview, homes: int, words: int) -> None:
        self._views[part], self._homes[part] = slots, homes
        self._room[part] = int(homes * _FULL) - words

    # -- many at once ------------------------------------------------------------------------------------------

    def dump(self) -> Iterator[bytes]:
        """What `restore` needs, table by table."""
        from skitter.backends.rocksdb import bulk  # noqa: PLC0415  the same

        return (bulk.words_in(view).tobytes() for view in self._views)

    def restore(self, part: int, words: bytes) -> None:
        """Take a table as it was dumped."""
        self._replace(part, words)

    def put_all(self, fingerprints: bytes, ranks: bytes) -> None:
        """Like `put` for each in turn: of two that agree, the later counts. Both are arrays of the machine's own numbers."""
        from skitter.backends.rocksdb import bulk  # noqa: PLC0415  the same

        for part, new in bulk.by_part(fingerprints, ranks):
            self._set(part, *bulk.laid_out(bulk.merged(bulk.words_in(self._views[part]), new)))


def homes_for(words: int) -> int:
    """The slots of a table for so many words, and room for more."""
    return max(_SMALLEST, int(words / _FULL * (2 if words < _SMALL else _GROWTH)))


def zeros(count: int) -> memoryview:
    """Memory of its own from the kernel: what is given back would stay in the allocator's heap as holes."""
    return memoryview(mmap.mmap(-1, 8 * count)).cast("Q")

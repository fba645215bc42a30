"""The set of every URL ever offered: would offering this one again change anything? Answered without a read.

In memory each URL takes eight bytes: a fingerprint, and how urgently it is wanted (its rank). There are 256 tables
with open addressing, chosen by the last byte of a 64-bit fingerprint. A slot holds its first 48 bits and a 16-bit
rank, so two URLs are confused if 56 bits agree: 0.0007 expected cases among ten million URLs. The home slot grows
with the fingerprint, so a table is nearly sorted, and a larger one is made by laying out sorted words again. Each
table grows by itself, so the whole set is never held twice. Small tables are laid out in plain Python, large ones
with numpy (see `bulk`), which a crawl of a few hundred thousand URLs need not load for this.

One look-up in plain Python costs 0.5 to 0.8 µs; within a numpy look-up of many it would be 0.2 to 0.4. Links are
still looked up one by one: a new URL in a group must be known to the links after it.

The truth is the family `urls`. A rank in the table may be later than the true one, which costs a look at the row; it
is never sooner, which would lose a move. When a store is opened, the table is rebuilt from a snapshot file and the
later rows of the family `log`, one per commit that accepted something. A snapshot holds only what the store has
already synced, so it never has a URL that a power loss took from the store.
"""

import math
import mmap
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import xxhash
from msgspec import Struct
from msgspec.msgpack import decode, encode

from skitter.backends.rocksdb.database import Changes, Database
from skitter.frontier.sortable import number8, number_of
from skitter.frontier.store import KNOWN, LOOK, NEW
from skitter.model import Level
from skitter.runtime.metrics import SeenMetrics

ABSENT = -1
PARTS = 256
FINGERPRINT_BITS = 56
SLACK = 32  # slots after the last home, for fingerprints that are pushed on
_FULL = 0.75  # of the slots: linear probing looks at 8.5 slots for a new URL, 2.5 for a known one
_GROWTH = 1.25  # to save memory; small tables double, to save time
_SMALL = 4096  # fingerprints
_SMALLEST = 32  # slots
_ENDED = 0  # cannot become more urgent
_REFUSED = 0xC000  # later than every place in a queue, plus the depth of the refusal: a link that wants it changes something
_DEEPEST = 0x3FFE
_SNAPSHOT_AT_LEAST = 500_000  # URLs in the log after the last snapshot; some 0.2 s to read again
_SNAPSHOT_SHARE = 4  # or a quarter of all, so that the cost of snapshots is negligible
_SCORES = 4096  # few are in use at a time: most strategies score by depth
_NOTE = b"seen"

fingerprint_of = struct.Struct(">8xQ").unpack
"""The second half of an id, as the only number in a tuple: the hash of a URL's key."""


# ------------------------------------------------------------------------------------------------ ranks


class Ranks(dict[float, tuple[tuple[int, int], ...]]):
    """By score and level, a place in the queue as a number up to 40,960, smaller is sooner: (never sooner than the
    place, never later).

    Both are the same for whole scores up to 256, so that an equal offer is known to be no better.
    """

    def __missing__(self, score: float) -> tuple[tuple[int, int], ...]:
        if len(self) > _SCORES:
            self.clear()
        steps = _steps(score)
        later, sooner = 4096 - math.floor(steps), 4096 - math.ceil(steps)
        self[score] = found = tuple((8192 * level + later, 8192 * level + sooner) for level in Level)
        return found


def _steps(score: float) -> float:
    """The position of a score among 8,190 steps: sign, five bits of exponent, seven of mantissa."""
    size = abs(score)
    if not size:
        return 0.0
    if not size < 65536:
        return math.copysign(4094.5, score)
    part, power = math.frexp(size)
    return math.copysign(1 + 128 * (power + 14) + 128 * (2 * part - 1) if power >= -14 else 0.5, score)


RANKS = Ranks()


# ------------------------------------------------------------------------------------------------ in memory


class Table:
    """Fingerprints and ranks."""

    def __init__(self) -> None:
        nothing = zeros(1)
        self._views = [nothing] * PARTS
        self._homes = [0] * PARTS  # home slots
        self._room = [0] * PARTS  # how many more fit before it grows
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
        """The rank, or ABSENT, in which case this rank is set. `find` written out, to save the call."""
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
        """Set the rank of a known or new fingerprint."""
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
        """The number of slots, taken or not."""
        return sum(map(len, self._views))

    # -- making tables -----------------------------------------------------------------------------------------

    def _grow(self, part: int) -> None:
        if len(self._views[part]) < _SMALL:
            self._lay_out(part, sorted(filter(None, self._views[part])))
        else:
            self._replace(part, self._views[part])

    def _lay_out(self, part: int, words: list[int]) -> None:
        """Lay out sorted words: each goes to its home slot or, if that is taken, right behind the word before it."""
        homes, places, at = homes_for(len(words)), [], -1
        for word in words:
            home = (word >> 32) * homes >> 32
            at = home if home > at else at + 1
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
        """Load a table as it was dumped."""
        self._replace(part, words)

    def put_all(self, fingerprints: bytes, ranks: bytes) -> None:
        """Like `put` for each in turn: the later of two equal fingerprints counts. Both are arrays of native
        integers.
        """
        from skitter.backends.rocksdb import bulk  # noqa: PLC0415  the same

        for part, new in bulk.by_part(fingerprints, ranks):
            self._set(part, *bulk.laid_out(bulk.merged(bulk.words_in(self._views[part]), new)))


def homes_for(words: int) -> int:
    """The slots of a table for this many words, with room for more."""
    return max(_SMALLEST, int(words / _FULL * (2 if words < _SMALL else _GROWTH)))


def zeros(count: int) -> memoryview:
    """Memory directly from the kernel: freed memory would stay in the allocator's heap as holes."""
    return memoryview(mmap.mmap(-1, 8 * count)).cast("Q")


# ------------------------------------------------------------------------------------------------ the seen set


class Snapshot(Struct, array_like=True):
    """The record of a saved table."""

    file: str
    row: int  # the first row of the log that is not in it
    counts: list[int]  # URLs by part
    digest: int


class Seen(Table):
    """`skitter.frontier.store.Seen` of a store in a directory."""

    def __init__(self, db: Database) -> None:
        super().__init__()
        self._db = db
        self.new = array("Q")  # new fingerprints for the log, and their ranks
        self.new_ranks = array("H")
        self._row = self.behind = 0  # the next row of the log; URLs in it since the snapshot
        self.snapshot_file = ""
        self.snapshot_at = _SNAPSHOT_AT_LEAST
        self.note: bytes | None = None  # the record of a written snapshot, for the next commit
        self._load()

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """NEW the first time, and recorded at this rank; KNOWN if it waits at least as urgently, or is done."""
        later, sooner = RANKS[score][level]
        (fingerprint,) = fingerprint_of(id16)
        rank = self.setdefault(fingerprint, later)
        if rank == ABSENT:
            self.new.append(fingerprint)
            self.new_ranks.append(later)
            return NEW
        return KNOWN if sooner >= rank else LOOK

    def refuse(self, id16: bytes, depth: int) -> int:
        """NEW the first time; KNOWN if it is wanted, done, or refused at no greater depth."""
        refused = _REFUSED + min(depth, _DEEPEST)
        (fingerprint,) = fingerprint_of(id16)
        rank = self.setdefault(fingerprint, refused)
        if rank == ABSENT:
            self.new.append(fingerprint)
            self.new_ranks.append(refused)
            return NEW
        return LOOK if rank >= _REFUSED and refused < rank else KNOWN

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """A URL waits. True if it was done, or waited at a sooner rank."""
        return self._rerank(id16, RANKS[score][level][0])

    def refused(self, id16: bytes, depth: int) -> None:
        """A URL is refused."""
        self._rerank(id16, _REFUSED + min(depth, _DEEPEST))

    def _rerank(self, id16: bytes, rank: int) -> bool:
        (fingerprint,) = fingerprint_of(id16)
        if self.find(fingerprint) == rank:
            return False
        self.put(fingerprint, rank)
        self.new.append(fingerprint)
        self.new_ranks.append(rank)
        return True

    def ended(self, id16: bytes) -> None:
        """A URL is done. Not worth a row in the log: the next look at its row would show it again."""
        (fingerprint,) = fingerprint_of(id16)
        self.put(fingerprint, _ENDED)

    is_full = False  # nothing is dropped

    def trim(self) -> None:
        """Nothing is dropped."""

    # -- durability --------------------------------------------------------------------------------------------

    def save(self, changes: Changes) -> None:
        """Add new fingerprints to a commit."""
        if self.note is not None:
            changes["default"][_NOTE] = self.note
        if self.new:
            changes["log"][number8(self._row)] = self.new.tobytes() + self.new_ranks.tobytes()
            self._row += 1
            self.behind += len(self.new)
            del self.new[:]
            del self.new_ranks[:]

    def saved(self) -> None:
        """The new fingerprints are committed."""
        if self.snapshot_file:  # its record was in this commit
            remove_snapshots(self._db.path, but=self.snapshot_file)
            self.snapshot_file, self.note = "", None
        if self.behind > self.snapshot_at and self.behind > len(self) // _SNAPSHOT_SHARE:
            self._db.sync()
            self._snapshot()
            self.behind = 0

    def _snapshot(self) -> None:
        """Write the table to a file, to be recorded with the next commit. The digest shows if the file is incomplete."""
        counts, digest = [], xxhash.xxh3_64()
        name = f"seen-{self._row}.table"
        try:
            with (self._db.path / name).open("wb") as file:
                for words in self.dump():
                    counts.append(len(words) // 8)
                    digest.update(words)
                    file.write(words)
        except OSError:  # the disk is full: the log grows longer, and the store itself will report it
            return
        self.snapshot_file = name
        self.note = encode(Snapshot(name, self._row, counts, digest.intdigest()))

    def _load(self) -> None:
        note = self._db.get("default", _NOTE)
        saved = None if note is None else decode(note, type=Snapshot)
        remove_snapshots(self._db.path, but="" if saved is None else saved.file)
        if saved is not None:
            self._row = _restored(saved, self._db.path, self)
        fingerprints, ranks = [], []
        for key, row in self._db.scan("log", number8(self._row), b"\xff" * 9):
            self._row = number_of(key) + 1
            fingerprints.append(row[: len(row) // 10 * 8])
            ranks.append(row[len(row) // 10 * 8 :])
        if fingerprints:
            new = b"".join(fingerprints)
            self.behind = len(new) // 8
            self.put_all(new, b"".join(ranks))

    def metrics(self) -> SeenMetrics:
        """The table in numbers: it works as a filter with one hash and very few false positives."""
        items, slots = len(self), self.slots
        return SeenMetrics(
            items=items,
            capacity=self.capacity,
            table=8 * slots,
            used=8 * items,
            log=self.behind,
            hashes=1,
            fill=items / slots,
            false_positive_rate=items / 2**FINGERPRINT_BITS,
        )


def _restored(saved: Snapshot, path: Path, table: Table) -> int:
    """Read a snapshot; returns the first row of the log that it does not hold, 0 if it is unusable."""
    try:
        words = (path / saved.file).read_bytes()
    except OSError:
        return 0
    if len(words) != 8 * sum(saved.counts) or xxhash.xxh3_64_intdigest(words) != saved.digest:
        return 0
    start = 0
    for part, count in enumerate(saved.counts):
        end = start + 8 * count
        table.restore(part, words[start:end])
        start = end
    return saved.row


def remove_snapshots(path: Path, but: str) -> None:
    """Delete snapshots that no record names."""
    for file in path.glob("seen-*.table"):
        if file.name != but:
            file.unlink(missing_ok=True)

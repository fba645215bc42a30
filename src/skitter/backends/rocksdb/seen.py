"""Which URLs were offered before, and would it change anything to offer this one again? Answered without a read.

In front stand the very same Link values: the memo of judged links hands one out for every page that repeats an href, and a
link that was known once, and not better than what is recorded, stays so. Behind them stands a table of every URL ever
offered (see `table`) with the rank it waits at. Only a link that might move something forward, a seed, and what is new
go on to the store.

The truth is the family `urls`. A rank in the table may be later than the true one, which costs a look at the record; it
is never sooner, which would lose a move. The table is made again, when a store is opened, from a snapshot file and the
rows of the family `log` behind it, one for each commit that accepted something. A snapshot holds only what the store has
brought to the disk already, so it never knows a URL that a loss of power has taken from the store.
"""

import math
from array import array
from pathlib import Path

import xxhash
from msgspec import Struct
from msgspec.msgpack import decode

from skitter.backends.rocksdb.records import encode
from skitter.backends.rocksdb.store import Batch, Store
from skitter.backends.rocksdb.table import FINGERPRINT_BITS, Table
from skitter.frontier.sortable import number8, number_of
from skitter.model import Level, Link

NEVER = 0  # nothing would move this one forward
ALWAYS = 0xFFFF  # whoever wants this one changes something

_SAME = 20_000  # links; most are held by the memo of judged links anyway
_SNAPSHOT_AT_LEAST = 500_000  # URLs in the log behind the last snapshot; some 0.2 s to read again
_SNAPSHOT_SHARE = 4  # or a fourth of all, so that writing snapshots costs nothing to speak of
_SCORES = 4096  # few are in use at a time: most strategies score by depth
_NOTE = b"seen"


# ------------------------------------------------------------------------------------------------ ranks


class Ranks(dict[float, tuple[tuple[int, int], ...]]):
    """By score and level, a place in the queue as a number up to 40,960, smaller is sooner: (never sooner than the place
    is, never later). Both are the same for whole scores up to 256, so that an equal offer is known to be no better.
    """

    def __missing__(self, score: float) -> tuple[tuple[int, int], ...]:
        if len(self) > _SCORES:
            self.clear()
        steps = _steps(score)
        later, sooner = 4096 - math.floor(steps), 4096 - math.ceil(steps)
        self[score] = found = tuple((8192 * level + later, 8192 * level + sooner) for level in Level)
        return found


def _steps(score: float) -> float:
    """Where a score stands among 8,190 steps: sign, five bits of exponent, seven of mantissa."""
    size = abs(score)
    if not size:
        return 0.0
    if not size < 65536:
        return math.copysign(4094.5, score)
    part, power = math.frexp(size)
    return math.copysign(1 + 128 * (power + 14) + 128 * (2 * part - 1) if power >= -14 else 0.5, score)


RANKS = Ranks()


# ------------------------------------------------------------------------------------------------ the seen set


class Snapshot(Struct, array_like=True):
    """What is noted of a saved table."""

    file: str
    row: int  # the first row of the log that is not in it
    counts: list[int]  # URLs by part
    digest: int


class Same:
    """Links that were offered before, as these very values. Holding them keeps their identity from being reused."""

    def __init__(self) -> None:
        self.ids: dict[int, bytes] = {}  # identity -> id16
        self._links: list[Link] = []

    def remember(self, link: Link, id16: bytes) -> None:
        """Offering this one again changes nothing."""
        self.ids[id(link)] = id16
        self._links.append(link)

    def forget(self) -> None:
        """A URL is back that nothing could move, or at a later rank: these links may be better than that."""
        self.ids.clear()
        self._links.clear()

    def trim(self) -> None:
        """Begin anew when there are too many: what is still in use is soon back."""
        if len(self._links) > _SAME:
            self.forget()

    def __len__(self) -> int:
        return len(self.ids)


class Seen:
    """Every URL ever offered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.wanted = Same()
        self.refused = Same()
        self._table = Table()
        self.find = self._table.find
        self.setdefault = self._table.setdefault
        self._new = array("Q")  # fingerprints for the log, and their ranks
        self._new_ranks = array("H")
        self._row = self._behind = 0  # the next row of the log; URLs in it behind the snapshot
        self._snapshot_file = ""
        self._load()

    def add(self, fingerprint: int, rank: int) -> None:
        """A URL has a record from now on."""
        self._table.put(fingerprint, rank)
        self.log(fingerprint, rank)

    def log(self, fingerprint: int, rank: int) -> None:
        """It has just been put into the table with `setdefault`."""
        self._new.append(fingerprint)
        self._new_ranks.append(rank)

    def correct(self, fingerprint: int, rank: int) -> None:
        """What a look at the record has shown. Not worth a row in the log: the next look would show it again."""
        self._table.put(fingerprint, rank)

    def waits(self, fingerprint: int, rank: int) -> None:
        """A URL waits again. If nothing could move it until now, or it waited at a sooner rank, that has changed."""
        if self._table.find(fingerprint) != rank:
            self.add(fingerprint, rank)
            self.wanted.forget()

    # -- durability --------------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Put what is new into the batch."""
        if self._new:
            batch.put("log", number8(self._row), self._new.tobytes() + self._new_ranks.tobytes())
            self._row += 1
            self._behind += len(self._new)
            del self._new[:]
            del self._new_ranks[:]

    def saved(self, batch: Batch) -> None:
        """The batch is committed."""
        self.wanted.trim()
        self.refused.trim()
        if self._snapshot_file:  # its note was in this batch
            remove_snapshots(self._store.path, but=self._snapshot_file)
            self._snapshot_file = ""
        if self._behind > _SNAPSHOT_AT_LEAST and self._behind > len(self._table) // _SNAPSHOT_SHARE:
            self._store.sync()
            self._snapshot(batch)
            self._behind = 0

    def _snapshot(self, batch: Batch) -> None:
        """Write the table out, to be noted with the next commit. What is noted and not whole shows in the digest."""
        counts, digest = [], xxhash.xxh3_64()
        name = f"seen-{self._row}.table"
        try:
            with (self._store.path / name).open("wb") as file:
                for words in self._table.dump():
                    counts.append(len(words) // 8)
                    digest.update(words)
                    file.write(words)
        except OSError:  # the disk is full: the log is longer then, and the store itself will say so
            return
        self._snapshot_file = name
        batch.put("default", _NOTE, encode(Snapshot(name, self._row, counts, digest.intdigest())))

    def _load(self) -> None:
        note = self._store.get("default", _NOTE)
        saved = None if note is None else decode(note, type=Snapshot)
        remove_snapshots(self._store.path, but="" if saved is None else saved.file)
        if saved is not None:
            self._row = _restored(saved, self._store.path, self._table)
        fingerprints, ranks = [], []
        for key, row in self._store.scan("log", number8(self._row), b"\xff" * 9):
            self._row = number_of(key) + 1
            fingerprints.append(row[: len(row) // 10 * 8])
            ranks.append(row[len(row) // 10 * 8 :])
        if fingerprints:
            new = b"".join(fingerprints)
            self._behind = len(new) // 8
            self._table.put_all(new, b"".join(ranks))

    def statistics(self) -> dict[str, dict[str, float]]:
        """The table, which is a filter with one hash and very few false alarms, and the memo before it."""
        items, slots = len(self._table), self._table.slots
        table = {
            "capacity": self._table.capacity,
            "items": items,
            "bits": 64 * slots,
            "hashes": 1,
            "fill": items / slots,
            "false_positive_rate": items / 2**FINGERPRINT_BITS,
            "log": self._behind,
        }
        return {
            "seen": table,
            "same": {"entries": len(self.wanted) + len(self.refused), "capacity": 2 * _SAME},
        }


def _restored(saved: Snapshot, path: Path, table: Table) -> int:
    """Read a snapshot; the first row of the log that it does not hold, which is 0 if it cannot be used."""
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
    """Snapshots that no note names are of no use."""
    for file in path.glob("seen-*.table"):
        if file.name != but:
            file.unlink(missing_ok=True)

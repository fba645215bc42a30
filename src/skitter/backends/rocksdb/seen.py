"""Every URL ever offered, and would it change anything to offer this one again? Answered without a read.

A table in memory (see `table`) has every URL with the rank it waits at. Only a link that might move something forward, a seed,
and what is new go on to the store.

The truth is the family `urls`. A rank in the table may be later than the true one, which costs a look at the row; it is
never sooner, which would lose a move. The table is made again, when a store is opened, from a snapshot file and the rows
of the family `log` behind it, one for each commit that accepted something. A snapshot holds only what the store has
brought to the disk already, so it never knows a URL that a loss of power has taken from the store.
"""

import math
from array import array
from pathlib import Path

import xxhash
from msgspec import Struct
from msgspec.msgpack import decode, encode

from skitter.backends.rocksdb.database import Changes, Database
from skitter.backends.rocksdb.table import ABSENT, FINGERPRINT_BITS, Table
from skitter.frontier.sortable import number8, number_of
from skitter.frontier.store import KNOWN, LOOK, NEW
from skitter.model import Level

_ENDED = 0  # nothing would move this one forward
_REFUSED = 0xC000  # later than every place in a queue, and the depth it was refused at: whoever wants it changes something
_DEEPEST = 0x3FFE
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


class Seen:
    """`skitter.frontier.store.Seen` of a store in a directory."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._table = Table()
        self._new = array("Q")  # fingerprints for the log, and their ranks
        self._new_ranks = array("H")
        self._row = self._behind = 0  # the next row of the log; URLs in it behind the snapshot
        self._snapshot_file = ""
        self._note: bytes | None = None  # of a snapshot that was written, for the next commit
        self._load()

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """NEW the first time, and then it waits at this rank; KNOWN when it waits at least as urgently, or is over."""
        later, sooner = RANKS[score][level]
        fingerprint = int.from_bytes(id16[8:], "big")
        rank = self._table.setdefault(fingerprint, later)
        if rank == ABSENT:
            self._new.append(fingerprint)
            self._new_ranks.append(later)
            return NEW
        return KNOWN if sooner >= rank else LOOK

    def refuse(self, id16: bytes, depth: int) -> int:
        """NEW the first time; KNOWN when it is wanted, over, or refused at no greater depth."""
        fingerprint, refused = int.from_bytes(id16[8:], "big"), _REFUSED + min(depth, _DEEPEST)
        rank = self._table.setdefault(fingerprint, refused)
        if rank == ABSENT:
            self._new.append(fingerprint)
            self._new_ranks.append(refused)
            return NEW
        return LOOK if rank >= _REFUSED and refused < rank else KNOWN

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """A URL waits. If it was over until now, or waited at a sooner rank, that has changed."""
        return self._set(id16, RANKS[score][level][0])

    def refused(self, id16: bytes, depth: int) -> None:
        """A URL is refused."""
        self._set(id16, _REFUSED + min(depth, _DEEPEST))

    def _set(self, id16: bytes, rank: int) -> bool:
        fingerprint = int.from_bytes(id16[8:], "big")
        if self._table.find(fingerprint) == rank:
            return False
        self._table.put(fingerprint, rank)
        self._new.append(fingerprint)
        self._new_ranks.append(rank)
        return True

    def ended(self, id16: bytes) -> None:
        """A URL is over. Not worth a row in the log: the next look at its row would show it again."""
        self._table.put(int.from_bytes(id16[8:], "big"), _ENDED)

    def trim(self) -> None:
        """It forgets nothing."""

    # -- durability --------------------------------------------------------------------------------------------

    def save(self, changes: Changes) -> None:
        """Put what is new into a commit."""
        if self._note is not None:
            changes["default"][_NOTE] = self._note
        if self._new:
            changes["log"][number8(self._row)] = self._new.tobytes() + self._new_ranks.tobytes()
            self._row += 1
            self._behind += len(self._new)
            del self._new[:]
            del self._new_ranks[:]

    def saved(self) -> None:
        """What was new is committed."""
        if self._snapshot_file:  # its note was in this commit
            remove_snapshots(self._db.path, but=self._snapshot_file)
            self._snapshot_file, self._note = "", None
        if self._behind > _SNAPSHOT_AT_LEAST and self._behind > len(self._table) // _SNAPSHOT_SHARE:
            self._db.sync()
            self._snapshot()
            self._behind = 0

    def _snapshot(self) -> None:
        """Write the table out, to be noted with the next commit. What is noted and not whole shows in the digest."""
        counts, digest = [], xxhash.xxh3_64()
        name = f"seen-{self._row}.table"
        try:
            with (self._db.path / name).open("wb") as file:
                for words in self._table.dump():
                    counts.append(len(words) // 8)
                    digest.update(words)
                    file.write(words)
        except OSError:  # the disk is full: the log is longer then, and the store itself will say so
            return
        self._snapshot_file = name
        self._note = encode(Snapshot(name, self._row, counts, digest.intdigest()))

    def _load(self) -> None:
        note = self._db.get("default", _NOTE)
        saved = None if note is None else decode(note, type=Snapshot)
        remove_snapshots(self._db.path, but="" if saved is None else saved.file)
        if saved is not None:
            self._row = _restored(saved, self._db.path, self._table)
        fingerprints, ranks = [], []
        for key, row in self._db.scan("log", number8(self._row), b"\xff" * 9):
            self._row = number_of(key) + 1
            fingerprints.append(row[: len(row) // 10 * 8])
            ranks.append(row[len(row) // 10 * 8 :])
        if fingerprints:
            new = b"".join(fingerprints)
            self._behind = len(new) // 8
            self._table.put_all(new, b"".join(ranks))

    def statistics(self) -> dict[str, float]:
        """The table, which is a filter with one hash and very few false alarms."""
        items, slots = len(self._table), self._table.slots
        return {
            "capacity": self._table.capacity,
            "items": items,
            "bits": 64 * slots,
            "hashes": 1,
            "fill": items / slots,
            "false_positive_rate": items / 2**FINGERPRINT_BITS,
            "log": self._behind,
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

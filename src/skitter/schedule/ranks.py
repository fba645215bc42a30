"""Ranks of domains, from a file that a person has: eight bytes a domain, whatever the file holds.

A line is `rank,domain` (as Tranco and others publish them) or `domain score`, with a score between 0 and 1; comma, tab
or blanks separate. Lines that are neither are counted and skipped.
"""

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash

from skitter import urls
from skitter.settings import SettingsError

UNRANKED = 0.1
"""The value of a domain that no file ranks."""

_MOST = 2_000_000  # domains: 16 MB
_LONGEST = 1_000  # bytes of a line
_DECADES = 7  # of ranks: from 1 for rank 1 down to `UNRANKED` for rank 10,000,000
_DOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_VALUES = 0xFFFF  # steps of a value; the other 48 bits of a word are the hash of a name


class Ranks:
    """Values between 0 and 1 by domain."""

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        words = array("Q")
        self.skipped = 0  # lines that say nothing
        self.left_out = 0  # domains beyond the most that are kept: files are sorted, the best come first
        for line in lines:
            if not line.strip() or line.startswith(b"#"):
                continue
            ranked = _ranked(line)
            if ranked is None:
                self.skipped += 1
            elif len(words) >= _MOST:
                self.left_out += 1
            else:
                words.append(_hashed(ranked[0]) | round(ranked[1] * _VALUES))
        self._words = _sorted(words)

    def __len__(self) -> int:
        return len(self._words)

    def __str__(self) -> str:
        """For people: how much a file held."""
        said = f"{len(self):,} domains"
        if self.left_out:
            said += f"; {self.left_out:,} more are left out"
        if self.skipped:
            said += f"; {self.skipped:,} of its lines are neither rank,domain nor domain score (0 to 1)"
        return said

    def value(self, host: str) -> float:
        """The value of a host: its own, or that of its domain. If it is listed twice, the better one counts."""
        found = self._find(host)
        if found is None:
            found = self._find(urls.registrable_domain(host))
        return UNRANKED if found is None else found

    def _find(self, name: str) -> float | None:
        first = _hashed(name)
        place = bisect_right(self._words, first | _VALUES)
        if not place or self._words[place - 1] < first:
            return None
        return (self._words[place - 1] & _VALUES) / _VALUES


def read_ranks(path: str) -> Ranks:
    """The ranks in a file."""
    if not path:
        return Ranks()
    try:
        return Ranks(_lines(Path(path)))
    except OSError as problem:
        why = problem.strerror or problem
        raise SettingsError(f"schedule.rank_file: {path} cannot be read: {why}") from None


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; of a longer one its pieces, which are rubbish too."""
    with path.open("rb") as file:
        while line := file.readline(_LONGEST):
            yield line


def _sorted(words: "array[int]") -> "array[int]":
    if len(words) < _LONGEST:
        return array("Q", sorted(words))
    import numpy  # noqa: PLC0415, ICN001  sorts in place: as numbers of Python they would take 100 MB

    numpy.frombuffer(words, dtype=numpy.uint64).sort()
    return words


def _hashed(name: str) -> int:
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass")) & ~_VALUES


def _ranked(line: bytes) -> tuple[str, float] | None:
    """A domain and its value."""
    try:
        one, other = line.decode("ascii").lower().replace(",", " ").split()
    except ValueError:  # another number of words, or not ASCII: names of other alphabets are written xn--
        return None
    if one.isdigit() and "." not in one:
        return _named(other, _of_rank(one))
    try:
        score = float(other)
    except ValueError:
        return None
    return _named(one, score) if 0 <= score <= 1 else None  # neither does NaN


def _of_rank(digits: str) -> float:
    rank = int(digits[:20])
    return max(UNRANKED, 1 - (1 - UNRANKED) * math.log10(rank) / _DECADES) if rank else -1.0


def _named(name: str, value: float) -> tuple[str, float] | None:
    name = name.rstrip(".")
    return (name, value) if value >= 0 and _DOMAIN.fullmatch(name) else None

"""Bulk operations on the words of a table, with numpy: for tables that are large, or loaded from disk."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from skitter.backends.rocksdb.seen import PARTS, SLACK, homes_for, zeros

Words = NDArray[np.uint64]

_PART = np.uint64(PARTS - 1)
_RANK_BITS = np.uint64(16)
_HALF = np.uint64(32)


def words_in(slots: memoryview | bytes) -> Words:
    """The occupied slots."""
    every = np.frombuffer(slots, dtype=np.uint64)
    words: Words = every[every != 0]
    return words


def laid_out(words: Words) -> tuple[memoryview, int, int]:
    """A table of these words with room for more: slots, how many of them are homes, and words."""
    words = np.sort(words)
    homes = homes_for(len(words))
    belongs = (words >> _HALF) * np.uint64(homes) >> _HALF
    # Each word goes to its home slot or, if that is taken, right behind the word before it.
    turn = np.arange(len(words), dtype=np.int64)
    places = np.maximum.accumulate(belongs.astype(np.int64) - turn) + turn
    last = int(places[-1]) if len(words) else 0
    slots = zeros(max(homes, last + 1) + SLACK)
    np.frombuffer(slots, dtype=np.uint64)[places] = words
    return slots, homes, len(words)


def by_part(fingerprints: bytes, ranks: bytes) -> Iterator[tuple[int, Words]]:
    """The words of these fingerprints, grouped by table."""
    names = np.frombuffer(fingerprints, dtype=np.uint64)
    words = np.maximum(names >> _RANK_BITS, np.uint64(1)) << _RANK_BITS
    words |= np.frombuffer(ranks, dtype=np.uint16)
    parts = (names & _PART).astype(np.uint8)  # numbers this small are sorted in linear time
    words = words[np.argsort(parts, kind="stable")]
    ends = np.cumsum(np.bincount(parts, minlength=PARTS))
    for part, new in enumerate(np.split(words, ends[:-1])):
        if len(new):
            yield part, new


def merged(words: Words, new: Words) -> Words:
    """One word per fingerprint, the last one."""
    words = np.concatenate((words, new))
    words = words[np.argsort(words >> _RANK_BITS, kind="stable")]
    names = words >> _RANK_BITS
    last: Words = words[np.append(names[1:] != names[:-1], [True])]
    return last

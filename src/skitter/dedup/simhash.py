"""SimHash: 64 bits that are similar for similar texts; and those of a domain in memory, compared all at once.

SimHash (Charikar 2002; Manku, Jain and Das Sarma 2007 for the web). Features are shingles of three words. In
its own module because it needs numpy, which takes 60 ms to load: a crawl without near-duplicates does not.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.unsignedinteger[Any]]

SHINGLE = 3  # words
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: spreads hashes before they are combined
_BLOCK = 32 * 1024  # bytes of a text hashed at once; bounds the memory for long ones
# The hash of a word is the value of its bytes as digits in base `_BASE`, modulo 2^64. The prefix sums of the
# text give the hashes of all words at once; a difference of two sums is scaled back by the inverse power of
# its start.
_BASE = 0xD1342543DE82EF95  # odd, so that it has an inverse; a multiplier with good spread (Steele and Vigna 2021)
_POWERS = np.multiply.accumulate(np.full(_BLOCK + 2, _BASE, np.uint64))
_INVERSES = np.multiply.accumulate(np.full(_BLOCK + 2, pow(_BASE, -1, 2**64), np.uint64))
_NO_WORDS = np.zeros(0, np.uint64)
_SKETCHED = 8  # blocks of a text, that its sketch is made of
_ZERO, _TEN = np.uint8(ord("0")), np.uint8(10)
_ROW = 16  # shingles whose bits are counted in parallel


def simhash(text: str, min_words: int) -> int | None:
    """64 bits that are similar for similar texts; None for a text too short to tell.

    No object is created per word: 42 µs for 780 words, where hashing them one by one takes 100.
    """
    octets = text.encode("utf-8", "surrogatepass")
    votes, shingles, words = np.zeros(64, np.uint32), 0, _NO_WORDS
    for block in _blocks(octets):
        words = np.concatenate((words[1 - SHINGLE :], _words(block))) if len(words) else _words(block)
        if len(words) >= SHINGLE:
            votes += _votes(words)
            shingles += len(words) - SHINGLE + 1
    if not shingles or shingles + SHINGLE - 1 < min_words:
        return None
    return int.from_bytes(np.packbits(votes > shingles // 2, bitorder="little").tobytes(), "little")


def _blocks(octets: bytes) -> Iterator[bytes]:
    """The text in chunks that end at a blank, if a chunk has one."""
    at = 0
    while len(octets) - at > _BLOCK:
        end = octets.rfind(b" ", at, at + _BLOCK) + 1 or at + _BLOCK
        yield octets[at:end]
        at = end
    yield octets[at:] if at else octets


# ------------------------------------------------------------------------------------------------ what is new

_SAMPLE = 4_096  # shingles, of 4 bytes
_COMPARED = 8_000  # characters of a text
_SHORT = 2  # characters: pieces of tokens, mostly
_HALF = np.uint64(32)


class News(NamedTuple):
    """A text compared with the sample of a domain."""

    sample: bytes  # with what the text has brought
    shift: int
    new: int  # shingles that were not there, of those that the sample takes in
    met: int  # shingles that it takes in


def news(text: str, sample: bytes, shift: int) -> News:
    """Which shingles of a text are new to a sample of those seen before; words with digits in them, and very
    short ones, all count as the same.

    The sample takes in shingles whose hash ends in `shift` zeros, and half as many of them each time it is full, so it
    is a fair one of everything seen, whatever its amount (adaptive sampling; Wegman 1984, Flajolet 1990).
    """
    words = _words(text[:_COMPARED].encode("utf-8", "surrogatepass")[:_BLOCK], fold=True)
    if len(words) < SHINGLE:
        return News(sample, shift, 0, 0)
    hashes = (_mixed(words) >> _HALF).astype(np.uint32)
    known = np.frombuffer(sample, np.uint32)
    if shift:
        hashes = hashes[hashes & np.uint32((1 << shift) - 1) == 0]
    found = np.array(sorted(set(hashes.tolist())), np.uint32)
    if not len(found):
        return News(sample, shift, 0, 0)
    places = np.searchsorted(known, found)
    fresh = np.ones(len(found), bool)
    if len(known):
        fresh = known[np.minimum(places, len(known) - 1)] != found
    new = int(np.count_nonzero(fresh))
    if not new:
        return News(sample, shift, 0, len(found))
    merged = np.insert(known, places[fresh], found[fresh])
    while len(merged) > _SAMPLE:
        shift += 1
        merged = merged[merged & np.uint32((1 << shift) - 1) == 0]
    return News(merged.tobytes(), shift, new, len(found))


def sketch(text: str, size: int) -> bytes:
    """The smallest hashes of the words of a text, 8 bytes each: the share that two texts have in common is about the
    share of words that they have in common, in whatever order (Broder 1997).
    """
    found = [_words(block) for block in islice(_blocks(text.encode("utf-8", "surrogatepass")), _SKETCHED)]
    words = np.unique(np.concatenate(found)) if found else _NO_WORDS
    spread = (words ^ (words >> np.uint64(29))) * _MIX
    return np.sort(spread)[:size].astype("<u8").tobytes()


def _words(block: bytes, *, fold: bool = False) -> Numbers:
    """The hash of each word. `fold`: 0 for a word with digits, whichever they are, and for a very short one."""
    octets = np.frombuffer(b" %b " % block, np.uint8)
    blank = octets <= ord(" ")
    (edges,) = (
        blank[1:] != blank[:-1]
    ).nonzero()  # alternating: the last byte of a gap, the last byte of a word
    starts, ends = edges[::2], edges[1::2]
    sums = np.add.accumulate(octets * _POWERS[: len(octets)])
    words: Numbers = (sums[ends] - sums[starts]) * _INVERSES[starts]
    if fold:
        digits = np.add.accumulate((octets - _ZERO) < _TEN, dtype=np.uint32)
        words[(digits[ends] != digits[starts]) | (ends - starts <= _SHORT)] = 0
    return words


def _mixed(words: Numbers) -> Numbers:
    """The hash of each shingle."""
    first, second, third = words[:-2], words[1:-1], words[2:]
    mixed = (first * _MIX ^ second) * _MIX ^ third
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _votes(words: Numbers) -> Numbers:
    """How many shingles have each of the 64 bits."""
    mixed = _mixed(words)
    rows = -(-len(mixed) // _ROW)
    shingles = np.zeros(rows * _ROW, "<u8")  # the missing part of the last row has no bits
    shingles[: len(mixed)] = mixed
    bits = np.unpackbits(shingles.view(np.uint8), bitorder="little")
    # Long rows of bytes add fast, and up to 255 of them without carry: 8 µs instead of 24 for 780 shingles.
    counts = np.add.reduce(bits.reshape(rows, -1), axis=0, dtype=np.uint8 if rows < 256 else np.uint32)
    votes: Numbers = np.add.reduce(counts.reshape(_ROW, 64), axis=0, dtype=np.uint32)
    return votes


# ------------------------------------------------------------------------------------------------ many of them


class SimhashSet:
    """The SimHashes of a domain, in an array with room for more."""

    __slots__ = ("size", "values")

    def __init__(self, values: list[int]) -> None:
        self.size = len(values)
        self.values: NDArray[np.uint64] = np.zeros(max(8, 2 * self.size), np.uint64)
        self.values[: self.size] = values

    def add(self, simhash: int) -> None:
        """Add one."""
        if self.size == len(self.values):
            self.values = np.concatenate((self.values, np.zeros_like(self.values)))
        self.values[self.size] = simhash
        self.size += 1

    def nearest(self, simhash: int, distance: int) -> list[int]:
        """The nearest ones, all equally far, within the distance."""
        values = self.values[: self.size]
        apart = np.bitwise_count(values ^ np.uint64(simhash))
        least = int(apart.min(initial=distance + 1))
        return [] if least > distance else [int(value) for value in values[apart == least]]

"""When are two pages one? Identical payloads by digest, near-duplicates by SimHash.

SimHash (Charikar 2002; Manku, Jain and Das Sarma 2007 for the web) maps a text to 64 bits such that similar texts differ
in few of them. Features are shingles of three words. Pages are compared inside one registrable domain: mirrors of a whole
site are the archive's business, the print view and the session-id copy are ours.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skitter.digest import sha1
from skitter.model import Page
from skitter.ports import Frontier, Likeness, Twin
from skitter.settings import DedupSettings

Numbers = NDArray[np.unsignedinteger[Any]]

SHINGLE = 3  # words
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: spreads hashes before they are combined
_BLOCK = 32 * 1024  # bytes of a text that are hashed at once; bounds the memory for long ones
# The hash of a word is the value of its bytes as digits in base `_BASE`, modulo 2^64. The sums up to every byte of the text
# give the hashes of all words at once; a difference of two sums is scaled back by the inverse power of where it begins.
_BASE = 0xD1342543DE82EF95  # odd, so that it has an inverse; a multiplier that spreads well (Steele and Vigna 2021)
_POWERS = np.multiply.accumulate(np.full(_BLOCK + 2, _BASE, np.uint64))
_INVERSES = np.multiply.accumulate(np.full(_BLOCK + 2, pow(_BASE, -1, 2**64), np.uint64))
_NO_WORDS = np.zeros(0, np.uint64)
_ROW = 16  # shingles whose bits are counted side by side


def payload_digest(payload: bytes) -> str:
    """The digest by which archives name a payload."""
    return sha1(payload).decode()


def simhash(text: str, min_words: int) -> int | None:
    """64 bits that are alike for texts that are alike; None for a text too short to tell.

    No object is made for a word: 42 µs for 780 words, where hashing them one by one costs 100.
    """
    octets = text.encode("utf-8", "surrogatepass")
    votes, shingles, words = np.zeros(64, np.uint32), 0, _NO_WORDS
    for block in _blocks(octets):
        words = np.concatenate((words[1 - SHINGLE :], _words(block)))
        if len(words) >= SHINGLE:
            votes += _votes(words)
            shingles += len(words) - SHINGLE + 1
    if not shingles or shingles + SHINGLE - 1 < min_words:
        return None
    return int.from_bytes(np.packbits(votes > shingles // 2, bitorder="little").tobytes(), "little")


def _blocks(octets: bytes) -> Iterator[bytes]:
    """The text in pieces that end at a blank, if a piece has one."""
    at = 0
    while len(octets) - at > _BLOCK:
        end = octets.rfind(b" ", at, at + _BLOCK) + 1 or at + _BLOCK
        yield octets[at:end]
        at = end
    yield octets[at:] if at else octets


def _words(block: bytes) -> Numbers:
    """The hash of each word."""
    octets = np.frombuffer(b" %b " % block, np.uint8)
    blank = octets <= ord(" ")
    edges = np.flatnonzero(blank[1:] != blank[:-1])  # the last of a gap, the last of a word, and so on
    starts, ends = edges[::2], edges[1::2]
    sums = np.cumsum(octets * _POWERS[: len(octets)])
    return (sums[ends] - sums[starts]) * _INVERSES[starts]


def _votes(words: Numbers) -> Numbers:
    """How many shingles have each of the 64 bits."""
    first, second, third = words[:-2], words[1:-1], words[2:]
    mixed = (first * _MIX ^ second) * _MIX ^ third
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    rows = -(-len(mixed) // _ROW)
    shingles = np.zeros(rows * _ROW, "<u8")  # what is missing in the last row has no bits
    shingles[: len(mixed)] = mixed
    bits = np.unpackbits(shingles.view(np.uint8), bitorder="little")
    # Long rows of bytes are added fast, and up to 255 of them without carry: 8 µs instead of 24 for 780 shingles.
    counts = np.add.reduce(bits.reshape(rows, -1), axis=0, dtype=np.uint8 if rows < 256 else np.uint32)
    votes: Numbers = np.add.reduce(counts.reshape(_ROW, 64), axis=0, dtype=np.uint32)
    return votes


def distance(one: int, other: int) -> int:
    """In how many bits two SimHashes differ."""
    return (one ^ other).bit_count()


class Duplicates:
    """Finds the page that a new one repeats, among the stored ones and those still on their way to the store."""

    def __init__(self, frontier: Frontier, settings: DedupSettings) -> None:
        self._frontier = frontier
        self._settings = settings
        self._uncommitted: defaultdict[str, dict[str, Twin]] = defaultdict(dict)  # domain -> URL -> page

    async def claim(self, pages: Sequence[Page]) -> list[Twin | None]:
        """The pages that these repeat, one after the other. One that repeats none is there for all that follow.

        The store is asked once for all of them: to some it is a journey.
        """
        asked = [Likeness(page.domain, page.digest, page.simhash) for page in pages if page.size]
        stored = iter(await self._frontier.twins(asked, self._settings.distance) if asked else ())
        return [self._claim(page, next(stored)) if page.size else None for page in pages]

    def _claim(self, page: Page, stored: Twin | None) -> Twin | None:
        waiting = self._among(self._uncommitted.get(page.domain, {}).values(), page)
        twin = _nearer(page, stored, waiting)
        if twin is None:
            claimed = Twin(page.url, page.fetched_at, page.digest, page.simhash)
            self._uncommitted[page.domain][page.url] = claimed
        return twin

    def committed(self, pages: Sequence[Page]) -> None:
        """These are in the store now, which answers for them from here on."""
        for page in pages:
            waiting = self._uncommitted.get(page.domain)
            if waiting is not None:
                waiting.pop(page.url, None)
                if not waiting:
                    del self._uncommitted[page.domain]

    def _among(self, twins: Iterable[Twin], page: Page) -> Twin | None:
        best: Twin | None = None
        for twin in twins:
            near = (
                twin.simhash is not None
                and page.simhash is not None
                and distance(twin.simhash, page.simhash) <= self._settings.distance
            )
            if near or twin.digest == page.digest:
                best = _nearer(page, best, twin)
        return best


def _nearer(page: Page, one: Twin | None, other: Twin | None) -> Twin | None:
    """Of two candidates the better: the identical before the similar, the nearer before the further, the older first."""
    if one is None or other is None:
        return one or other

    def badness(twin: Twin) -> tuple[bool, int, float]:
        apart = 64 if twin.simhash is None or page.simhash is None else distance(twin.simhash, page.simhash)
        return twin.digest != page.digest, apart, twin.fetched_at

    return min(one, other, key=badness)

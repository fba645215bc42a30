"""When are two pages one? Identical payloads by digest, near-duplicates by SimHash.

SimHash (Charikar 2002; Manku, Jain and Das Sarma 2007 for the web) maps a text to 64 bits such that similar texts differ
in few of them. Features are shingles of three words. Pages are compared inside one registrable domain: mirrors of a whole
site are the archive's business, the print view and the session-id copy are ours.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import xxhash

from skitter.model import Page
from skitter.ports import Frontier, Twin
from skitter.settings import DedupSettings

SHINGLE = 3  # words
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads word hashes before they are combined


def payload_digest(payload: bytes) -> str:
    """The digest by which archives name a payload."""
    return "sha1:" + base64.b32encode(hashlib.sha1(payload, usedforsecurity=False).digest()).decode()


def simhash(text: str, min_words: int) -> int | None:
    """64 bits that are alike for texts that are alike; None for a text too short to tell."""
    words = text.encode("utf-8", "surrogatepass").split()
    if len(words) < max(min_words, SHINGLE):
        return None
    hashes = np.fromiter(map(xxhash.xxh3_64_intdigest, words), dtype=np.uint64, count=len(words))
    # Hashing each shingle's text costs three times as much as combining the hashes of its words.
    first, second, third = hashes[:-2], hashes[1:-1], hashes[2:]
    shingles = (first * _MIX ^ second) * _MIX ^ third
    shingles ^= shingles >> np.uint64(29)
    shingles *= _MIX
    bits = np.unpackbits(shingles.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    votes = np.add.reduce(bits, axis=0, dtype=np.uint32)
    return int.from_bytes(np.packbits(votes * 2 > len(shingles), bitorder="little").tobytes(), "little")


def distance(one: int, other: int) -> int:
    """In how many bits two SimHashes differ."""
    return (one ^ other).bit_count()


class Duplicates:
    """Finds the page that a new one repeats, among the stored ones and those still on their way to the store."""

    def __init__(self, frontier: Frontier, settings: DedupSettings) -> None:
        self._frontier = frontier
        self._settings = settings
        self._uncommitted: defaultdict[str, dict[str, Twin]] = defaultdict(dict)  # domain -> URL -> page

    async def claim(self, page: Page) -> Twin | None:
        """The page that this one repeats. If there is none, the next page is compared with this one too."""
        if not page.size:
            return None
        twin = self._among(self._uncommitted.get(page.domain, {}).values(), page)
        if twin is None or twin.digest != page.digest:
            stored = await self._frontier.twin(
                page.domain, page.digest, page.simhash, self._settings.distance
            )
            twin = _nearer(page, stored, twin)
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

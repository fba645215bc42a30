"""Finds duplicates: identical payloads by digest, near-duplicates by SimHash.

SimHash maps a text to 64 bits such that similar texts differ in few of them. Pages are compared within one
registrable domain: it is for print views and session-id copies, not for mirrors of whole sites.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from skitter.model import Page
from skitter.ports import Frontier, Likeness, Twin
from skitter.settings import DedupSettings

_ASSETS = 20_000  # bodies of assets that are remembered; about 6 MB


def distance(one: int, other: int) -> int:
    """The number of differing bits of two SimHashes."""
    return (one ^ other).bit_count()


class Duplicates:
    """Finds the page that a new one duplicates, among stored pages and those not stored yet."""

    def __init__(self, frontier: Frontier, settings: DedupSettings) -> None:
        self._frontier = frontier
        self._settings = settings
        self._uncommitted: defaultdict[str, dict[str, Twin]] = defaultdict(dict)  # domain -> URL -> page
        self._assets: dict[str, Twin] = {}  # by digest

    def hashed(self, pages: Sequence[Page | None]) -> Sequence[Page | None]:
        """Add the SimHash to each page, if near-duplicates are wanted."""
        if not self._settings.near:
            return pages
        from skitter.dedup.simhash import simhash  # noqa: PLC0415  it loads numpy

        min_words = self._settings.min_words
        return [page and replace(page, simhash=simhash(page.text, min_words)) for page in pages]

    async def claim(self, pages: Sequence[Page]) -> list[Twin | None]:
        """The pages that these duplicate, in order. A page that duplicates none is a candidate for those after it.

        The store is asked once for all of them, because that may be a network round trip.
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

    def claim_asset(self, page: Page) -> Twin | None:
        """The asset whose body this one repeats, so that the archive has it once. Remembered while the process runs."""
        twin = self._assets.get(page.digest) if page.size else None
        if twin is None and page.size:
            if len(self._assets) >= _ASSETS:
                del self._assets[next(iter(self._assets))]
            self._assets[page.digest] = Twin(page.url, page.fetched_at, page.digest, None)
        return twin

    def committed(self, pages: Sequence[Page]) -> None:
        """These are stored now, so the store answers for them from here on."""
        for page in pages:
            waiting = self._uncommitted.get(page.domain)
            if waiting is not None:
                waiting.pop(page.url, None)
                if not waiting:
                    del self._uncommitted[page.domain]

    def _among(self, twins: Iterable[Twin], page: Page) -> Twin | None:
        best: Twin | None = None
        digest, simhash, most = page.digest, page.simhash, self._settings.distance
        for twin in twins:
            other = twin.simhash
            if twin.digest == digest or (
                simhash is not None and other is not None and (simhash ^ other).bit_count() <= most
            ):
                best = _nearer(page, best, twin)
        return best


def _nearer(page: Page, one: Twin | None, other: Twin | None) -> Twin | None:
    """The better of two candidates: identical before similar, nearer before further, then the older."""
    if one is None or other is None:
        return one or other

    def badness(twin: Twin) -> tuple[bool, int, float]:
        apart = 64 if twin.simhash is None or page.simhash is None else distance(twin.simhash, page.simhash)
        return twin.digest != page.digest, apart, twin.fetched_at

    return min(one, other, key=badness)

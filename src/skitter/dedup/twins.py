"""When are two pages one? Identical payloads by digest, near-duplicates by SimHash.

SimHash maps a text to 64 bits such that similar texts differ in few of them. Pages are compared inside one registrable
domain: mirrors of a whole site are the archive's business, the print view and the session-id copy are ours.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from skitter.model import Page
from skitter.ports import Frontier, Likeness, Twin
from skitter.settings import DedupSettings


def distance(one: int, other: int) -> int:
    """In how many bits two SimHashes differ."""
    return (one ^ other).bit_count()


class Duplicates:
    """Finds the page that a new one repeats, among the stored ones and those still on their way to the store."""

    def __init__(self, frontier: Frontier, settings: DedupSettings) -> None:
        self._frontier = frontier
        self._settings = settings
        self._uncommitted: defaultdict[str, dict[str, Twin]] = defaultdict(dict)  # domain -> URL -> page

    def hashed(self, pages: Sequence[Page | None]) -> Sequence[Page | None]:
        """With their SimHash, if near-duplicates are looked for."""
        if not self._settings.near:
            return pages
        from skitter.dedup.simhash import simhash  # noqa: PLC0415  it loads numpy

        min_words = self._settings.min_words
        return [page and replace(page, simhash=simhash(page.text, min_words)) for page in pages]

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

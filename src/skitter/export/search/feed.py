"""Sends batches of pages to an index, from any source: a crawl directory, a topic, a test.

A source is an asynchronous iterator of batches. It is asked for the next batch when the last one is indexed,
so what follows its `yield` (storing a position, say) happens only then; an unacknowledged batch comes again,
which changes nothing, since indexing is idempotent. A page that the index refuses for good is reported and
stops nothing.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from skitter.engines.breaker import until_again
from skitter.model import Page
from skitter.ports import EngineAway, Entry, Rejected, SearchIndex
from skitter.robots import usage

PATIENCE = 180.0  # seconds that an engine may be away


@dataclass(slots=True)
class Fed:
    """Numbers of pages so far, by result."""

    indexed: int = 0
    removed: int = 0  # must not be in the index (any more): see `unwanted`
    rejected: int = 0


def unwanted(page: Page, respected: Sequence[str] = (), now: float | None = None) -> str:
    """Why a page must not be in an index; empty if it may.

    A page that asks robots not to index it (meta robots, X-Robots-Tag) is obeyed here, like robots.txt elsewhere; and
    so is one that says no to search in another way, or to a use that the settings respect.
    """
    if not page.purpose.handling.parsed:
        return f"it was fetched as {page.purpose.value}, and not read"
    if not 200 <= page.status < 300:
        return f"its status is {page.status}"
    if not page.robots.index:
        return "it asks not to be indexed (noindex)"
    end = page.robots.unavailable_after
    if end is not None and end <= (time.time() if now is None else now):
        return "it asks not to be indexed any more (unavailable_after)"
    if page.identical:
        return f"it repeats {page.duplicate_of} byte for byte"
    return usage.objection(page.statements, (usage.SEARCH, *respected)) or page.ignored


async def feed(
    batches: AsyncIterator[Sequence[Entry]],
    index: SearchIndex,
    *,
    poison: Callable[[Rejected], None],
    respected: Sequence[str] = (),
    progress: Callable[[Fed], None] = lambda _fed: None,
    patience: float = PATIENCE,
    monotonic: Callable[[], float] = time.monotonic,
) -> Fed:
    """Index every batch, in order. EngineAway if the engine stays away longer than `patience`."""
    fed = Fed()
    async for batch in batches:
        latest = {each.page.key: each for each in sorted(batch, key=_fetched_at)}
        gone = {
            key: each.page.fetched_at
            for key, each in latest.items()
            if each.unwanted or unwanted(each.page, respected)
        }
        wanted = [each for key, each in latest.items() if key not in gone]
        rejected = await _patiently(gone, wanted, index, patience, monotonic)
        fed.removed += len(gone)
        fed.rejected += len(rejected)
        fed.indexed += len(wanted) - len(rejected)
        for refused in rejected:
            poison(refused)
        progress(fed)
    return fed


def _fetched_at(entry: Entry) -> float:
    return entry.page.fetched_at


async def _patiently(
    gone: Mapping[str, float],
    wanted: Sequence[Entry],
    index: SearchIndex,
    patience: float,
    monotonic: Callable[[], float],
) -> list[Rejected]:
    """The engine's breaker decides when to try again."""
    began = monotonic()
    while True:
        try:
            await index.delete(gone)
            return await index.index(wanted)
        except EngineAway as away:
            if monotonic() - began >= patience:
                raise
            await until_again(away)

"""Frontier: what is learned of URL patterns, and that no URL is lost by it."""

from typing import Any

from msgspec.structs import replace

from skitter import reasons
from skitter.model import Page, Visit
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link, page

A = "https://a.example/"


def same(visit: Visit) -> Page:
    """A page that repeats another."""
    return replace(page(visit), text="", duplicate_of=A, identical=True)


def different(visit: Visit) -> Page:
    """A page that repeats none."""
    return replace(page(visit), text="")


async def _learner(ground: Ground) -> Owner:
    grounds: Any = ground
    learning = replace(grounds.settings.learning, patterns=True)
    grounds.settings = replace(grounds.settings, learning=learning)
    return await Owner.of(ground, delay=0.0)


async def crawl(owner: Owner, limit: int = 1000) -> list[str]:
    """Visit everything: pages below /trap/ are all the same, others differ."""
    order: list[str] = []
    while len(order) < limit and (visits := await owner.lease_pages(1)):
        visit = visits[0]
        order.append(visit.link.url)
        await owner.store(visit, (same if "/trap/" in visit.link.url else different)(visit))
        owner.now += 1
    return order


class LearningContract:
    """Needs a fixture `ground`."""

    @asynchronous
    async def test_a_pattern_that_brings_nothing_is_parked_and_everything_else_is_visited(
        self, ground: Ground
    ) -> None:
        owner = await _learner(ground)
        await owner.add(
            *(link(f"{A}trap/{n}") for n in range(100)), *(link(f"{A}page/{n}") for n in range(30))
        )
        visited = await crawl(owner)
        traps = [url for url in visited if "/trap/" in url]
        assert len(visited) - len(traps) == 30
        assert 12 <= len(traps) <= 20
        assert await owner.frontier.next_due(owner.now) is None  # the crawl is done
        counts = await owner.frontier.counts()
        assert (counts.parked, counts.queued) == (100 - len(traps), 100 - len(traps))
        waits = next(url for n in range(99, 0, -1) if (url := f"{A}trap/{n}") not in traps)
        record = await owner.frontier.url(waits, "a.example")
        assert record is not None
        assert record.reason is not None
        assert record.reason.code == reasons.PARKED
        assert "/trap/{n}" in record.reason.detail

    @asynchronous
    async def test_what_is_parked_stays_so_after_a_crash(self, ground: Ground) -> None:
        owner = await _learner(ground)
        await owner.add(*(link(f"{A}trap/{n}") for n in range(100)))
        traps = await crawl(owner)
        parked = (await owner.frontier.counts()).parked
        owner = await owner.killed(after=60)
        assert await crawl(owner) == []
        await owner.add(*(link(f"{A}trap/{n}") for n in range(100, 140)))
        assert await crawl(owner) == []
        assert (await owner.frontier.counts()).parked == parked + 40 == 140 - len(traps)

    @asynchronous
    async def test_a_few_urls_that_lead_to_no_more_are_all_visited(self, ground: Ground) -> None:
        """Some pages of a finite site are the same: it is visited whole."""
        owner = await _learner(ground)
        await owner.add(
            *(link(f"{A}page/{n}") for n in range(40)), *(link(f"{A}trap/{n}") for n in range(40))
        )
        assert len(await crawl(owner)) == 80
        assert (await owner.frontier.counts()).parked == 0

    @asynchronous
    async def test_a_seed_is_visited_whatever_its_pattern_brings(self, ground: Ground) -> None:
        owner = await _learner(ground)
        await owner.add(*(link(f"{A}trap/{n}") for n in range(100)))
        await crawl(owner)
        seed = link(f"{A}trap/seed-7", seed=True)
        await owner.add(seed)
        assert await crawl(owner) == [seed.url]

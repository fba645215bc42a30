"""Parked patterns and the settings: what waits aside comes back when learning is turned off, or when it is to be kept."""

import asyncio

import pytest
from msgspec.structs import replace

from skitter.frontier import ShardFrontier
from skitter.model import Purpose, Settlement, State, Verdict
from skitter.ports import Mark
from skitter.settings import LearningSettings, PolitenessSettings, Settings, SiteSettings
from skitter.testing.contracts.owner import allowed, link, page
from skitter.testing.reference import MemoryRows, MemoryStore, memory_frontier

A = "https://a.example/"
START = 1e6


def settings(learning=None, site=()):
    return Settings(
        politeness=PolitenessSettings(delay=0.0),
        learning=learning or LearningSettings(patterns=True),
        site=site,
    )


def opened(rows, chosen, *, far):
    rows.epoch += 1  # as a new owner has it
    return (
        ShardFrontier(MemoryStore(rows, rows.epoch), chosen)
        if far
        else memory_frontier(rows, chosen, epoch=rows.epoch)
    )


async def crawl(frontier, now=START):
    """Visit everything; no page brings anything new."""
    visited = []
    for step in range(1000):
        visits = await frontier.lease(1, now + step)
        if not visits:
            return visited
        (visit,) = visits
        if visit.link.purpose is Purpose.ROBOTS:
            done = Settlement(
                visit=visit, verdict=Verdict(state=State.CRAWLED), robots=allowed(visit.link.origin, 2e6)
            )
        else:
            visited.append(visit.link.url)
            same = replace(page(visit), text="", duplicate_of=A, identical=True)
            done = Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED), page=same, status=200)
        await frontier.settle([done], Mark(), now + step)
    raise AssertionError


async def run(rows, chosen, *, far, words, add=0, close=True, at=START):
    """One run of a crawl under some settings; what it visited, and how many URLs are parked at its end."""
    frontier = opened(rows, chosen, far=far)
    await frontier.open(at)
    await frontier.judge_again(lambda _link, reason: reason, words, at)
    if add:
        await frontier.add([link(f"{A}trap/{n}") for n in range(add)], [], at)
    visited = await crawl(frontier, at)
    parked = (await frontier.counts()).parked
    await (frontier.close(at + 1000) if close else frontier.abandon())
    return visited, parked


OFF = settings(LearningSettings(patterns=False))
KEEP = settings(LearningSettings(patterns=True, keep=("/trap/*",)))
KEEP_SITE = settings(site=(SiteSettings("a.example", {"learning.keep": ("/trap/*",)}),))
OTHER = settings(LearningSettings(patterns=True, keep=("/elsewhere/*",)))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("wider", [OFF, KEEP, KEEP_SITE])
def test_members_come_back_when_learning_is_turned_off_or_they_are_to_be_kept(far, wider):
    async def ask():
        rows = MemoryRows()
        first, parked = await run(rows, settings(), far=far, words="1", add=100, close=False)
        assert parked == 100 - len(first) > 70
        again, left = await run(rows, wider, far=far, words="2", at=START + 5000)
        assert left == 0
        assert sorted(first + again) == sorted(f"{A}trap/{n}" for n in range(100))

    asyncio.run(ask())


@pytest.mark.parametrize("far", [False, True])
def test_other_urls_to_be_kept_change_nothing(far):
    async def ask():
        rows = MemoryRows()
        _, parked = await run(rows, settings(), far=far, words="1", add=100)
        assert await run(rows, OTHER, far=far, words="2", at=START + 5000) == ([], parked)

    asyncio.run(ask())


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("first", [OFF, KEEP])
def test_what_was_kept_before_is_parked_when_learning_is_turned_on(far, first):
    async def ask():
        rows = MemoryRows()
        frontier = opened(rows, first, far=far)
        await frontier.open(START)
        await frontier.judge_again(lambda _link, reason: reason, "1", START)
        await frontier.add([link(f"{A}trap/{n}") for n in range(100)], [], START)
        await frontier.close(START)
        visited, parked = await run(rows, settings(), far=far, words="2", at=START + 5000)
        assert parked == 100 - len(visited) > 70

    asyncio.run(ask())

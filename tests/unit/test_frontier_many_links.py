"""A page with very many links: most are added before it is settled, with turns for the loop, and nobody can tell."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skitter.frontier import verbs
from skitter.model import Link, Reason, State, Visit
from skitter.testing.contracts.owner import CRAWLED, Owner, link, page
from tests.contract.grounds import AtHandGround, RocksGround

A = "https://a.example/"
NO = Reason("scope.host", "not ours")
SHARDS = 3

GROUNDS: dict[str, Any] = {"memory": AtHandGround, "rocksdb": RocksGround}


def found() -> tuple[list[Link], list[tuple[Link, Reason]]]:
    """Own and foreign links, repeated ones, the page itself, and refused ones, some of which are wanted elsewhere."""
    wanted = [link(f"https://h{number % 7}.example/{number}", depth=1) for number in range(4500)]
    wanted += [link(A + "start"), *wanted[:1500], *(link(each.url, depth=1) for each in wanted[1000:2000])]
    refused = [(link(f"https://x.example/{number}", depth=1), NO) for number in range(1500)]
    return wanted, [*refused, *refused[:100], *((each, NO) for each in wanted[:200])]


async def settled(ground: Any, *, turns: list[int] | None = None) -> dict[str, Any]:
    """Everything known after such a page."""
    owner = await Owner.of(ground, shards=SHARDS, shard=0)
    mine = next(name for name in map("https://m{}.example/".format, range(99)) if _is_own(owner, name))
    await owner.add(mine + "1", mine + "2")
    owner.now += 1
    first = await owner.lease_page()
    wanted, refused = found()
    ticking = asyncio.ensure_future(_tick(turns)) if turns is not None else None
    assert await owner.store(first, links=wanted, refused=refused)
    if ticking is not None:
        ticking.cancel()
    owner.now += 10
    assert not await owner.settle(first, CRAWLED, page=page(first), links=[link(A + "late")] * 9000)
    owner = await owner.killed(after=10)
    frontier = owner.frontier
    return {
        "counts": replace(await frontier.counts(), elapsed=0.0),
        "urls": sorted([record async for record in frontier.urls()], key=lambda record: record.key),
        "links": sorted([pair async for pair in frontier.links()]),
        "hosts": sorted([host async for host in frontier.hosts()], key=lambda host: host.host),
        "outbox": sorted(each.url for _, each in await frontier.outbox(10_000)),
    }


def _is_own(owner: Owner, url: str) -> bool:
    return not owner.frontier._names.host(url[8:-1]).foreign  # type: ignore[attr-defined]


async def _leased(owner: Owner, url: str) -> Visit:
    """The visit of this URL, once it is its turn."""
    for _ in range(100):
        owner.now += 10
        for visit in await owner.lease_pages(8):
            if visit.link.url == url:
                return visit
            await owner.store(visit)
    raise AssertionError(f"{url} is not visited again")


async def _tick(turns: list[int]) -> None:
    while True:
        turns.append(1)
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", GROUNDS)
def test_it_is_settled_like_any_other(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    in_pieces = asyncio.run(settled(GROUNDS[kind](tmp_path / "pieces"), turns=turns))
    monkeypatch.setattr(verbs, "_TOGETHER", 10**9)
    none: list[int] = []
    at_once = asyncio.run(settled(GROUNDS[kind](tmp_path / "at once"), turns=none))
    assert in_pieces == at_once
    counts = in_pieces["counts"]
    assert counts.outbox > 1000
    assert counts.seen == counts.added + counts.known + sum(counts.refused.values())
    assert len(none) <= 1
    assert len(turns) >= 8


@pytest.mark.parametrize("kind", GROUNDS)
def test_killed_in_the_middle_its_links_are_there_and_the_page_is_visited_again(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        ground = GROUNDS[kind](tmp_path / "state")
        owner = await Owner.of(ground)
        await owner.add(A + "start")
        visit = await owner.lease_page()
        wanted, refused = found()
        settling = asyncio.ensure_future(owner.store(visit, links=wanted, refused=refused))
        for _ in range(4):
            await asyncio.sleep(0)
        settling.cancel()
        await asyncio.wait([settling])
        assert settling.cancelled()
        added = (await owner.frontier.counts()).added
        assert 1 < added < 4500
        owner = await owner.killed(after=10)
        assert (await owner.frontier.counts()).added == added
        assert (await owner.url(A + "start")).state is State.QUEUED
        assert await owner.store(await _leased(owner, A + "start"), links=wanted, refused=refused)
        counts = await owner.frontier.counts()
        assert counts.added == 4501
        assert len([pair async for pair in owner.frontier.links()]) == 4500 + 1500 + 1

    asyncio.run(main())

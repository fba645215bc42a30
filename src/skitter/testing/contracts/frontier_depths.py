"""Depths, where settings limit them: a URL is as deep as the shortest way to it, whichever way was found first."""

import pytest
from msgspec.structs import replace

from skitter import urls
from skitter.model import Link, Reason, State
from skitter.ports import Judge
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link, page

A, B = "https://a.example/", "https://b.example/"
DEEP = Reason("scope.depth", "too deep")


def _no_deeper_than(limit: int) -> Judge:
    return lambda one, _reason: DEEP if one.depth > limit else None


async def _limited(ground: Ground, limit: int | None, **options: int) -> Owner:
    """An owner with this limit."""
    _set(ground, limit)
    owner = await Owner.of(ground, delay=0.0, **options)
    await _judge(owner, limit)
    return owner


def _set(ground: Ground, limit: int | None) -> None:
    settings = ground.settings  # type: ignore[attr-defined]
    ground.settings = replace(settings, scope=replace(settings.scope, max_depth=limit))  # type: ignore[attr-defined]


async def _judge(owner: Owner, limit: int | None) -> None:
    await owner.frontier.judge_again(_no_deeper_than(99 if limit is None else limit), str(limit), owner.now)


async def _visit(owner: Owner, url: str, *links: str, deep: str = "") -> None:
    """Store a page that leads to others, and to one that is refused as too deep."""
    visit = await owner.lease_page()
    assert visit.link.url == url
    below = [link(each, depth=visit.link.depth + 1, parent=url) for each in links]
    refused = [(link(deep, depth=visit.link.depth + 1, parent=url), DEEP)] if deep else []
    await owner.store(visit, links=below, refused=refused)


async def _depth(owner: Owner, url: str) -> int:
    return (await owner.url(url)).depth


class DepthContract:
    """Needs a fixture `ground` with settings."""

    @asynchronous
    async def test_a_shorter_way_to_a_crawled_page_is_one_to_all_behind_it(self, ground: Ground) -> None:
        owner = await _limited(ground, 3)
        await owner.add(link(A + "1", depth=2))
        await _visit(owner, A + "1", A + "2")
        await _visit(owner, A + "2", deep=A + "3")
        assert await owner.lease() == []
        await owner.add(link(A + "1", depth=1, parent=B))
        assert (await owner.url(A + "1")).parent == B
        assert [await _depth(owner, A + name) for name in "123"] == [1, 2, 3]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.depths) == (1, {}, {1: 1, 2: 1})
        owner = await owner.killed()
        stored = await owner.frontier.page(A + "2", "a.example")
        assert stored is not None
        assert stored.depth == 2
        visit = await owner.lease_page()
        assert (visit.link.url, visit.link.depth) == (A + "3", 3)

    @asynchronous
    async def test_a_shorter_way_found_by_a_page_counts_like_one_that_is_added(self, ground: Ground) -> None:
        owner = await _limited(ground, 2)
        await owner.add(link(A + "1", depth=2))
        await _visit(owner, A + "1", deep=A + "2")
        await owner.add(link(B, depth=0))
        await _visit(owner, B, A + "1")
        assert await owner.crawl() == [A + "2"]

    @asynchronous
    async def test_a_way_that_settings_refuse_still_makes_a_depth_lesser(self, ground: Ground) -> None:
        """Settings that allow more know by it what they want."""
        owner = await _limited(ground, 1)
        await owner.add(link(A + "1", depth=1), refused=[(link(B + "1", depth=9), DEEP)])
        await _visit(owner, A + "1", deep=B + "1")
        assert await _depth(owner, B + "1") == 2
        await owner.add(refused=[(link(B + "1", depth=1), Reason("nofollow", "as the page asks"))])
        await owner.frontier.close()
        owner = await _limited(ground, 2)
        assert await owner.crawl() == [B + "1"]

    @asynchronous
    async def test_a_shorter_way_that_is_found_during_a_visit(self, ground: Ground) -> None:
        owner = await _limited(ground, 2)
        await owner.add(link(A + "1", depth=2))
        visit = await owner.lease_page()
        await owner.add(link(A + "1", depth=1))
        await owner.store(visit, refused=[(link(A + "2", depth=3, parent=A + "1"), DEEP)])
        assert [await _depth(owner, A + name) for name in "12"] == [1, 2]
        assert await owner.crawl() == [A + "2"]

    @asynchronous
    async def test_a_lesser_depth_survives_a_crash_during_the_visit(self, ground: Ground) -> None:
        owner = await _limited(ground, 2)
        await owner.add(link(A + "1", depth=2))
        await owner.lease_page()
        await owner.add(link(A + "1", depth=1))
        owner = await owner.killed(after=60)
        await _judge(owner, 2)
        visit = await owner.lease_page()
        assert (visit.link.url, visit.link.depth) == (A + "1", 1)
        assert await owner.store(visit)

    @asynchronous
    async def test_a_waiting_url_keeps_its_place_when_its_way_is_shorter(self, ground: Ground) -> None:
        owner = await _limited(ground, 5)
        await owner.add(*(link(A + name, depth=5, score=2.0) for name in "123"))
        await owner.add(link(A + "2", depth=1, score=1.0))
        owner = await owner.killed()
        await _judge(owner, 5)
        visits = [await owner.lease_page()]
        await owner.store(visits[0])
        visits.append(await owner.lease_page())
        assert [(visit.link.url, visit.link.depth) for visit in visits] == [(A + "1", 5), (A + "2", 1)]

    @asynchronous
    async def test_a_redirect_is_no_step(self, ground: Ground) -> None:
        owner = await _limited(ground, 2)
        await owner.add(link(A + "old", depth=2))
        visit = await owner.lease_page()
        await owner.settle(visit, status=301, links=[link(A + "new", depth=2, parent=A + "old")])
        await _visit(owner, A + "new", deep=A + "2")
        await owner.add(link(A + "old", depth=1))
        assert [await _depth(owner, A + name) for name in ("old", "new", "2")] == [1, 1, 2]
        assert await owner.crawl() == [A + "2"]

    @asynchronous
    async def test_a_page_of_two_ways_is_as_deep_as_the_shorter(self, ground: Ground) -> None:
        """Pages that lead to each other end the search."""
        owner = await _limited(ground, 6)
        await owner.add(link(A + "1", depth=4))
        await _visit(owner, A + "1", A + "2")
        await _visit(owner, A + "2", A + "1", A + "3")
        await _visit(owner, A + "3", A + "1", A + "2")
        await owner.add(link(A + "3", depth=0))
        assert [await _depth(owner, A + name) for name in "123"] == [1, 1, 0]

    @asynchronous
    async def test_a_link_to_another_shard_is_sent_again_at_a_lesser_depth(self, ground: Ground) -> None:
        mine = urls.shard("a.example", 2)
        names = (f"other{number}.example" for number in range(1000))
        other = f"https://{next(name for name in names if urls.shard(name, 2) != mine)}/"
        owner = await _limited(ground, 4, shard=mine, shards=2)
        await owner.add(link(A + "1", depth=3))
        await _visit(owner, A + "1", other)
        assert await _sent(owner, ground, other) == [4]
        await owner.add(link(other, depth=4), link(other, depth=5))
        await owner.add(link(A + "1", depth=1))
        assert await _sent(owner, ground, other) == [4, 2]
        owner = await owner.killed()
        await owner.add(link(other, depth=1), link(other, depth=2))
        assert await _sent(owner, ground, other) == [4, 2, 1]

    @asynchronous
    async def test_depths_are_made_up_for_when_settings_begin_to_limit_them(self, ground: Ground) -> None:
        owner = await _limited(ground, None)
        await owner.add(link(A + "1", depth=5))
        await _visit(owner, A + "1", A + "2")
        await _visit(owner, A + "2", A + "3", A + "4")
        await owner.add(link(B, depth=0))
        visit = await owner.lease_page()
        while visit.link.url != B:
            await owner.store(visit)
            visit = await owner.lease_page()
        await owner.store(visit, links=[link(A + "1", depth=1, parent=B)])
        await owner.frontier.close()
        owner = await _limited(ground, 3)
        assert [await _depth(owner, A + name) for name in "1234"] == [1, 2, 3, 3]
        await owner.crawl()
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.queued, counts.refused) == (5, 0, {})

    @asynchronous
    async def test_a_crash_between_two_pages_that_tell_their_links_loses_nothing(
        self, ground: Ground
    ) -> None:
        owner = await _limited(ground, 2)

        def crashes(_link: Link, _reason: Reason | None) -> Reason | None:
            raise ZeroDivisionError

        await owner.add(link(A + "1", depth=2))
        await _visit(owner, A + "1", deep=A + "2")
        await owner.frontier.judge_again(crashes, "2", owner.now)
        with pytest.raises(ZeroDivisionError):
            await owner.add(link(A + "1", depth=1))
        owner = await owner.killed()
        assert (await owner.url(A + "1")).depth == 1
        assert (await owner.url(A + "2")).state is State.REFUSED
        await _judge(owner, 2)
        assert await owner.crawl() == [A + "2"]

    @asynchronous
    async def test_without_a_limit_the_first_way_decides(self, ground: Ground) -> None:
        """Nothing is looked up for depths that no setting asks for."""
        owner = await _limited(ground, None)
        await owner.add(link(A + "1", depth=2))
        visit = await owner.lease_page()
        await owner.store(visit, page(visit))
        await owner.add(link(A + "1", depth=1))
        assert await _depth(owner, A + "1") == 2


async def _sent(owner: Owner, ground: Ground, url: str) -> list[int]:
    """The depths at which a link was sent to another shard, in order."""
    sent = getattr(ground, "sent", None) or [each for _, each in await owner.frontier.outbox(100)]
    return [each.depth for each in sent if each.url == url]

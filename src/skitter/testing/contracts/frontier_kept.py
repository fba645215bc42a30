"""Frontier: what is kept of a URL besides its state, through every way it may go."""

from msgspec.structs import replace

from skitter.model import Hints, Link, Purpose, Reason, State, Verdict
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, exchange, link, page

A, B = "https://a.example/", "https://b.example/"
HINTS = Hints(lastmod=1_714_521_600.5, priority=0.8, rel=("next", "author"))


def hinted(url: str, hints: Hints = HINTS, **fields: float) -> Link:
    """A link about which something was said."""
    return replace(link(url), hints=hints, **fields)


class KeptContract:
    """Hints and purposes."""

    @asynchronous
    async def test_hints_come_back_with_every_visit_and_stay_in_the_record(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), link(A + "2", score=-1.0))
        owner = await owner.killed()
        first = await owner.lease_page()
        assert first.link.hints == HINTS
        await owner.settle(first, Verdict(state=State.QUEUED, due=owner.now + 5))  # tried again later
        plain = await owner.lease_page()
        assert plain.link.hints is None
        await owner.store(plain)
        owner = await owner.restarted(after=5)
        again = await owner.lease_page()
        assert (again.link.url, again.link.hints) == (A + "1", HINTS)
        await owner.store(again)
        owner = await owner.killed()
        assert (await owner.url(A + "1")).hints == HINTS
        assert (await owner.url(A + "2")).hints is None

    @asynchronous
    async def test_hints_of_refused_links_and_of_links_set_aside_are_kept(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), hinted(A + "2"), refused=[(hinted(B), Reason("scope.host", "no"))])
        aside = Verdict(state=State.FAILED, reason=Reason("x"), host_aside=Reason("retry-after", "a week"))
        await owner.settle(await owner.lease_page(), aside)
        owner = await owner.killed()
        for url in (A + "1", A + "2", B):
            assert (await owner.url(url)).hints == HINTS

    @asynchronous
    async def test_the_hints_of_the_first_link_to_a_url_stay(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), link(A + "2"))
        await owner.add(hinted(A + "1", Hints(priority=0.1)), hinted(A + "2", score=5.0))
        assert (await owner.url(A + "1")).hints == HINTS
        assert (await owner.url(A + "2")).hints is None

    # -- purposes ----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_every_purpose_comes_back_with_the_visit_and_stays_in_the_record(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        purposes = {A + each.value: each for each in Purpose if each is not Purpose.ROBOTS}
        await owner.add(*(_for(purpose, url) for url, purpose in purposes.items()))
        for url in purposes:
            owner = await owner.killed()
            owner.now += 10
            visit = await owner.lease_page()
            assert (visit.link.url, visit.link.purpose) == (url, purposes[url])
            await owner.store(visit)
        assert {one.url: one.purpose async for one in owner.frontier.urls()} == purposes
        assert {one.url: one.purpose async for one in owner.frontier.pages()} == purposes

    @asynchronous
    async def test_the_robots_txt_of_an_origin_comes_before_everything_else_of_it(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(_for(Purpose.ASSET, A + "1"))
        (visit,) = await owner.lease()
        assert (visit.link.purpose, visit.link.url) == (Purpose.ROBOTS, A + "robots.txt")

    @asynchronous
    async def test_what_is_no_page_counts_as_none_and_stands_for_none(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=3)
        await owner.add(*(_for(purpose, f"{A}{purpose.value}") for purpose in (Purpose.PROBE, Purpose.ASSET)))
        await owner.add(link(A + "page", score=-1.0))
        visits = await owner.lease_pages(3)
        while len(visits) < 3:
            owner.now += 1
            visits += await owner.lease_pages(3)
        assert [visit.host_pages for visit in visits] == [0, 0, 0]  # of those in flight, none will be a page
        for visit in visits:
            found = page(visit, digest="sha1:x", status=404 if visit.link.purpose is Purpose.PROBE else 200)
            await owner.store(visit, found, exchange=exchange(visit.link.url))
        owner = await owner.killed()
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.processed, counts.depths) == (1, 1, {0: 1})
        assert (counts.others, counts.statuses, counts.not_found) == ({"asset": 1, "probe": 1}, {200: 1}, 0)
        assert (counts.crawled, counts.requests) == (3, 3)
        host = await owner.frontier.host("a.example")
        assert host is not None
        assert host.pages == 1
        twin = await owner.frontier.twin("a.example", "sha1:x", None, 0)
        assert twin is not None
        assert twin.url == A + "page"

    @asynchronous
    async def test_a_seed_named_for_another_purpose_is_fetched_for_that_one(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        probe = [replace(_for(Purpose.PROBE, A + name), seed=True) for name in "12"]
        await owner.add(*probe)
        await owner.settle(
            first := await owner.lease_page(),
            Verdict(state=State.CRAWLED, due=owner.now + 5),
            page=page(first),
            status=200,
        )
        owner = await owner.killed()
        await owner.add(link(A + "1"), link(A + "2"))  # found on a page: nothing changes
        assert {one.purpose async for one in owner.frontier.urls()} == {Purpose.PROBE}
        await owner.add(*(replace(link(each.url), seed=True) for each in probe))
        owner = await owner.killed(after=10)
        owner.now += 10
        visits = [await owner.lease_page()]
        await owner.store(visits[0])
        visits.append(await owner.lease_page())
        await owner.store(visits[1])
        assert sorted((visit.link.url, visit.link.purpose) for visit in visits) == [
            (A + "1", Purpose.PAGE),
            (A + "2", Purpose.PAGE),
        ]
        assert await owner.crawl() == []
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.others, counts.crawled, counts.queued) == (2, {}, 2, 0)


def _for(purpose: Purpose, url: str) -> Link:
    return replace(link(url), purpose=purpose)

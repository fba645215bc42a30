"""Frontier: what is kept of a URL besides its state, through every way it may go."""

from msgspec.structs import replace

from skitter.model import Hints, Link, Place, Purpose, Reason, State, Verdict
from skitter.ports import Mark
from skitter.reasons import RETRY_AFTER
from skitter.testing.contracts.owner import START, Ground, Owner, asynchronous, exchange, link, page

A, B = "https://a.example/", "https://b.example/"
HINTS = Hints(lastmod=1_714_521_600.5, priority=0.8, rel=("next", "author"))


def hinted(url: str, hints: Hints = HINTS, **fields: float) -> Link:
    """A link about which something was said."""
    return replace(link(url), hints=hints, **fields)


class KeptContract:
    """Hints, purposes, validators and recrawls."""

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
        for url, purpose in purposes.items():
            owner = await owner.killed()
            owner.now += 10
            visit = await owner.lease_page()
            assert (visit.link.url, visit.link.purpose) == (url, purpose)
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

    # -- validators --------------------------------------------------------------------------------------------

    @asynchronous
    async def test_validators_are_kept_as_sent_whatever_was_sent(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        sent = {
            A + "1": ('W/"v1"', "Wed, 01 May 2024 12:00:00 GMT"),
            A + "2": ('"' + "x" * 998 + '"', "yesterday"),
            A + "3": ('"\x00\x01\t\u00ff\u2028"', "\x7f" * 50),
            A + "4": ("", ""),
        }
        await owner.add(*sent)
        for _ in sent:
            visit = await owner.lease_page()
            etag, last_modified = sent[visit.link.url]
            await owner.store(visit, replace(page(visit), etag=etag, last_modified=last_modified))
        owner = await owner.killed()
        for url, validators in sent.items():
            stored = await owner.frontier.page(url, "a.example")
            assert stored is not None
            assert (stored.etag, stored.last_modified) == validators

    @asynchronous
    async def test_a_visit_says_whether_its_url_was_answered_before(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        first = await owner.lease_page()
        await owner.settle(first, Verdict(state=State.QUEUED, due=owner.now + 5), status=503)
        owner.now += 5
        retry = await owner.lease_page()
        await owner.settle(retry, _due(owner.now + 5), page=page(retry), status=200)
        owner = await owner.killed(after=5)
        again = await owner.lease_page()
        assert [visit.recrawl for visit in (first, retry, again)] == [False, False, True]

    @asynchronous
    async def test_an_answer_without_a_page_leaves_the_stored_one_as_it_is(self, ground: Ground) -> None:
        """It was not modified."""
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        stored = replace(page(visit, digest="sha1:x"), etag='"v1"', archive=Place("00-00001.warc.gz", 0, 100))
        await owner.settle(visit, _due(owner.now + 5), page=stored, links=[link(B)], status=200)
        owner = await owner.killed(after=5)
        await owner.settle(
            again := await owner.lease_page(), Verdict(state=State.CRAWLED), status=304, exchange=exchange(A)
        )
        assert again.link.url == A + "1"
        owner = await owner.killed()
        assert await owner.frontier.page(A + "1", "a.example") == replace(stored, text="")
        assert [pair async for pair in owner.frontier.links()] == [(A + "1", B)]
        record = await owner.url(A + "1")
        assert (record.state, record.status, record.crawl_count) == (State.CRAWLED, 304, 2)
        assert record.last_crawl == owner.now
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.crawled, counts.statuses) == (1, 1, {200: 1, 304: 1})
        assert await owner.frontier.twin("a.example", "sha1:x", None, 0) is not None

    @asynchronous
    async def test_a_page_that_the_archive_lost_is_fetched_again_and_gone_until_then(
        self, ground: Ground
    ) -> None:
        """So that nobody asks whether it has changed since."""
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        await owner.store(visit, replace(page(visit), etag='"v1"'))
        await owner.frontier.reopen(Mark(owner.mark.file, 50), owner.now)
        owner = await owner.killed()
        assert await owner.frontier.page(A + "1", "a.example") is None
        again = await owner.lease_page()
        assert again.link.url == A + "1"
        assert await owner.frontier.page(A + "1", "a.example") is None

    # -- recrawls ----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_recrawl_comes_at_its_time_not_before_and_once_whatever_ends_its_owner(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        told = replace(hinted(A + "1"), purpose=Purpose.ASSET)
        await owner.add(told)
        visit, due = await owner.lease_page(), owner.now + 100
        await owner.settle(visit, _due(due), page=page(visit), status=200)
        await owner.add(A + "1", link(A + "1", score=9.0))  # a link to it does not bring it back sooner
        for way in ("killed", "restarted"):
            owner = await getattr(owner, way)()
            owner.now = due - 0.5
            assert await owner.lease_pages() == []
            assert await owner.frontier.next_due(owner.now) is None
            assert (await owner.url(A + "1")).next_crawl == due
        owner = await owner.killed()
        owner.now = due
        assert await owner.frontier.next_due(owner.now) == due
        again = await owner.lease_page()
        assert (again.link.url, again.link.hints, again.link.purpose) == (told.url, HINTS, Purpose.ASSET)
        assert await owner.lease_pages() == []
        owner = await owner.killed(after=1)  # while it was out: it is handed out again
        owner.now += 1
        again = await owner.lease_page()
        assert again.recrawl
        await owner.store(again)
        owner = await owner.killed(after=1000)
        assert await owner.lease_pages() == []
        record = await owner.url(A + "1")
        assert (record.crawl_count, record.next_crawl, record.state) == (2, None, State.CRAWLED)
        counts = await owner.frontier.counts()
        assert (counts.crawled, counts.queued, counts.others) == (1, 0, {"asset": 1})

    @asynchronous
    async def test_recrawls_of_a_host_set_aside_wait_until_it_is_taken_back_and_come_once(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", link(A + "3", score=-1.0))
        for wait in (50, 5000):
            visit = await owner.lease_page()
            await owner.settle(visit, _due(owner.now + wait), page=page(visit), status=200)
        aside = Verdict(state=State.FAILED, reason=Reason("x"), host_aside=Reason(RETRY_AFTER, "a week"))
        await owner.settle(await owner.lease_page(), aside)
        owner.now += 100
        assert await owner.lease_pages() == []
        assert await owner.frontier.next_due(owner.now) is None
        owner = await owner.killed(after=1)
        assert await owner.lease_pages() == []
        await owner.add(replace(link(A + "new"), seed=True))  # a person names its host again
        owner = await owner.restarted(after=1)
        assert sorted(await owner.crawl()) == [A + "1", A + "new"]
        owner.now += 5000
        assert await owner.crawl() == [A + "2"]
        owner = await owner.killed(after=5000)
        assert await owner.crawl() == []
        counts = await owner.frontier.counts()
        assert (counts.crawled, counts.queued, counts.hosts_aside) == (3, 0, 0)

    @asynchronous
    async def test_many_recrawls_of_one_moment_all_come_back_and_each_once(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        every = [f"{A}{number}" for number in range(120)]
        await owner.add(*every)
        for _ in every:
            visit = await owner.lease_page()
            await owner.settle(visit, _due(START + 500), page=page(visit), status=200)
        assert await owner.lease_pages() == []
        owner = await owner.killed()
        owner.now = START + 500
        assert sorted(await owner.crawl(500)) == sorted(every)
        assert await owner.frontier.next_due(owner.now) is None


def _due(when: float) -> Verdict:
    return Verdict(state=State.CRAWLED, due=when)


def _for(purpose: Purpose, url: str) -> Link:
    return replace(link(url), purpose=purpose)

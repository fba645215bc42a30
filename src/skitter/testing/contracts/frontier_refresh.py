"""Frontier: pages that are fetched again and again, whatever ends their owner."""

from itertools import pairwise
from typing import Any, Protocol

from msgspec.structs import replace

from skitter.model import Again, Hints, Link, Purpose, Reason, State, Verdict, Visit
from skitter.ports import Command, Do
from skitter.settings import Settings
from skitter.testing.contracts.owner import DAY, Ground, Owner, asynchronous, exchange, link, page

A = "https://a.example/"
TODAY = 1_700_000_000.0
_FAILED = Verdict(state=State.FAILED, reason=Reason("timeout", "no answer"))


class SettingsGround(Ground, Protocol):
    """A ground whose settings a test may change before it is opened."""

    settings: Settings


async def recrawling(ground: SettingsGround, now: float = TODAY, **schedule: Any) -> Owner:  # noqa: ANN401  settings
    """The owner of a frontier that fetches pages again."""
    ground.settings = replace(ground.settings, schedule=replace(ground.settings.schedule, **schedule))
    return await Owner.of(ground, now)


async def answered(owner: Owner, visit: Visit, gist: bytes = b"same", status: int = 200) -> None:
    """The page is there, with this content."""
    found = replace(page(visit, status=status, at=owner.now), etag='"v"' if gist == b"same" else repr(gist))
    sent = replace(exchange(visit.link.url), started=owner.now, ended=owner.now)
    await owner.store(visit, found, gist=gist, exchange=sent)


async def next_visit(owner: Owner) -> Visit:
    """The next visit, as soon as it is due."""
    for _ in range(100):
        due = await owner.frontier.next_due(owner.now)
        assert due is not None, "a crawl that fetches pages again is never done"
        owner.now = max(owner.now, due)
        if visits := await owner.lease_pages(1):
            return visits[0]
        owner.now += 0.25  # it was leased ahead of its time
    raise AssertionError("nothing is handed out when it is due")


class RefreshContract:
    """Recrawls: each visit once, at its time, and nothing that was learnt is lost."""

    @asynchronous
    async def test_a_page_comes_back_after_the_time_that_was_set_and_never_ends(
        self, ground: SettingsGround
    ) -> None:
        owner = await recrawling(ground, recrawl="12h")
        await owner.add(A + "1")
        await answered(owner, await owner.lease_page())
        for number in range(1, 5):
            last = owner.now
            owner = await owner.killed()
            owner.now = last + DAY / 2 - 60
            assert await owner.lease_pages() == []
            visit = await next_visit(owner)
            assert visit.recrawl
            assert last + DAY / 2 - 2 <= owner.now <= last + DAY / 2 + 2
            assert await owner.lease_pages() == []
            owner = await owner.killed(after=5)  # while it is out
            visit = await next_visit(owner)
            await answered(owner, visit)
            record = await owner.url(A + "1")
            assert (record.crawl_count, record.state) == (number + 1, State.CRAWLED)
        counts = await owner.frontier.counts()
        assert (counts.crawled, counts.queued, counts.again[Again.PAGES]) == (1, 0, 1)
        assert (counts.again[Again.VISITS], counts.again[Again.SAME]) == (4, 4)
        assert record.watch is not None
        assert [what for _, what in record.watch.visits] == ["new (200)", *["same (200)"] * 4]

    @asynchronous
    async def test_level_and_score_of_a_page_are_what_they_were(self, ground: SettingsGround) -> None:
        owner = await recrawling(ground, recrawl="1h")
        await owner.add(link(A + "1", score=7.0, depth=3))
        first = await owner.lease_page()
        await answered(owner, first)
        again = await next_visit(owner)
        assert (again.link.level, again.link.score, again.link.depth) == (first.link.level, 7.0, 3)
        assert (await owner.url(A + "1")).score == 7.0
        await owner.settle(again, Verdict(state=State.QUEUED, due=owner.now + 9), status=503)
        owner = await owner.killed()
        retry = await next_visit(owner)
        assert (retry.link.score, retry.attempt, retry.recrawl) == (7.0, 2, True)
        await answered(owner, retry)
        assert (await owner.url(A + "1")).score == 7.0

    @asynchronous
    async def test_a_page_that_cannot_be_fetched_again_stays_and_is_tried_at_its_next_time(
        self, ground: SettingsGround
    ) -> None:
        owner = await recrawling(ground, recrawl="1h")
        await owner.add(A + "1")
        await answered(owner, await owner.lease_page())
        await owner.settle(await next_visit(owner), _FAILED)
        owner = await owner.killed()
        record = await owner.url(A + "1")
        assert (record.state, record.status, record.crawl_count) == (State.CRAWLED, 200, 1)
        assert record.reason is not None
        await answered(owner, await next_visit(owner))
        assert (await owner.url(A + "1")).reason is None
        assert (await owner.frontier.counts()).failed == 0

    @asynchronous
    async def test_what_is_gone_is_visited_ever_more_rarely(self, ground: SettingsGround) -> None:
        owner = await recrawling(ground, recrawl="1h")
        await owner.add(A + "1")
        await answered(owner, await owner.lease_page())
        times = []
        for _ in range(4):
            await answered(owner, await next_visit(owner), b"", status=404)
            times.append(owner.now)
            owner = await owner.killed()
        waits = [round((after - before) / 3600) for before, after in pairwise(times)]
        assert waits == [1, 2, 4]
        counts = await owner.frontier.counts()
        assert counts.again[Again.GONE] == 4
        await answered(owner, await next_visit(owner))  # it is back
        watch = (await owner.url(A + "1")).watch
        assert watch is not None
        assert (watch.gone, watch.every) == (0, 3600.0)

    @asynchronous
    async def test_new_pages_and_known_ones_share_the_requests_of_a_host(
        self, ground: SettingsGround
    ) -> None:
        owner = await recrawling(ground, recrawl="1h", refresh_share=0.25)
        await owner.add(*(f"{A}old{number}" for number in range(8)))
        for _ in range(8):
            await answered(owner, await next_visit(owner))
        await owner.add(*(f"{A}new{number}" for number in range(24)))
        owner.now += 3600
        order = []
        for _ in range(24):
            visit = await next_visit(owner)
            order.append(visit.recrawl)
            await answered(owner, visit)
        assert sum(order) == 6
        assert any(order[:5])

    @asynchronous
    async def test_one_more_round_takes_every_page_once_and_the_crawl_is_done(self, ground: Ground) -> None:
        owner = await Owner.of(ground, TODAY)
        every = [f"{A}{number}" for number in range(7)]
        await owner.add(*every)
        assert len(await owner.crawl()) == 7
        owner.now += 1000
        command = Command(1, Do.REFRESH, at=owner.now)
        (told,) = await owner.frontier.obey([command], owner.now)
        assert told.changed == 7
        owner.now += 1
        assert await owner.crawl(3)
        owner = await owner.killed(after=10)
        assert await owner.frontier.obey([command], owner.now) == []
        owner.now += 1
        await owner.crawl()
        assert [(await owner.url(url)).crawl_count for url in every] == [2] * 7
        assert await owner.frontier.next_due(owner.now + 1e6) is None

    # -- adaptive ----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_page_that_changes_is_visited_more_often_than_one_that_does_not(
        self, ground: SettingsGround
    ) -> None:
        owner = await recrawling(ground, recrawl="adaptive", refresh_rate=1.0)
        pages = [f"{A}{number}" for number in range(6)]
        await owner.add(*pages)
        visits = dict.fromkeys(pages, 0)
        end = owner.now + 80 * DAY
        while owner.now < end:
            visit = await next_visit(owner)
            day = int((owner.now - TODAY) / DAY / 3)  # the first page changes every three days
            await answered(owner, visit, str(day).encode() if visit.link.url == pages[0] else b"same")
            visits[visit.link.url] += 1
            if sum(visits.values()) % 50 == 0:
                owner = await owner.killed(after=1)
        others = sorted(visits[url] for url in pages[1:])
        assert visits[pages[0]] > 1.5 * others[2]
        assert others[0] > 1  # nobody starves
        assert 0.6 * 480 < sum(visits.values()) < 1.2 * 480
        counts = await owner.frontier.counts()
        assert 0 < counts.again[Again.FRESH] <= counts.again[Again.WEIGHT]

    @asynchronous
    async def test_validators_that_lie_are_noticed_and_not_sent_any_more(
        self, ground: SettingsGround
    ) -> None:
        owner = await recrawling(ground, recrawl="1h")
        await owner.add(A + "1")
        for number in range(5):
            visit = await next_visit(owner)
            found = replace(page(visit), etag='"always"')
            await owner.store(visit, found, gist=str(number).encode())
        assert (await next_visit(owner)).plain
        assert (await owner.frontier.counts()).again[Again.LIED] == 4

    @asynchronous
    async def test_dates_of_every_kind_do_no_harm(self, ground: SettingsGround) -> None:
        owner = await recrawling(ground, recrawl="adaptive", refresh_rate=1.0)
        await owner.add(A + "1", A + "2")
        for _ in range(2):
            await answered(owner, await next_visit(owner))
        due = (await owner.url(A + "1")).next_crawl
        for lastmod in (0.0, -1e12, 1e18, owner.now + 400 * DAY, 631_152_000.0, owner.now - 5 * DAY):
            await owner.add(_dated(A + "1", lastmod))
        owner = await owner.killed()
        record = await owner.url(A + "1")
        assert record.next_crawl == due
        await owner.add(_dated(A + "1", owner.now - 1), _dated(A + "new", owner.now))
        assert (await owner.url(A + "1")).next_crawl == due  # nothing is known of these dates yet
        assert (await owner.url(A + "new")).state is State.QUEUED


def _dated(url: str, lastmod: float) -> Link:
    hints = Hints(lastmod=lastmod, source="sitemap")
    return replace(link(url), hints=hints, purpose=Purpose.PAGE)

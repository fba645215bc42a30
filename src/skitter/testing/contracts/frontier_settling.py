"""Frontier, invariants 3, 4 and 5: what settling does, once and durably."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from skitter.model import Level, Place, Reason, Settlement, State, Verdict, Visit
from skitter.ports import Mark
from skitter.testing.contracts.owner import CRAWLED, Ground, Owner, asynchronous, exchange, link, page

A, B = "https://a.example/", "https://b.example/"


class SettlingContract:
    """Settled visits, pages, retries, recrawls, hosts set aside, and their counts."""

    @asynchronous
    async def test_a_settlement_is_applied_once(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        assert await owner.store(visit)
        assert not await owner.settle(
            visit, Verdict(state=State.FAILED, reason=Reason("x")), links=[link(A + "late")]
        )
        assert (await owner.url(A + "1")).state is State.CRAWLED
        assert await owner.frontier.url(A + "late", "a.example") is None

    @asynchronous
    async def test_a_late_settlement_is_rejected_and_changes_nothing(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        late = await owner.lease_page()
        owner = await owner.killed(after=5)
        verdict = Verdict(state=State.CRAWLED, host_free=owner.now + 1000, host_aside=Reason("x"))
        before = await owner.frontier.counts()
        assert not await owner.settle(late, verdict, page=page(late), links=[link(A + "2")])
        assert await owner.frontier.counts() == before
        owner.now += 1
        visit = await owner.lease_page()
        assert visit.link == late.link
        assert not await owner.settle(late, verdict)
        assert await owner.store(visit)

    @asynchronous
    async def test_a_visit_nobody_leased_is_not_settled(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.lease_page()
        assert not await owner.settle(Visit(link(B + "never"), 1, owner.now))
        assert await owner.frontier.host("b.example") is None

    @asynchronous
    async def test_links_page_and_mark_survive_a_kill_together(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        no = Reason("scope.host", "not ours")
        await owner.store(
            visit, links=[link(A + "2"), link(B + "3")], refused=[(link("https://c.example/"), no)]
        )
        mark = owner.mark
        owner = await owner.killed()
        assert owner.opened.mark == mark
        assert owner.opened.lost == []
        assert (await owner.url(A + "1")).state is State.CRAWLED
        assert (await owner.url("https://c.example/")).reason == no
        stored = await owner.frontier.page(A + "1", "a.example")
        assert stored == replace(page(visit), text="", archive=Place(mark.file, 0, 100))
        assert sorted(await owner.crawl()) == [A + "2", B + "3"]

    @asynchronous
    async def test_a_group_is_settled_with_one_answer_each(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1")
        first, second = await owner.lease_pages()
        group = [Settlement(visit=visit, verdict=CRAWLED) for visit in (first, first, second)]
        assert await owner.frontier.settle(group, owner.mark, owner.now) == [True, False, True]

    @asynchronous
    async def test_a_page_may_link_to_itself(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.store(await owner.lease_page(), links=[link(A + "1", level=Level.CRITICAL)])
        assert await owner.crawl() == []

    @asynchronous
    async def test_a_redirect_to_its_own_key_keeps_the_record_in_a_new_form(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=5.0, depth=3), link(A + "2", score=4.0))
        visit = await owner.lease_page()
        form = replace(link(A + "1#slash"), requested=A + "1", hops=1)
        await owner.settle(
            visit, Verdict(state=State.QUEUED, reason=Reason("redirect")), again=form, status=301
        )
        again = await owner.lease_page()
        assert (again.link.url, again.link.key, again.link.depth, again.link.score) == (
            A + "1#slash",
            A + "1",
            3,
            5.0,
        )
        assert (again.link.requested, again.link.hops) == (A + "1", 1)
        assert again.attempt == 1  # a redirect is an answer
        assert not await owner.settle(visit, Verdict(state=State.FAILED, reason=Reason("late")))
        assert await owner.store(again)
        assert (await owner.url(A + "1")).url == A + "1#slash"
        assert await owner.crawl() == [A + "2"]

    @asynchronous
    async def test_a_redirect_to_its_own_key_may_change_the_host(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        form = replace(link("https://www.a.example/1"), key=A + "1")
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED), again=form)
        visit = await owner.lease_page()
        assert (visit.link.url, visit.link.host) == ("https://www.a.example/1", "www.a.example")
        await owner.store(visit)
        assert await owner.frontier.page(A + "1", "a.example") is not None

    # -- retries and recrawls ----------------------------------------------------------------------------------

    @asynchronous
    async def test_a_retry_is_handed_out_when_it_is_due_with_the_next_attempt(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        retry = Verdict(state=State.QUEUED, reason=Reason("http.503", "busy"), due=owner.now + 30)
        await owner.settle(await owner.lease_page(), retry, status=503)
        record = await owner.url(A + "1")
        assert (record.state, record.attempts, record.next_crawl) == (State.QUEUED, 1, owner.now + 30)
        assert await owner.frontier.next_due(owner.now) == owner.now + 30
        owner.now += 29
        assert await owner.lease() == []
        owner = await owner.killed()
        owner.now += 1
        visit = await owner.lease_page()
        assert visit.attempt == 2
        host = await owner.frontier.host("a.example")
        assert host is not None
        assert (host.queued, host.in_flight) == (0, 1)
        assert await owner.store(visit)
        record = await owner.url(A + "1")
        assert (record.attempts, record.crawl_count, record.next_crawl) == (0, 1, None)

    @asynchronous
    async def test_a_retry_that_waits_moves_forward_when_it_is_due(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=1.0), link(A + "2", score=0.5))
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 30))
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 30))
        await owner.add(link(A + "2", score=7.0))
        assert await owner.lease() == []
        owner.now += 30
        assert await owner.crawl() == [A + "2", A + "1"]

    @asynchronous
    async def test_a_recrawl_comes_when_it_is_due_and_is_no_work_before(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        await owner.settle(
            visit, Verdict(state=State.CRAWLED, due=owner.now + 100), page=page(visit), status=200
        )
        record = await owner.url(A + "1")
        assert (record.state, record.next_crawl) == (State.CRAWLED, owner.now + 100)
        assert await owner.frontier.next_due(owner.now) is None
        owner.now += 100
        assert await owner.frontier.next_due(owner.now) == owner.now
        await owner.store(await owner.lease_page())
        counts = await owner.frontier.counts()
        assert (counts.crawled, counts.pages, counts.queued) == (1, 1, 0)
        assert (await owner.url(A + "1")).crawl_count == 2

    @asynchronous
    async def test_nothing_is_due_when_nothing_waits(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        assert await owner.frontier.next_due(owner.now) is None
        await owner.add(A + "1")
        assert await owner.frontier.next_due(owner.now) == owner.now
        visit = await owner.lease_page()
        assert await owner.frontier.next_due(owner.now) is None
        await owner.store(visit)
        assert await owner.frontier.next_due(owner.now) is None

    # -- hosts set aside ---------------------------------------------------------------------------------------

    @asynchronous
    async def test_nothing_more_is_handed_out_of_a_host_set_aside(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=2)
        await owner.add(A + "1", A + "2", A + "3", A + "4", B + "1")
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 50))
        first, second = [visit for visit in await owner.lease_pages() if visit.link.host == "a.example"]
        aside = Reason("retry-after", "it asked for a week")
        await owner.settle(first, Verdict(state=State.FAILED, reason=Reason("http.503"), host_aside=aside))
        await owner.settle(second, Verdict(state=State.QUEUED, due=owner.now + 5))
        assert await owner.add(A + "5") == 0
        owner = await owner.killed(after=100)
        owner.now += 1
        assert await owner.crawl() == [B + "1"]
        assert await owner.frontier.next_due(owner.now) is None
        states = {record.url: (record.state, record.reason) async for record in owner.frontier.urls()}
        gone = {A + name: (State.REFUSED, aside) for name in "1345"} | {
            A + "2": (State.FAILED, Reason("http.503"))
        }
        assert states == gone | {B + "1": (State.CRAWLED, None)}
        assert (await owner.url(A + "4")).state is State.REFUSED
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.hosts_aside) == (0, {"retry-after": 4}, 1)
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert (record.aside, record.queued) == (aside, 0)

    @asynchronous
    async def test_retries_of_a_host_set_aside_keep_nobody_waiting(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 5000))
        verdict = Verdict(state=State.CRAWLED, host_aside=Reason("x", "y"))
        await owner.settle(await owner.lease_page(), verdict)
        assert await owner.frontier.next_due(owner.now) is None

    # -- numbers -----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_everything_settled_is_counted(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(link(A + name, depth=number) for number, name in enumerate("abcdef")))
        for way in _SIX_WAYS:
            visit = await owner.lease_page()
            await owner.frontier.settle([way(visit)], owner.mark, owner.now)
        owner = await owner.killed()
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.processed, counts.not_found, counts.duplicates) == (3, 2, 1, 1)
        assert (counts.requests, counts.bytes) == (5, 50)
        assert (counts.queued, counts.crawled, counts.failed, counts.leased) == (0, 4, 1, 0)
        assert (counts.failures, counts.refused) == ({"timeout": 1}, {"robots": 1})
        assert (counts.statuses, counts.depths) == ({200: 3, 404: 1}, {0: 1, 1: 1, 2: 1})
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert (record.pages, record.requests, record.errors, record.bytes) == (3, 5, 1, 50)

    @asynchronous
    async def test_what_failed_is_an_error_of_its_host_and_what_was_not_tried_is_none(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(A + name for name in "123"))
        untried = replace(_REFUSED, attempted=False)
        for verdict in (_FAILED, replace(_FAILED, attempted=False), untried):
            await owner.settle(await owner.lease_page(), verdict)
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert record.errors == 1
        attempts = {record.state: record.attempts async for record in owner.frontier.urls()}
        assert attempts[State.REFUSED] == 0

    @asynchronous
    async def test_elapsed_time_adds_up_over_owners(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        visit = await owner.lease_page()
        owner.now += 10
        await owner.store(visit)
        owner = await owner.restarted(after=1000)
        visit = await owner.lease_page()
        owner.now += 5
        await owner.store(visit)
        assert (await owner.frontier.counts()).elapsed == 15

    @asynchronous
    async def test_pages_behind_the_end_of_the_archive_are_pending_again(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", A + "3")
        for number in range(3):
            visit = await owner.lease_page()
            await owner.store(visit, page(visit, digest=f"sha1:{number}"), links=[link(f"{A}from{number}")])
        end = Mark(owner.mark.file, 150)
        assert await owner.frontier.reopen(end, owner.now) == 2
        owner = await owner.killed()
        assert owner.opened.mark == end
        assert [stored.url async for stored in owner.frontier.pages()] == [A + "1"]
        assert await owner.frontier.twin("a.example", "sha1:2", None, 0) is None
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.crawled, counts.depths) == (1, 1, {0: 1})
        assert sorted(await owner.crawl(2)) == [A + "2", A + "3"]


def _good(visit: Visit, **changed: Any) -> Settlement:  # noqa: ANN401  fields of a page
    stored = replace(page(visit), **changed)
    return Settlement(visit=visit, verdict=CRAWLED, page=stored, status=stored.status, exchange=exchange(A))


_FAILED = Verdict(state=State.FAILED, reason=Reason("timeout"))
_REFUSED = Verdict(state=State.REFUSED, reason=Reason("robots"))
_SIX_WAYS: list[Callable[[Visit], Settlement]] = [
    _good,
    lambda visit: _good(visit, duplicate_of=A),
    lambda visit: _good(visit, ignored="no marker"),
    lambda visit: _good(visit, status=404),
    lambda visit: Settlement(visit=visit, verdict=_FAILED, exchange=exchange(A)),
    lambda visit: Settlement(visit=visit, verdict=_REFUSED),
]

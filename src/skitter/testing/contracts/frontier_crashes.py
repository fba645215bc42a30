"""Frontier, invariants 6 and 7: what a crash leaves open, and which visit is to blame."""

from collections.abc import Sequence

from skitter.model import Purpose, State, Verdict, Visit
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, link

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


class CrashContract:
    """Leases, lost visits, suspects."""

    @asynchronous
    async def test_the_next_owner_after_a_crash_finds_every_open_lease(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1", C + "1")
        visits = await owner.lease_pages()
        await owner.store(visits.pop())
        owner = await owner.killed()
        assert _urls(owner.opened.lost) == _urls(visits)
        assert owner.opened.aside == []
        counts = await owner.frontier.counts()
        assert (counts.lost, counts.leased, counts.queued) == (2, 0, 2)

    @asynchronous
    async def test_a_lost_visit_is_pending_with_one_more_attempt(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        assert (await owner.lease_page()).attempt == 1
        assert (await owner.url(A + "1")).state is State.LEASED
        owner = await owner.killed()
        record = await owner.url(A + "1")
        assert (record.state, record.attempts, record.crashes) == (State.QUEUED, 1, 1)
        owner.now += 1
        visit = await owner.lease_page()
        assert (visit.attempt, visit.alone) == (2, False)

    @asynchronous
    async def test_hosts_of_lost_visits_are_free_after_their_delay_from_the_opening(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground, delay=7.0)
        await owner.add(A + "1", A + "2", B + "1")
        first = next(visit for visit in await owner.lease_pages() if visit.link.host == "a.example")
        await owner.settle(first, Verdict(state=State.CRAWLED, host_free=owner.now, host_delay=20.0))
        assert [visit.link.url for visit in await owner.lease()] == [A + "2"]
        owner = await owner.killed(after=1000)
        assert await owner.lease() == []
        owner.now += 7
        assert [visit.link.url for visit in await owner.lease()] == [B + "1"]  # the delay it was opened with
        owner.now += 12.9
        assert await owner.lease() == []
        owner.now += 0.1
        assert [visit.link.url for visit in await owner.lease()] == [A + "2"]  # the delay of its last verdict

    @asynchronous
    async def test_a_lost_robots_txt_is_asked_for_again_after_the_delay(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        (visit,) = await owner.lease()
        owner = await owner.killed(after=DAY)
        assert [lost.link for lost in owner.opened.lost] == [visit.link]
        assert await owner.lease() == []
        owner.now += 1
        (again,) = await owner.lease()
        assert (again.link, again.attempt) == (visit.link, 2)

    @asynchronous
    async def test_a_clean_close_leaves_no_mark_against_open_visits(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1")
        await owner.lease_pages()
        owner = await owner.restarted()
        assert owner.opened.lost == []
        counts = await owner.frontier.counts()
        assert (counts.lost, counts.leased, counts.queued) == (0, 0, 2)
        assert await owner.lease() == []  # their requests may have been made: the hosts rest for their delay
        owner.now += 1
        visits = await owner.lease()
        assert {(visit.link.url, visit.attempt) for visit in visits} == {(A + "1", 1), (B + "1", 1)}
        assert (await owner.url(A + "1")).crashes == 0

    @asynchronous
    async def test_a_visit_open_in_three_crashes_is_made_alone(self, ground: Ground) -> None:
        owner = await _after_crashes(ground, 3)
        visits = await owner.lease()
        assert len(visits) == 1
        assert visits[0].alone
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        await owner.store(visits[0])
        (other,) = await owner.lease()
        assert other.link.host != visits[0].link.host
        assert other.alone

    @asynchronous
    async def test_two_crashes_make_no_suspect(self, ground: Ground) -> None:
        owner = await _after_crashes(ground, 2)
        visits = await owner.lease()
        assert [visit.alone for visit in visits] == [False, False]

    @asynchronous
    async def test_an_innocent_neighbour_of_crashes_is_never_lost(self, ground: Ground) -> None:
        owner = await _after_crashes(ground, 3)
        assert sorted(await owner.crawl()) == [A + "1", B + "1"]
        record = await owner.url(A + "1")
        assert (record.state, record.crashes) == (State.CRAWLED, 3)
        await owner.add(A + "2")
        visit = await owner.lease_page()
        assert not visit.alone

    @asynchronous
    async def test_a_suspect_that_did_no_harm_alone_is_trusted_again(self, ground: Ground) -> None:
        owner = await _after_crashes(ground, 3)
        for _ in range(2):
            (visit,) = await owner.lease()
            assert visit.alone
            await owner.settle(visit, Verdict(state=State.CRAWLED, due=owner.now + 10))
        owner = await owner.restarted(after=10)
        assert [visit.alone for visit in await owner.lease()] == [False, False]

    @asynchronous
    async def test_a_visit_in_hand_in_one_crash_is_made_alone(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=1.0), B + "1")
        poison = next(visit for visit in await owner.lease_pages() if visit.link.host == "a.example")
        owner.frontier.in_hand(poison)
        owner = await owner.killed()
        owner.now += 1
        visits = await owner.lease()
        assert [(visit.link.url, visit.alone) for visit in visits] == [(A + "1", True)]

    @asynchronous
    async def test_a_visit_put_down_is_not_in_hand(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        owner.frontier.in_hand(visit)
        owner.frontier.in_hand(None)
        owner = await owner.killed()
        owner.now += 1
        assert not (await owner.lease_page()).alone

    @asynchronous
    async def test_a_visit_in_hand_in_three_crashes_is_set_aside_with_the_reason(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=1.0), A + "2", B + "1")
        for crash in range(3):
            visit = next(visit for visit in await owner.lease_pages() if visit.link.url == A + "1")
            assert visit.alone == (crash > 0)
            owner.frontier.in_hand(visit)
            owner = await owner.killed()
            owner.now += 1
        assert _urls(owner.opened.aside) == [A + "1"]
        assert A + "1" not in _urls(owner.opened.lost)
        record = await owner.url(A + "1")
        assert record.reason is not None
        assert (record.state, record.reason.code, record.crashes) == (State.FAILED, "crash", 3)
        assert (await owner.frontier.counts()).failures == {"crash": 1}
        assert sorted(await owner.crawl()) == [A + "2", B + "1"]

    @asynchronous
    async def test_a_visit_that_was_alone_in_ten_deaths_is_set_aside_and_not_before(
        self, ground: Ground
    ) -> None:
        owner = await _after_crashes(ground, 3)
        for death in range(10):
            assert not owner.opened.aside, f"given up after {death} deaths"
            (visit,) = await owner.lease()
            assert visit.alone
            owner = await owner.killed()
            owner.now += 1
        assert _urls(owner.opened.aside) == [visit.link.url]

    @asynchronous
    async def test_a_suspect_waits_until_nothing_is_in_flight_then_goes_alone(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(B, C)
        await owner.crawl()
        await owner.add(link(A + "1", score=-9.0))
        owner.frontier.in_hand(await owner.lease_page())
        owner = await owner.killed()
        owner.now += 1
        await owner.add(B + "1", C + "1")
        innocent = await owner.lease_pages()
        assert _urls(innocent) == [B + "1", C + "1"]
        await owner.add("https://d.example/")
        assert await owner.lease() == []
        await owner.store(innocent[0])
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        await owner.store(innocent[1])
        (suspect,) = await owner.lease()
        assert (suspect.link.url, suspect.alone) == (A + "1", True)
        await owner.store(suspect)
        assert (await owner.lease_page()).link.host == "d.example"

    @asynchronous
    async def test_other_hosts_work_while_a_suspects_host_is_not_due(self, ground: Ground) -> None:
        owner = await Owner.of(ground, delay=100.0)
        await owner.add(A + "1", B + "1")
        visit = next(visit for visit in await owner.lease_pages() if visit.link.host == "a.example")
        other = (await owner.url(B + "1")).state
        assert other is State.LEASED
        owner.frontier.in_hand(visit)
        owner = await owner.killed()
        await owner.add(C + "1")
        assert _urls(await owner.lease_pages()) == [C + "1"]

    @asynchronous
    async def test_a_robots_txt_that_kills_three_times_forbids_its_origin(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        for crash in range(3):
            (visit,) = await owner.lease()
            assert (visit.link.purpose, visit.alone) == (Purpose.ROBOTS, crash > 0)
            owner.frontier.in_hand(visit)
            owner = await owner.killed()
            owner.now += 1
        assert _urls(owner.opened.aside) == [A + "robots.txt"]
        copy = await owner.frontier.robots("https://a.example")
        assert copy is not None
        assert (copy.access, copy.expires > owner.now) == ("none", True)
        assert _urls(await owner.lease()) == [A + "1"]

    @asynchronous
    async def test_a_recrawl_can_be_lost_and_found(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.settle(await owner.lease_page(), Verdict(state=State.CRAWLED, due=owner.now + 10))
        owner.now += 10
        await owner.lease_page()
        owner = await owner.killed()
        assert _urls(owner.opened.lost) == [A + "1"]
        owner.now += 1
        assert await owner.crawl() == [A + "1"]


async def _after_crashes(ground: Ground, crashes: int) -> Owner:
    """Two hosts with one page each, both open in this many crashes, both due again."""
    owner = await Owner.of(ground)
    await owner.add(A + "1", B + "1")
    for visit in await owner.lease():
        await owner.settle(visit, robots=allowed(visit.link.origin, owner.now + DAY))
    for _ in range(crashes):
        assert len(await owner.lease()) == 2
        owner = await owner.killed()
        owner.now += 1
    return owner


def _urls(visits: Sequence[Visit]) -> list[str]:
    return sorted(visit.link.url for visit in visits)

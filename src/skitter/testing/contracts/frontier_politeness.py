"""Frontier, invariant 2: no host is visited too soon, and its robots.txt comes first."""

from msgspec.structs import replace

from skitter.model import Level, Link, Purpose, Reason, Settlement, State, Verdict
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, exchange, link

A, B = "https://a.example/", "https://b.example/"
ORIGIN = "https://a.example"


def free(at: float) -> Verdict:
    """The page is crawled, and its host is free at that time."""
    return Verdict(state=State.CRAWLED, host_free=at, host_delay=1.0)


class PolitenessContract:
    """Host clocks, visits in flight, and robots.txt."""

    @asynchronous
    async def test_a_host_has_one_visit_in_flight(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", B + "1")
        visits = await owner.lease_pages()
        assert sorted(visit.link.host for visit in visits) == ["a.example", "b.example"]
        assert await owner.lease() == []
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert (record.in_flight, record.queued) == (1, 1)

    @asynchronous
    async def test_a_host_has_as_many_visits_in_flight_as_allowed(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=3)
        await owner.add(*(f"{A}{number}" for number in range(5)))
        visits = await owner.lease_pages()
        assert len(visits) == 3
        await owner.store(visits[0])
        assert len(await owner.lease()) == 1

    @asynchronous
    async def test_concurrent_visits_to_a_host_start_a_delay_apart(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=2)
        await owner.add(A + "1", A + "2", A + "3", A + "4")
        await owner.settle(await owner.lease_page(), free(owner.now))
        assert len(await owner.lease()) == 1
        assert await owner.frontier.next_due(owner.now) == owner.now + 1
        owner.now += 0.9
        assert await owner.lease() == []
        owner = await owner.restarted()
        owner.now += 0.1
        assert len(await owner.lease()) == 1
        owner.now += 1
        assert len(await owner.lease()) == 1
        owner.now += 1
        assert await owner.lease() == []

    @asynchronous
    async def test_a_host_is_left_alone_until_its_verdict_says_so(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", B + "1")
        visit = next(visit for visit in await owner.lease_pages() if visit.link.host == "a.example")
        await owner.settle(visit, free(owner.now + 10))
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) == owner.now + 10
        owner.now += 9.99
        assert await owner.lease() == []
        owner.now += 0.01
        assert [visit.link.url for visit in await owner.lease()] == [A + "2"]

    @asynchronous
    async def test_a_clock_never_moves_back(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=2)
        await owner.add(A + "1", A + "2", A + "3")
        first, second = await owner.lease_pages()
        await owner.settle(first, free(owner.now + 100))
        await owner.settle(second, free(owner.now + 1))
        owner.now += 50
        assert await owner.lease() == []

    @asynchronous
    async def test_a_visit_that_sent_nothing_leaves_the_clock_alone(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        refused = Verdict(state=State.REFUSED, reason=Reason("robots", "Disallow: /"))
        await owner.settle(await owner.lease_page(), refused)
        assert len(await owner.lease()) == 1

    @asynchronous
    async def test_clocks_survive_restart_and_kill(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        await owner.settle(await owner.lease_page(), free(owner.now + 1000))
        owner = await owner.restarted(after=10)
        assert await owner.lease() == []
        owner = await owner.killed(after=10)
        assert await owner.lease() == []
        owner.now += 980
        assert len(await owner.lease()) == 1

    @asynchronous
    async def test_a_clock_set_back_shortens_no_delay_and_keeps_nobody_waiting(self, ground: Ground) -> None:
        """The remaining delay of a host is counted from the opening, whatever the old clock said."""
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", B + "1")
        await owner.settle(await owner.lease_page(), free(owner.now + 10))
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 50)
        await owner.settle(await owner.lease_page(), failed)
        owner = await owner.killed(after=-5000)
        assert owner.opened.set_back == 5000
        for wait, found in ((9.9, []), (0.1, [A + "2"]), (39.9, []), (0.1, [B + "1"])):
            owner.now += wait
            assert [visit.link.url for visit in await owner.lease()] == found
        owner = await owner.killed(after=1.0)
        assert owner.opened.set_back == 0

    @asynchronous
    async def test_a_visit_knows_its_hosts_clock_and_pages(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        await owner.store(await owner.lease_page())
        owner = await owner.restarted(after=3)
        visit = (await owner.lease())[0]
        assert (visit.host_pages, visit.attempt, visit.leased_at) == (1, 1, owner.now)

    @asynchronous
    async def test_a_visit_knows_how_many_pages_its_host_may_have_given_before_it(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground, per_host=3)
        await owner.add(*(f"{A}{number}" for number in range(6)))
        visits = await owner.lease_pages()
        assert [visit.host_pages for visit in visits] == [0, 1, 2]  # stored, and in flight
        await owner.store(visits[0])
        await owner.settle(visits[1], Verdict(state=State.FAILED, reason=Reason("timeout")))
        assert [visit.host_pages for visit in await owner.lease()] == [2, 3]

    @asynchronous
    async def test_a_robots_txt_in_flight_is_no_page_to_come(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=3)
        await owner.add(link(A + "1", score=1.0), link("https://a.example:8443/2"))
        (first,) = await owner.lease_pages(1)
        (rules,) = await owner.lease()
        assert rules.link.purpose is Purpose.ROBOTS
        await owner.store(first)
        await owner.settle(rules, robots=allowed(rules.link.origin, owner.now + DAY))
        assert [visit.host_pages for visit in await owner.lease()] == [1]

    # -- robots.txt --------------------------------------------------------------------------------------------

    @asynchronous
    async def test_the_robots_txt_of_an_origin_comes_before_its_pages(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=5)
        await owner.add(A + "1", A + "2")
        (visit,) = await owner.lease()
        assert visit.link.purpose is Purpose.ROBOTS
        assert (visit.link.url, visit.link.origin, visit.link.host) == (A + "robots.txt", ORIGIN, "a.example")
        assert await owner.lease() == []
        await owner.settle(visit, free(owner.now + 5), robots=allowed(ORIGIN, owner.now + DAY))
        assert await owner.lease() == []
        owner.now += 5
        (page,) = await owner.lease()
        assert page.link.url == A + "1"

    @asynchronous
    async def test_each_origin_of_a_host_has_its_own_robots_txt_and_shares_its_clock(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=2.0), link("https://a.example:8443/2", score=1.0))
        (first,) = await owner.lease()
        assert first.link.origin == ORIGIN
        await owner.settle(first, robots=allowed(ORIGIN, owner.now + DAY))
        await owner.store((await owner.lease())[0])
        (second,) = await owner.lease()
        assert (second.link.purpose, second.link.origin) == (Purpose.ROBOTS, "https://a.example:8443")

    @asynchronous
    async def test_a_robots_txt_that_has_expired_is_asked_for_again(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        (visit,) = await owner.lease()
        await owner.settle(visit, robots=allowed(ORIGIN, owner.now + 60))
        owner.now += 59
        await owner.store((await owner.lease())[0])
        owner.now += 1
        (visit,) = await owner.lease()
        assert visit.link.purpose is Purpose.ROBOTS

    @asynchronous
    async def test_a_postponed_visit_is_not_an_attempt(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        put_off = Verdict(state=State.QUEUED, due=owner.now + 60, attempted=False)
        await owner.settle(visit, put_off)
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert record.errors == 0
        assert await owner.lease() == []
        owner.now += 60
        assert (await owner.lease())[0].attempt == visit.attempt

    @asynchronous
    async def test_a_copy_is_kept_and_survives_a_kill(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        copy = replace(allowed(ORIGIN, owner.now + DAY), body=b"User-agent: *\nAllow: /\n")
        await owner.settle((await owner.lease())[0], robots=copy)
        owner = await owner.killed()
        assert await owner.frontier.robots(ORIGIN) == copy
        assert await owner.frontier.robots("https://other.example") is None
        assert (await owner.lease())[0].link.url == A + "1"

    @asynchronous
    async def test_a_robots_txt_is_no_url_of_the_crawl(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        (visit,) = await owner.lease()
        await owner.settle(
            visit, robots=allowed(ORIGIN, owner.now + DAY), exchange=exchange(visit.link.url, 30)
        )
        counts = await owner.frontier.counts()
        assert (counts.requests, counts.bytes, counts.pages, counts.crawled) == (1, 30, 0, 0)
        assert [record.url async for record in owner.frontier.urls()] == [A + "1"]

    @asynchronous
    async def test_the_next_hop_of_a_robots_txt_waits_for_the_clock_of_its_own_host(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(B + "1", score=9.0))
        await owner.settle(await owner.lease_page(), free(owner.now + 30))
        await owner.add(A + "1", link(B + "2", level=Level.CRITICAL, score=99.0))
        (visit,) = await owner.lease()
        hop = _hop(B + "robots.txt", hops=1)
        await owner.settle(visit, Verdict(state=State.QUEUED, host_free=owner.now + 1), again=hop)
        owner.now += 29
        assert await owner.lease() == []
        owner.now += 1
        (visit,) = await owner.lease()
        assert (visit.link.url, visit.link.host, visit.link.origin) == (B + "robots.txt", "b.example", ORIGIN)
        assert (visit.link.purpose, visit.link.hops) == (Purpose.ROBOTS, 1)
        assert await owner.lease() == []
        await owner.settle(visit, robots=allowed(ORIGIN, owner.now + DAY))
        assert {visit.link.url for visit in await owner.lease()} == {A + "1", B + "2"}

    @asynchronous
    async def test_a_hop_on_the_same_host_comes_before_every_page(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add("http://a.example/1", link(A + "2", level=Level.CRITICAL, score=1e300))
        (visit,) = await owner.lease()
        hop = replace(_hop(A + "robots.txt"), origin=visit.link.origin)
        await owner.settle(visit, Verdict(state=State.QUEUED), again=hop)
        (hopped,) = await owner.lease()
        assert (hopped.link.url, hopped.link.origin) == (A + "robots.txt", visit.link.origin)
        assert await owner.lease() == []

    @asynchronous
    async def test_a_hop_survives_a_kill(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.settle(
            (await owner.lease())[0], Verdict(state=State.QUEUED), again=_hop(B + "robots.txt")
        )
        owner = await owner.killed()
        (visit,) = await owner.lease()
        assert visit.link.url == B + "robots.txt"
        owner = await owner.killed(after=DAY)
        owner.now += 1
        assert [visit.link.url for visit in await owner.lease() if visit.link.host == "b.example"] == [
            B + "robots.txt"
        ]

    @asynchronous
    async def test_when_no_hop_answers_the_robots_txt_is_asked_from_the_start(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.settle(
            (await owner.lease())[0], Verdict(state=State.QUEUED), again=_hop(B + "robots.txt")
        )
        (hop,) = await owner.lease()
        await owner.settle(hop, Verdict(state=State.FAILED, reason=Reason("timeout")))
        assert await owner.lease() == []
        due = await owner.frontier.next_due(owner.now)
        assert due is not None
        assert due > owner.now
        owner.now = due
        (visit,) = await owner.lease()
        assert (visit.link.purpose, visit.link.url) == (Purpose.ROBOTS, A + "robots.txt")

    @asynchronous
    async def test_a_hop_to_a_host_that_is_set_aside_forbids_the_origin(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(B + "1")
        aside = Reason("crawl-delay", "it wants to be left alone")
        await owner.settle(await owner.lease_page(), Verdict(state=State.CRAWLED, host_aside=aside))
        await owner.add(A + "1")
        await owner.settle(
            (await owner.lease())[0], Verdict(state=State.QUEUED), again=_hop(B + "robots.txt")
        )
        copy = await owner.frontier.robots(ORIGIN)
        assert copy is not None
        assert copy.access == "none"
        assert copy.expires > owner.now
        assert aside.detail in copy.problem

    @asynchronous
    async def test_a_hop_that_arrives_while_its_host_is_set_aside_forbids_the_origin(
        self, ground: Ground
    ) -> None:
        """Both robots.txt files are settled together: one moved to the other's host, which asks for too long a delay."""
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1")
        visits = {visit.link.host: visit for visit in await owner.lease(2)}
        aside = Reason("crawl-delay", "it wants to be left alone")
        moved = Settlement(
            visit=visits["a.example"], verdict=Verdict(state=State.QUEUED), again=_hop(B + "robots.txt")
        )
        slow = Settlement(
            visit=visits["b.example"],
            verdict=Verdict(state=State.CRAWLED, host_aside=aside),
            robots=allowed("https://b.example", owner.now + DAY),
        )
        assert await owner.frontier.settle([moved, slow], owner.mark, owner.now) == [True, True]
        copy = await owner.frontier.robots(ORIGIN)
        assert copy is not None
        assert copy.access == "none"
        assert aside.detail in copy.problem


def _hop(url: str, hops: int = 1) -> Link:
    wanted = link(url, level=Level.CRITICAL)
    return replace(wanted, purpose=Purpose.ROBOTS, origin=ORIGIN, hops=hops)

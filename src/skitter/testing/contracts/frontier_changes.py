"""Frontier: what happens to a URL when something around it changes: its tries, its host, the settings."""

from collections.abc import Collection

from msgspec.structs import replace

from skitter.model import Level, Purpose, Reason, Settlement, State, Verdict
from skitter.ports import Judge, RulesOf
from skitter.testing.contracts.owner import DAY, Ground, Owner, asynchronous, link

A, B = "https://a.example/", "https://b.example/"
DEEP = Reason("scope.depth", "too deep")
FORBIDDEN = Reason("robots", "robots.txt line 2: Disallow: /private")


def no_deeper_than(limit: int) -> Judge:
    """Settings with a maximum depth."""
    return lambda one, _reason: DEEP if one.depth > limit else None


async def keep_out(origins: Collection[str]) -> RulesOf:
    """A robots.txt that forbids /private, at every origin."""
    return dict.fromkeys(origins, lambda url: FORBIDDEN if "/private" in url else None)


async def let_in(origins: Collection[str]) -> RulesOf:
    """A robots.txt that allows everything, at every origin."""
    return dict.fromkeys(origins, lambda _url: None)


class ChangeContract:
    """Needs a fixture `ground`."""

    # -- tries -------------------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_retry_waits_behind_all_untried_urls_of_its_host(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "hangs", level=Level.HIGH, score=9.0))
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 1)
        await owner.settle(await owner.lease_page(), failed)
        await owner.add(A + "1", link(A + "2", level=Level.BACKGROUND))
        owner.now += 5
        assert await owner.crawl(limit=1) == [A + "1"]
        await owner.add(link(A + "3", score=-5.0))
        owner = await owner.killed()
        owner.now += 5
        assert await owner.crawl() == [A + "3", A + "2", A + "hangs"]

    @asynchronous
    async def test_a_retry_that_is_wanted_more_urgently_stays_behind_untried_urls(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "hangs")
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 1)
        await owner.settle(await owner.lease_page(), failed)
        owner.now += 5
        await owner.add(A + "1")
        await owner.add(link(A + "hangs", level=Level.CRITICAL, score=5.0))
        assert (await owner.url(A + "hangs")).level is Level.CRITICAL
        assert await owner.crawl() == [A + "1", A + "hangs"]
        assert (await owner.url(A + "hangs")).state is State.CRAWLED

    @asynchronous
    async def test_hosts_with_nothing_but_retries_have_their_turn_like_others(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "hangs", score=1.0))
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 1)
        await owner.settle(await owner.lease_page(), failed)
        await owner.add(B + "1", B + "2")
        owner.now += 5
        assert await owner.crawl() == [A + "hangs", B + "1", B + "2"]

    # -- a host that is set aside ------------------------------------------------------------------------------

    @asynchronous
    async def test_a_hop_that_waits_on_a_host_which_is_set_aside_forbids_its_origin_at_once(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(B + "1", B + "2")
        slow = await owner.lease_page()  # keeps b.example busy while the hop waits there
        await owner.add(A + "1")
        (robots,) = await owner.lease()
        assert (robots.link.purpose, robots.link.host) == (Purpose.ROBOTS, "a.example")
        hop = replace(robots.link, url=B + "robots.txt", host="b.example", hops=1)
        verdict = Verdict(state=State.QUEUED, host_free=owner.now)
        await owner.frontier.settle(
            [Settlement(visit=robots, verdict=verdict, again=hop)], owner.mark, owner.now
        )
        assert await owner.frontier.robots("https://a.example") is None
        aside = Verdict(state=State.CRAWLED, host_aside=Reason("gone", "for good"))
        await owner.settle(slow, aside)
        copy = await owner.frontier.robots("https://a.example")
        assert copy is not None
        assert (copy.access, copy.expires) == ("none", owner.now + DAY)
        assert "b.example is set aside" in copy.problem
        assert [visit.link.url for visit in await owner.lease()] == [A + "1"]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused) == (0, {"gone": 1})

    # -- settings that change ----------------------------------------------------------------------------------

    @asynchronous
    async def test_settings_that_want_more_bring_back_what_others_refused(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        wanted, deep = link(A + "1", depth=1), link(A + "2", depth=2, score=-2.0)
        deeper, never = link(A + "3", depth=3), link(B + "robots", depth=1)
        refused = [(deep, DEEP), (deeper, DEEP), (never, Reason("nofollow", "as the page asks"))]
        await owner.frontier.judge_again(no_deeper_than(1), "1", owner.now)
        await owner.add(wanted, refused=refused)
        assert await owner.frontier.judge_again(no_deeper_than(1), "1", owner.now) == (0, 0)
        owner = await owner.killed()
        assert await owner.frontier.judge_again(no_deeper_than(2), "2", owner.now) == (1, 0)
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.added, counts.refused) == (2, 2, {"scope.depth": 1, "nofollow": 1})
        assert await owner.crawl() == [A + "1", A + "2"]
        assert (await owner.url(A + "3")).reason == DEEP

    @asynchronous
    async def test_settings_that_want_less_take_out_what_waits(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.frontier.judge_again(no_deeper_than(9), "9", owner.now)
        await owner.add(*(link(A + str(depth), depth=depth, score=-float(depth)) for depth in range(5)))
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 99)
        retried = link(B + "retried", depth=7)
        await owner.add(retried)
        for _ in range(2):
            visit = await owner.lease_page()
            if visit.link.url == retried.url:
                await owner.settle(visit, failed)
            else:
                await owner.store(visit)
        owner = await owner.killed()
        assert await owner.frontier.judge_again(no_deeper_than(2), "2", owner.now) == (0, 3)
        owner.now += DAY
        assert await owner.crawl() == [A + "1", A + "2"]
        assert await owner.frontier.next_due(owner.now) is None
        assert (await owner.url(retried.url)).reason == DEEP
        assert (await owner.frontier.counts()).refused == {"scope.depth": 3}

    @asynchronous
    async def test_changing_settings_back_restores_everything(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.frontier.judge_again(no_deeper_than(9), "9", owner.now)
        await owner.add(*(link(A + str(depth), depth=depth, score=-float(depth)) for depth in range(5)))
        before = await owner.frontier.counts()
        assert await owner.frontier.judge_again(no_deeper_than(2), "2", owner.now) == (0, 2)
        owner = await owner.restarted()
        assert await owner.frontier.judge_again(no_deeper_than(9), "9", owner.now) == (2, 0)
        assert replace(await owner.frontier.counts(), elapsed=before.elapsed) == before
        assert await owner.crawl() == [A + str(depth) for depth in range(5)]

    @asynchronous
    async def test_a_url_that_settings_refused_is_accepted_when_it_is_offered_as_wanted(
        self, ground: Ground
    ) -> None:
        """It was refused when its turn came, and is found again at a lesser depth."""
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", depth=5))
        visit = await owner.lease_page()
        await owner.settle(visit, Verdict(state=State.REFUSED, reason=DEEP, attempted=False))
        assert await owner.lease() == []
        await owner.add(link(A + "1", depth=1))
        assert [(visit.link.url, visit.link.depth) for visit in await owner.lease_pages()] == [(A + "1", 1)]

    @asynchronous
    async def test_a_refused_url_is_known_by_its_shortest_way(self, ground: Ground) -> None:
        """Otherwise settings that allow more would not know that they want it."""
        owner = await Owner.of(ground)
        await owner.frontier.judge_again(no_deeper_than(1), "1", owner.now)
        await owner.add(link(A, seed=True), refused=[(link(A + "1", depth=4), DEEP)])
        await owner.add(refused=[(link(A + "1", depth=2), DEEP), (link(A + "1", depth=3), DEEP)])
        owner = await owner.killed()
        assert await owner.frontier.judge_again(no_deeper_than(2), "2", owner.now) == (1, 0)
        assert (await owner.url(A + "1")).depth == 2

    @asynchronous
    async def test_a_url_in_flight_is_not_judged(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.frontier.judge_again(no_deeper_than(9), "9", owner.now)
        await owner.add(link(A + "1", depth=5))
        visit = await owner.lease_page()
        assert await owner.frontier.judge_again(no_deeper_than(1), "1", owner.now) == (0, 0)
        assert await owner.store(visit)

    # -- a robots.txt that changes -----------------------------------------------------------------------------

    @asynchronous
    async def test_what_a_new_robots_txt_forbids_leaves_the_queue_and_comes_back_when_allowed(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "private/1", A + "private/2", B + "private/3")
        failed = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 5)
        await owner.add(link(A + "private/retried", level=Level.CRITICAL))
        await owner.settle(await owner.lease_page(), failed)
        assert not owner.frontier.has_new_rules()
        assert await owner.frontier.judge_by_rules(keep_out, owner.now) == (0, 0)
        owner.now += DAY + 1
        before = await owner.frontier.counts()
        await owner.new_rules("https://a.example")
        assert owner.frontier.has_new_rules()
        assert await owner.frontier.judge_by_rules(keep_out, owner.now) == (0, 3)
        assert not owner.frontier.has_new_rules()
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused) == (before.queued - 3, {"robots": 3})
        assert (await owner.url(A + "private/1")).reason == FORBIDDEN
        assert (await owner.url(B + "private/3")).state is State.QUEUED
        await owner.add(A + "private/1")  # a link does not bring it back
        assert (await owner.url(A + "private/1")).state is State.REFUSED
        owner = await owner.restarted()
        assert not owner.frontier.has_new_rules()
        owner.now += DAY + 1
        await owner.new_rules("https://a.example")
        assert await owner.frontier.judge_by_rules(let_in, owner.now) == (3, 0)
        assert (await owner.frontier.counts()).refused == {}
        expected = [A + "1", A + "private/1", A + "private/2", A + "private/retried", B + "private/3"]
        assert sorted(await owner.crawl()) == expected

    @asynchronous
    async def test_a_new_robots_txt_is_applied_after_a_crash_before_it_was(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "private/1")
        await owner.new_rules("https://a.example")
        owner = await owner.killed()
        assert owner.frontier.has_new_rules()
        assert await owner.frontier.judge_by_rules(keep_out, owner.now) == (0, 1)
        owner = await owner.killed()
        assert not owner.frontier.has_new_rules()

    @asynchronous
    async def test_a_url_in_flight_and_an_answered_one_stay_as_they_are(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "private/1", B + "private/2")
        first = await owner.lease_page()
        second = await owner.lease_page()
        await owner.store(first)
        await owner.new_rules("https://a.example")
        await owner.new_rules("https://b.example")
        assert await owner.frontier.judge_by_rules(keep_out, owner.now) == (0, 0)
        assert await owner.store(second)

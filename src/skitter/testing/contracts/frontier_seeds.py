"""Frontier, invariant 1 for seeds: a seed that is named again is tried again."""

import pytest
from msgspec.structs import replace

from skitter.model import Purpose, Reason, State, Verdict, Visit
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, exchange, link

A, ORIGIN = "https://a.example/", "https://a.example"
_FAILED = Verdict(state=State.FAILED, reason=Reason("timeout", "no answer"))
_REFUSED = Verdict(state=State.REFUSED, reason=Reason("robots", "Disallow: /"), attempted=False)


class SeedContract:
    """Seeds that were refused or failed, and hosts set aside for a while."""

    @pytest.mark.parametrize("verdict", [_FAILED, _REFUSED], ids=["failed", "refused"])
    @asynchronous
    async def test_a_seed_named_again_gets_another_chance(self, ground: Ground, verdict: Verdict) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True))
        first_seen = owner.now
        await owner.settle(await owner.lease_page(), verdict, status=500, exchange=exchange(A))
        owner = await owner.restarted(after=10)
        assert await owner.add(link(A + "1", seed=True)) == 0
        counts = await owner.frontier.counts()
        assert (counts.added, counts.queued, counts.failed) == (1, 1, 0)
        assert (counts.failures, counts.refused) == ({}, {})
        record = await owner.url(A + "1")
        assert (record.state, record.reason, record.attempts) == (State.QUEUED, None, 0)
        assert (record.first_seen, record.status) == (first_seen, 500)
        assert (await owner.lease_page()).attempt == 1

    @pytest.mark.parametrize("verdict", [_FAILED, _REFUSED], ids=["failed", "refused"])
    @asynchronous
    async def test_a_link_found_again_gets_no_second_chance(self, ground: Ground, verdict: Verdict) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True))
        await owner.settle(await owner.lease_page(), verdict)
        owner = await owner.restarted()
        redirected = replace(link(A + "1", seed=True), hops=1, requested=A)
        assert await owner.add(link(A + "1", score=9.0), redirected) == 0
        assert (await owner.url(A + "1")).state is verdict.state
        counts = await owner.frontier.counts()
        assert (counts.seen, counts.known, counts.queued) == (3, 2, 0)

    @asynchronous
    async def test_a_seed_that_was_crawled_or_waits_is_not_touched(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True), link(A + "2", seed=True))
        await owner.store(await owner.lease_page())
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 60))
        assert await owner.add(link(A + "1", seed=True), link(A + "2", seed=True)) == 0
        assert await owner.lease() == []
        assert (await owner.url(A + "2")).attempts == 1

    @pytest.mark.parametrize("code", ["robots.unreachable", "retry-after", "crawl-delay", "host.failing"])
    @asynchronous
    async def test_a_host_set_aside_for_a_while_is_taken_back_with_all_that_waits(
        self, ground: Ground, code: str
    ) -> None:
        owner = await _with_host_aside(ground, Reason(code, "not now"))
        assert (await owner.frontier.counts()).refused == {code: 3}
        owner = await owner.restarted(after=40)
        assert await owner.add(link(A + "new", seed=True)) == 1
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.hosts_aside) == (4, {}, 0)
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert (record.aside, record.queued) == (None, 4)
        assert await owner.lease() == []  # its clock still applies
        owner.now += 60
        (visit,) = await owner.lease()
        assert visit.link.purpose is Purpose.ROBOTS
        await owner.settle(visit, robots=allowed(ORIGIN, owner.now + DAY))
        assert sorted(await owner.crawl()) == [A + name for name in ("flying", "new", "retry", "waiting")]
        assert (await owner.frontier.counts()).queued == 0

    @asynchronous
    async def test_a_retry_whose_time_came_while_its_host_was_aside_comes_back_with_it(
        self, ground: Ground
    ) -> None:
        owner = await _with_host_aside(ground, Reason("retry-after", "not now"))
        owner.now += 1000
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        owner = await owner.killed(after=1000)
        await owner.add(link(A + "waiting", seed=True))
        assert len(await owner.crawl()) == 3

    @asynchronous
    async def test_a_host_set_aside_for_good_is_not_taken_back(self, ground: Ground) -> None:
        aside = Reason("gone", "somebody said so")
        owner = await _with_host_aside(ground, aside)
        assert await owner.add(link(A + "waiting", seed=True), link(A + "new", seed=True)) == 0
        record = await owner.url(A + "new")
        assert (record.state, record.reason) == (State.REFUSED, aside)
        assert (await owner.frontier.counts()).hosts_aside == 1
        copy = await owner.frontier.robots(ORIGIN)
        assert copy is not None
        assert copy.access == "none"

    @asynchronous
    async def test_a_link_takes_no_host_back(self, ground: Ground) -> None:
        owner = await _with_host_aside(ground, Reason("retry-after", "not now"))
        assert await owner.add(A + "waiting", A + "new") == 0
        counts = await owner.frontier.counts()
        assert (counts.hosts_aside, counts.queued, counts.refused) == (1, 0, {"retry-after": 4})

    @asynchronous
    async def test_what_was_offered_while_its_host_was_aside_is_accepted_when_offered_again(
        self, ground: Ground
    ) -> None:
        owner = await _with_host_aside(ground, Reason("retry-after", "not now"))
        assert await owner.add(A + "new", A + "new") == 0
        assert await owner.add(link(A + "waiting", seed=True)) == 0
        assert (await owner.url(A + "new")).state is State.REFUSED
        assert await owner.add(A + "new") == 1
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused) == (4, {})

    @asynchronous
    async def test_a_link_moves_forward_also_while_its_host_is_aside(self, ground: Ground) -> None:
        owner = await _with_host_aside(ground, Reason("retry-after", "not now"))
        await owner.add(link(A + "waiting", score=50.0))
        await owner.add(link(A + "new", score=25.0, seed=True))
        await owner.add(link(A + "waiting", score=75.0))
        owner = await owner.restarted(after=100)
        assert (await owner.crawl())[:2] == [A + "waiting", A + "new"]

    @asynchronous
    async def test_rules_that_were_fetched_are_kept(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True))
        await owner.settle(await owner.lease_page(), _REFUSED)
        copy = await owner.frontier.robots(ORIGIN)
        await owner.add(link(A + "1", seed=True))
        assert await owner.frontier.robots(ORIGIN) == copy
        assert (await owner.lease())[0].link.url == A + "1"

    @asynchronous
    async def test_a_seed_refused_for_lack_of_a_robots_txt_requests_it_again(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True))
        ban = replace(allowed(ORIGIN, owner.now + DAY), access="none", tries=3)
        await owner.settle((await owner.lease())[0], robots=ban)
        await owner.settle((await owner.lease())[0], _REFUSED)
        await owner.add(link(A + "1", seed=True))
        (visit,) = await owner.lease()
        assert (visit.link.purpose, visit.attempt) == (Purpose.ROBOTS, 1)


async def _with_host_aside(ground: Ground, aside: Reason) -> Owner:
    """A host set aside with a page in its queue, a retry in 30 s, and one in flight; free after 100 s."""
    owner = await Owner.of(ground, per_host=2)
    names = ("retry", "last", "flying", "waiting")
    await owner.add(*(link(A + name, score=-number) for number, name in enumerate(names)))
    ban = replace(allowed(ORIGIN, owner.now + DAY), access="none", tries=1)
    await owner.settle((await owner.lease())[0], robots=ban)
    retry, last = await owner.lease()
    await owner.settle(retry, Verdict(state=State.QUEUED, due=owner.now + 30))
    (flying,) = await owner.lease()
    clock = owner.now + 100
    await owner.settle(last, Verdict(state=State.CRAWLED, host_free=clock, host_aside=aside))
    await owner.settle(flying, _put_back(flying))
    return owner


def _put_back(visit: Visit) -> Verdict:
    return Verdict(state=State.QUEUED, due=visit.leased_at + 5)

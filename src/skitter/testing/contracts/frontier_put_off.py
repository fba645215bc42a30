"""Frontier, invariants 2 and 3: visits that were not made yet, because nothing may be sent before a given time."""

from msgspec.structs import replace

from skitter import urls
from skitter.model import Link, Purpose, Reason, State, Verdict, Visit
from skitter.testing.contracts.owner import Ground, Owner, allowed, asynchronous, link

A, B = "https://a.example/", "https://b.example/"
WHY = Reason("address.busy", "8 requests are in flight at its address already")


def put_off(until: float) -> Verdict:
    """Not before then."""
    return Verdict(state=State.QUEUED, due=until, reason=WHY, attempted=False, host_held=until)


def _urls(visits: list[Visit]) -> list[str]:
    return [visit.link.url for visit in visits]


class PutOffContract:
    """Nothing was sent: nothing is counted, no clock moves, and nothing is forgotten."""

    @asynchronous
    async def test_the_host_of_a_page_that_is_put_off_waits_until_then_and_others_do_not(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=1), A + "2", B + "1")
        visit = next(each for each in await owner.lease_pages() if each.link.host == "a.example")
        before = await owner.frontier.host("a.example")
        await owner.settle(visit, put_off(owner.now + 5))
        await owner.add(B + "2")
        await _waits(owner, 5)
        (again,) = await owner.lease()
        assert (again.link, again.attempt) == (visit.link, 1)  # the first of its host, as before
        after = await owner.frontier.host("a.example")
        assert before is not None
        assert after == replace(before, held=owner.now)  # it waited, and nothing was counted

    @asynchronous
    async def test_a_page_that_is_put_off_says_why_and_counts_as_waiting(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        visit = await owner.lease_page()
        counts = await owner.frontier.counts()
        waiting = replace(counts, leased=0, queued=1, levels=counts.levels | {visit.link.level: 1})
        await owner.settle(visit, put_off(owner.now + 5))
        assert await owner.frontier.counts() == waiting
        record = await owner.url(A + "1")
        assert (record.state, record.reason, record.attempts) == (State.QUEUED, WHY, 0)
        owner = await owner.killed()
        assert await owner.lease() == []
        assert (await owner.url(A + "1")).reason == WHY
        owner.now += 5
        await owner.store(await owner.lease_page())
        record = await owner.url(A + "1")
        assert (record.state, record.reason) == (State.CRAWLED, None)

    @asynchronous
    async def test_a_robots_txt_that_is_put_off_is_asked_for_then_as_if_for_the_first_time(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        (visit,) = await owner.lease()
        for _ in range(3):
            await owner.settle(visit, replace(put_off(owner.now + 5), host_free=owner.now + 5))
            await _waits(owner, 5)
            (visit,) = await owner.lease()
            assert (visit.link.purpose, visit.attempt) == (Purpose.ROBOTS, 1)
        await owner.settle(visit, robots=allowed(visit.link.origin, owner.now + 100))
        assert _urls(await owner.lease()) == [A + "1"]
        record = await owner.frontier.host("a.example")
        assert record is not None
        assert (record.errors, record.requests) == (0, 0)

    @asynchronous
    async def test_a_hop_that_is_put_off_is_made_then_and_the_rules_still_arrive(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        (first,) = await owner.lease()
        hop = replace(
            first.link,
            url=B + "rules.txt",
            key=B + "rules.txt",
            host=urls.host(B),
            hops=1,
        )
        moved = Verdict(state=State.CRAWLED, due=owner.now + 3600, host_free=owner.now + 1)
        await owner.settle(first, moved, again=hop)
        (visit,) = await owner.lease()
        for _ in range(3):
            await owner.settle(visit, _hop_put_off(owner.now), again=visit.link)
            await _waits(owner, 5)
            owner = await owner.killed()
            owner.now += 1  # it may have been leased ahead
            (visit,) = await owner.lease()
            assert _as_sent(visit.link) == _as_sent(hop)
        await owner.settle(visit, robots=allowed("https://a.example", owner.now + 100))
        assert _urls(await owner.lease()) == [A + "1"]

    @asynchronous
    async def test_a_suspect_that_is_put_off_is_still_one(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        owner.frontier.in_hand(await owner.lease_page())
        owner = await owner.killed()
        owner.now += 1
        visit = await owner.lease_page()
        assert visit.alone
        await owner.settle(visit, put_off(owner.now + 5))
        owner.now += 5
        visit = await owner.lease_page()
        assert (visit.link.url, visit.alone) == (A + "1", True)
        await owner.store(visit)
        assert not (await owner.lease_page()).alone


async def _waits(owner: Owner, seconds: float) -> None:
    """Nothing is handed out before, and somebody looks again by then. Now it is then."""
    then = owner.now + seconds
    for moment in (owner.now, then - 0.1):
        owner.now = moment
        assert await owner.lease() == []
        due = await owner.frontier.next_due(owner.now)
        assert due is not None
        assert due <= then
    owner.now = then


def _hop_put_off(now: float) -> Verdict:
    """The pages of its origin wait for it, and the clock of its host says when it may be sent."""
    return replace(put_off(now + 5), due=now + 3600, host_free=now + 5)


def _as_sent(hop: Link) -> tuple[str, str, int]:
    return hop.url, hop.origin, hop.hops

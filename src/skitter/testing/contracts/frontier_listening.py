"""Frontier, invariant 2 again: what a host's answers taught is kept with the host, whoever owns the shard next."""

import pytest
from msgspec.structs import replace

from skitter.model import Fault, Heard, HostRecord, Pace, Purpose, Reason, Settlement, State, Verdict, Visit
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, exchange, link

A = "https://a.example/"
HOST = "a.example"
PAUSES = (600.0, 3600.0, 21600.0)  # politeness.park


def heard(owner: Owner, sign: str = "", *, takes: float = 0.001, **how: bool) -> Verdict:
    """What a visit means that has just ended so, for a host that is owed a second."""
    told = Heard(owner.now, owner.now + takes, sign, **how)
    free = None if sign == Fault.DNS else told.ended + 1.0
    if not sign:
        return Verdict(state=State.CRAWLED, host_free=free, host_delay=1.0, heard=told)
    reason = Reason("http.429", f"the server answered {sign}")
    return Verdict(
        state=State.QUEUED, due=told.ended + 30, reason=reason, host_free=free, host_delay=1.0, heard=told
    )


async def wait(owner: Owner) -> Visit:
    """Sleep until the next page may be visited, and lease it."""
    for _ in range(9):
        for visit in await owner.lease(1):
            if visit.link.purpose is not Purpose.ROBOTS:
                return visit
            await owner.settle(visit, robots=allowed(visit.link.origin, owner.now + 30 * DAY))
        due = await owner.frontier.next_due(owner.now)
        assert due is not None, "nothing waits"
        owner.now = max(owner.now, due)
    raise AssertionError("nothing was handed out when it was due")


async def refuse(owner: Owner, times: int, sign: str = "429") -> list[float]:
    """Let so many visits end with this sign; the time that passed before each."""
    waited = []
    for _ in range(times):
        since = owner.now
        visit = await wait(owner)
        waited.append(owner.now - since)
        await owner.settle(visit, heard(owner, sign))
    return waited


async def host_of(owner: Owner) -> HostRecord:
    """The record of the host, which must exist."""
    record = await owner.frontier.host(HOST)
    assert record is not None
    return record


async def pace_of(owner: Owner) -> Pace:
    """What was learnt of it."""
    pace = (await host_of(owner)).pace
    assert pace is not None
    return pace


class ListeningContract:
    """The delay that listens, and hosts that keep failing."""

    @asynchronous
    async def test_refusals_double_the_delay_of_the_whole_host(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(12)))
        waited = await refuse(owner, 8)
        expected = [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
        for number, (real, least) in enumerate(zip(waited, expected, strict=True)):
            assert least <= real <= least * 1.1**number + 0.1, number  # the jitter only adds
        record = await host_of(owner)
        assert record.delay >= 256
        assert (await pace_of(owner)).doubled == 8

    @pytest.mark.parametrize("end", ["restarted", "killed"])
    @asynchronous
    async def test_what_was_learnt_survives(self, ground: Ground, end: str) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(20)))
        await refuse(owner, 5)
        before = await host_of(owner)
        assert before.delay >= 32
        owner = await (owner.restarted(after=1) if end == "restarted" else owner.killed(after=1))
        after = await host_of(owner)
        assert (after.pace, after.delay, after.free_at) == (before.pace, before.delay, before.free_at)
        (waited,) = await refuse(owner, 1)
        assert waited >= 31 - 0.1
        assert (await pace_of(owner)).doubled == 6

    @asynchronous
    async def test_a_visit_lost_in_a_crash_costs_the_delay_that_was_learnt(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(9)))
        await refuse(owner, 5)
        await wait(owner)
        owner = await owner.killed(after=1)
        owner.now += 30
        assert await owner.lease() == []
        owner.now += 15
        assert len(await owner.lease()) == 1

    @asynchronous
    async def test_a_connection_that_was_too_old_costs_the_delay_too(self, ground: Ground) -> None:
        """Nothing is learnt from it, and nothing forgotten."""
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(9)))
        await refuse(owner, 5)
        visit = await wait(owner)
        reused = Verdict(
            state=State.QUEUED, due=owner.now, attempted=False, host_free=owner.now + 1, host_delay=1.0
        )
        sent = replace(exchange(visit.link.url), started=owner.now, ended=owner.now)
        await owner.settle(visit, reused, exchange=sent)
        owner.now += 31.9
        assert await owner.lease() == []
        assert (await host_of(owner)).delay >= 32

    @asynchronous
    async def test_answers_that_take_ten_times_as_long_are_noticed_across_a_crash(
        self, ground: Ground
    ) -> None:
        """How long they take as a rule is known to the next owner, and that they have begun to take longer."""
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(40)))
        for takes in (*[0.1] * 20, *[1.0] * 5):
            await owner.settle(await wait(owner), heard(owner, takes=takes))
            owner = await owner.killed(after=takes)
        assert (await host_of(owner)).delay >= 5 * 1.1
        since = owner.now
        await wait(owner)
        assert owner.now - since >= 5 * 1.1 - 0.1

    @asynchronous
    async def test_recovery_needs_ten_good_answers_also_across_a_crash(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(30)))
        await refuse(owner, 3)
        delay = (await host_of(owner)).delay
        for number in range(9):
            await owner.settle(await wait(owner), heard(owner))
            if number == 4:
                owner = await owner.killed()
        assert (await host_of(owner)).delay == delay
        await owner.settle(await wait(owner), heard(owner))
        assert (await host_of(owner)).delay == pytest.approx(0.9 * delay)

    @asynchronous
    async def test_a_burst_ends_when_the_host_refuses(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=3)
        await owner.add(*(f"{A}{number}" for number in range(9)))
        await refuse(owner, 3)
        await wait(owner)
        assert await owner.lease() == []  # though two more may be in flight
        owner.now += 7.9
        assert await owner.lease() == []

    @asynchronous
    async def test_a_host_that_keeps_failing_is_parked_and_given_up(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(20)))
        await refuse(owner, 9, "timeout")
        for pause in PAUSES:
            visit = await wait(owner)
            await owner.settle(visit, heard(owner, "timeout"))
            record = await owner.url(visit.link.url)
            assert (record.state, record.attempts) == (State.QUEUED, visit.attempt - 1)  # the host's failure
            assert record.reason is not None
            assert record.reason.code == "host.parked"
            owner = await owner.killed(after=pause - 1)
            assert await owner.lease() == []
        errors = (await host_of(owner)).errors
        await owner.settle(await wait(owner), heard(owner, "timeout"))
        host = await host_of(owner)
        assert host.aside is not None
        assert host.aside.code == "host.failing"
        assert host.errors == errors + 1
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed, counts.refused) == (0, 0, {"host.failing": 20})
        assert await owner.frontier.next_due(owner.now) is None
        await owner.add(link(A + "new", seed=True))  # somebody wants it all the same
        assert (await pace_of(owner)).parked == 0
        await refuse(owner, 9, "timeout")
        assert (await host_of(owner)).aside is None

    @asynchronous
    async def test_a_parked_host_that_answers_goes_on(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(20)))
        await refuse(owner, 10, "reset")
        since = owner.now
        visit = await wait(owner)
        assert owner.now - since >= PAUSES[0]
        await owner.settle(visit, heard(owner))
        assert (await pace_of(owner)).failures == 0
        await refuse(owner, 9, "reset")
        assert (await pace_of(owner)).parked == 1

    @asynchronous
    async def test_a_host_whose_name_cannot_be_looked_up_is_parked_though_nothing_was_sent(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(20)))
        await refuse(owner, 10, "dns")
        since = owner.now
        await wait(owner)
        assert owner.now - since >= PAUSES[0]

    @asynchronous
    async def test_a_robots_txt_that_waits_on_a_host_that_is_given_up_is_answered(
        self, ground: Ground
    ) -> None:
        """Its origin, elsewhere, need not wait for it."""
        owner = await Owner.of(ground)
        await owner.add(*(f"{A}{number}" for number in range(20)))
        await refuse(owner, 12, "503")
        last = await wait(owner)
        await owner.add("https://b.example/1")
        robots = next(v for v in await owner.lease() if v.link.host == "b.example")
        hop = replace(link(A + "robots.txt"), purpose=Purpose.ROBOTS, origin="https://b.example", hops=1)
        settled = [
            Settlement(visit=robots, verdict=Verdict(state=State.QUEUED), again=hop),
            Settlement(visit=last, verdict=heard(owner, "503")),
        ]
        assert await owner.frontier.settle(settled, owner.mark, owner.now) == [True, True]
        copy = await owner.frontier.robots("https://b.example")
        assert copy is not None
        assert copy.access == "none"

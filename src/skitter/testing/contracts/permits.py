"""The contract of `skitter.ports.Permits`, executable.

class TestMyPermits(PermitsContract):
    async def sharers(self, count: int, settings: PolitenessSettings) -> list[Permits]:
        return [MyPermits(...) for _ in range(count)]

Sharers stand for processes that share the permits of every address. Times are real: some of them belong to an engine.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from skitter import reasons
from skitter.model import NotNow
from skitter.ports import Permits
from skitter.settings import PolitenessSettings, Seconds
from skitter.testing.contracts.owner import asynchronous

A, B, SIX = "192.0.2.1", "192.0.2.2", "2001:db8::1"
PATIENCE = 60.0  # seconds: a bound for loops, not a promise
_PRECISION = 0.01  # of two clocks
_SETTLING = 0.005  # seconds between the end of a request and the next one of the same host


class Uses:
    """Requests to addresses, and the most that were in flight at one."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: Counter[int] = Counter()  # by sharer
        self.starts: list[float] = []
        self.refusals = 0

    async def request(self, permits: Permits, address: str, sharer: int, seconds: float) -> bool:
        """One request, if there is a permit; False if there is none."""
        refusal = await permits.ask(address)
        if refusal is not None:
            self.refusals += 1
            await asyncio.sleep(max(0.0, refusal.until - time.time()))
            return False
        begun = time.monotonic()
        self.starts.append(begun)
        self.now[address] += 1
        self.most[address] = max(self.most[address], self.now[address])
        try:
            await asyncio.sleep(seconds)
            self.done[sharer] += 1
        finally:
            self.now[address] -= 1
            permits.give_back(address, time.monotonic() - begun)
        return True

    async def requests(self, permits: Permits, address: str, sharer: int, count: int, seconds: float) -> None:
        """So many, one after the other."""
        until = time.monotonic() + PATIENCE
        while count and time.monotonic() < until:
            count -= await self.request(permits, address, sharer, seconds)
            await asyncio.sleep(_SETTLING)
        assert count == 0, "it was refused for ever"


async def granted(permits: Permits, address: str) -> None:
    """A permit, as soon as there is one."""
    until = time.monotonic() + PATIENCE
    while (refusal := await permits.ask(address)) is not None:
        assert time.monotonic() < until, "it was refused for ever"
        await asyncio.sleep(max(0.0, refusal.until - time.time()))


async def refused(permits: Permits, address: str) -> NotNow:
    """The answer to somebody who gets none."""
    refusal = await permits.ask(address)
    assert refusal is not None
    return refusal


def politeness(limit: int | None, delay: float = 0.0) -> PolitenessSettings:
    """Settings for so many requests to an address."""
    return PolitenessSettings(per_address=limit, address_delay=Seconds(delay))


class PermitsContract:
    """Every numbered invariant of the port."""

    async def sharers(self, count: int, settings: PolitenessSettings) -> Sequence[Permits]:
        """Several that share all permits. One that cannot be shared is the same object each time."""
        raise NotImplementedError

    async def succeed(self, dead: Permits) -> None:  # noqa: ARG002
        """One of them was killed with permits out, and whoever replaces its process has started."""
        pytest.skip("it dies with its permits")

    @asynchronous
    async def test_as_many_as_allowed_and_not_one_more(self) -> None:
        (permits,) = await self.sharers(1, politeness(3))
        for _ in range(3):
            assert await permits.ask(A) is None
        refusal = await refused(permits, A)
        assert refusal.reason.code == reasons.ADDRESS_BUSY
        permits.give_back(A, 0.1)
        await granted(permits, A)
        await refused(permits, A)

    @asynchronous
    async def test_one_address_takes_nothing_from_another(self) -> None:
        (permits,) = await self.sharers(1, politeness(1))
        for address in (A, B, SIX):
            assert await permits.ask(address) is None
        for address in (A, B, SIX):
            await refused(permits, address)

    @asynchronous
    async def test_whoever_is_refused_is_told_a_time_of_their_own_in_the_future(self) -> None:
        (permits,) = await self.sharers(1, politeness(4))
        for _ in range(4):
            assert await permits.ask(A) is None
        asked = time.time()
        times = [(await refused(permits, A)).until for _ in range(20)]
        assert times == sorted(set(times))
        assert asked < times[0]
        assert times[-1] < asked + 20  # nobody waits for long, though many do

    @asynchronous
    async def test_all_that_share_an_address_share_its_limit(self) -> None:
        sharers, uses = await self.sharers(3, politeness(4)), Uses()
        async with asyncio.TaskGroup() as tasks:
            for number, permits in enumerate(sharers):
                for _ in range(5):
                    tasks.create_task(uses.requests(permits, A, number, 6, 0.02))
        assert uses.most[A] <= 4
        assert sum(uses.done.values()) == 3 * 5 * 6

    @asynchronous
    async def test_nobody_is_refused_for_ever_while_others_keep_asking(self) -> None:
        sharers, uses = await self.sharers(2, politeness(1)), Uses()
        greedy = [asyncio.create_task(uses.requests(sharers[0], A, 0, 10**9, 0.01)) for _ in range(5)]
        await asyncio.sleep(0.2)
        await uses.requests(sharers[1], A, 1, 10, 0.01)
        for task in greedy:
            task.cancel()
        assert uses.most[A] == 1
        await asyncio.wait(greedy)

    @asynchronous
    async def test_requests_begin_apart_whoever_makes_them(self) -> None:
        sharers, uses = await self.sharers(2, politeness(None, 0.1)), Uses()
        async with asyncio.TaskGroup() as tasks:
            for number, permits in enumerate(sharers):
                for _ in range(2):
                    tasks.create_task(uses.requests(permits, A, number, 4, 0.3))
        gaps = [after - before for before, after in zip(uses.starts, uses.starts[1:], strict=False)]
        assert min(gaps) >= 0.1 - _PRECISION
        assert uses.most[A] > 1  # a request may begin before the last has ended

    @asynchronous
    async def test_a_refusal_names_the_delay_if_that_is_why(self) -> None:
        (permits,) = await self.sharers(1, politeness(2, 30.0))
        assert await permits.ask(A) is None
        refusal = await refused(permits, A)
        assert refusal.reason.code == reasons.ADDRESS_DELAY
        assert refusal.until > time.time() + 20

    @asynchronous
    async def test_after_a_beginning_nothing_is_used_before_its_delay(self) -> None:
        (permits,) = await self.sharers(1, politeness(2, 0.5))
        begun = time.monotonic()
        permits.begin()
        await refused(permits, A)
        await granted(permits, A)
        assert time.monotonic() >= begun + 0.5

    @asynchronous
    async def test_what_was_not_sent_after_all_is_in_flight_no_longer(self) -> None:
        (permits,) = await self.sharers(1, politeness(1))
        assert await permits.ask(A) is None
        permits.give_back(A, None)
        await granted(permits, A)
        await refused(permits, A)

    @asynchronous
    async def test_what_a_killed_process_had_comes_back(self) -> None:
        dead, other = await self.sharers(2, politeness(2))
        assert await dead.ask(A) is None
        await granted(dead, A)
        await refused(other, A)
        await self.succeed(dead)
        await granted(other, A)
        await granted(other, A)
        await refused(other, A)

    @asynchronous
    async def test_a_visit_is_refused_about_once(self) -> None:
        (permits,) = await self.sharers(1, politeness(8))
        uses = Uses()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(60):
                tasks.create_task(uses.requests(permits, A, 0, 10, 0.05))
        assert uses.most[A] == 8
        assert uses.refusals < 1.5 * 600

    @asynchronous
    async def test_many_addresses_cost_nothing_once_they_are_not_used(self) -> None:
        (permits,) = await self.sharers(1, politeness(1))
        for number in range(20_000):
            address = f"198.18.{number // 250}.{number % 250}"
            await granted(permits, address)
            permits.give_back(address, 0.01)
        await granted(permits, A)
        await refused(permits, A)

"""A worker acts only while its shards are its own for certain."""

import asyncio

import pytest

from skitter.cluster.clock import EngineClock
from skitter.cluster.lease import ShardLeases
from skitter.ports import Fenced


class Watch:
    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return 5000.0 + self.time


def test_a_lease_counts_from_the_moment_its_renewal_was_asked_for():
    watch = Watch()
    leases = ShardLeases(15.0, watch.monotonic)
    leases.renewed([3], asked_at=100.0)
    watch.time = 111.9
    assert leases.holds(3)
    watch.time = 112.1  # a fifth of the lease is not relied upon
    assert not leases.holds(3)
    assert not leases.holds(4)


def test_who_asks_too_late_waits_for_the_next_renewal():
    async def scene() -> bool:
        watch = Watch()
        leases = ShardLeases(15.0, watch.monotonic)
        leases.renewed([3], asked_at=100.0)
        watch.time = 130.0  # the process was frozen
        waiting = asyncio.create_task(leases.held(3))
        await asyncio.sleep(0)
        assert not waiting.done()
        leases.renewed([3], asked_at=129.0)
        await waiting
        return leases.holds(3)

    assert asyncio.run(scene())


def test_who_has_lost_a_shard_is_told_so_and_does_nothing():
    async def scene() -> None:
        watch = Watch()
        leases = ShardLeases(15.0, watch.monotonic)
        leases.renewed([3], asked_at=100.0)
        watch.time = 130.0
        waiting = asyncio.create_task(leases.held(3))
        await asyncio.sleep(0)
        leases.ended(3)
        with pytest.raises(Fenced):
            await waiting

    asyncio.run(scene())


def test_the_engines_time_never_goes_back():
    watch = Watch()
    clock = EngineClock(watch)
    clock.heard(9002.0, asked_at=102.0, answered_at=102.0)
    watch.time = 103.0
    assert clock.now() == 9003.0
    clock.heard(8990.0, asked_at=103.0, answered_at=103.0)  # it was set back
    assert clock.now() == 9003.0
    watch.time = 117.0
    assert clock.now() == 9004.0


def test_what_our_own_clock_said_before_the_engine_spoke_is_forgotten():
    watch = Watch()
    clock = EngineClock(watch)
    ours = clock.now()
    clock.heard(ours - 60.0, asked_at=watch.time, answered_at=watch.time)
    assert clock.now() == ours - 60.0


def test_a_slow_answer_does_not_put_the_clock_forward():
    watch = Watch()
    clock = EngineClock(watch)
    clock.heard(9000.0, asked_at=100.0, answered_at=100.0)
    clock.heard(9020.0, asked_at=100.0, answered_at=120.0)  # the engine was frozen, and said it in the end
    clock.heard(9020.0, asked_at=120.0, answered_at=140.0)  # the same, and said it at once
    watch.time = 140.0
    assert clock.now() == 9040.0
    clock.heard(9041.5, asked_at=140.0, answered_at=141.0)  # it was put forward: then we follow
    watch.time = 141.0
    assert clock.now() == 9041.5


def test_clocks_that_go_apart_by_a_hair_do_not_put_ours_forward_by_a_slow_answer():
    watch = Watch()
    clock = EngineClock(watch)
    clock.heard(9000.0, asked_at=100.0, answered_at=100.001)
    clock.heard(
        9020.003, asked_at=100.001, answered_at=120.0
    )  # frozen for 20 s, and its clock is faster than ours
    watch.time = 120.0
    assert 9020.0 <= clock.now() <= 9020.01


def test_what_is_under_way_ends_with_the_trust_in_the_lease_and_goes_on_with_a_renewal():
    """Whoever takes the shard then relies on it."""

    async def scene() -> None:
        clock = asyncio.get_running_loop().time
        leases = ShardLeases(0.5, clock)
        leases.renewed([3], clock())
        begun = clock()

        async def work() -> float:
            try:
                async with leases.trusted(3):
                    await asyncio.Event().wait()
            except TimeoutError:
                return clock() - begun
            raise AssertionError

        working = asyncio.create_task(work())
        await asyncio.sleep(0.2)
        leases.renewed([3], clock())
        assert await working >= 0.55

    asyncio.run(scene())

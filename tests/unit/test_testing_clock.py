"""Virtual time: a week passes at once, in order, and never while real work is running."""

import asyncio
import contextlib
import time

import pytest

from skitter.testing.clock import EPOCH, Stalled, VirtualClock, VirtualLoop, run_virtual

WEEK = 7 * 86400.0


def test_a_week_of_sleep_passes_and_both_clocks_say_so():
    async def main(clock):
        await asyncio.sleep(WEEK)
        return clock.now(), clock.monotonic(), asyncio.get_running_loop().time()

    clock = VirtualClock()
    before = time.monotonic()
    now, monotonic, loop_time = run_virtual(main(clock), clock)
    assert time.monotonic() - before < WEEK / 1000
    assert monotonic == pytest.approx(WEEK, abs=1e-6)
    assert now == pytest.approx(EPOCH + WEEK, abs=1e-6)
    assert loop_time == monotonic


def test_timers_fire_in_order_at_their_times():
    async def sleeper(seconds, clock, seen):
        await asyncio.sleep(seconds)
        seen.append((seconds, clock.monotonic()))

    async def main(clock):
        seen: list[tuple[float, float]] = []
        async with asyncio.TaskGroup() as group:
            for seconds in (300.0, 0.001, 86_400.0, 5.0, 5.0):
                group.create_task(sleeper(seconds, clock, seen))
        return seen

    clock = VirtualClock()
    seen = run_virtual(main(clock), clock)
    assert [seconds for seconds, _ in seen] == [0.001, 5.0, 5.0, 300.0, 86_400.0]
    assert all(at == pytest.approx(seconds, abs=1e-6) for seconds, at in seen)


def test_many_short_sleeps_do_not_drift():
    async def main(clock):
        for _ in range(20_000):
            await asyncio.sleep(0.1)
        return clock.monotonic()

    clock = VirtualClock()
    assert run_virtual(main(clock), clock) == pytest.approx(2_000.0, abs=1e-3)


def test_ten_years_pass_beyond_nanosecond_precision():
    async def main():
        for _ in range(10):
            await asyncio.sleep(365 * 86400.0 + 0.123456789)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(3650 * 86400 + 1.23456789, abs=1e-3)


def test_timeouts_are_virtual_too():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(WEEK)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(3600, abs=1e-6)


def test_time_stands_still_while_a_thread_works():
    async def main():
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(WEEK, lambda: None)
        await asyncio.to_thread(time.sleep, 0.2)
        alarm.cancel()
        return loop.time()

    assert run_virtual(main()) == 0.0


def test_leaving_waits_for_threads_that_are_still_at_work():
    done: list[bool] = []

    def work():
        time.sleep(0.2)
        done.append(True)

    async def main():
        asyncio.get_running_loop().run_in_executor(None, work)
        await asyncio.sleep(0)

    run_virtual(main())
    assert done == [True]


def test_after_the_thread_time_jumps_again():
    async def main():
        await asyncio.to_thread(lambda: None)
        await asyncio.sleep(WEEK)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(WEEK, abs=1e-6)


def test_a_crawl_that_can_never_continue_is_reported_as_stalled():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="no timer"):
        run_virtual(main())


def test_real_sockets_still_work():
    async def main():
        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        return line

    assert run_virtual(main()) == b"hello\n"


def test_the_wall_clock_can_be_set_back_and_intervals_do_not_notice():
    async def main(clock):
        await asyncio.sleep(10)
        clock.set_wall(-3600)
        await asyncio.sleep(10)
        return clock.now(), clock.monotonic()

    clock = VirtualClock(start=1_000_000.0)
    now, monotonic = run_virtual(main(clock), clock)
    assert now == pytest.approx(1_000_020.0 - 3600, abs=1e-6)
    assert monotonic == pytest.approx(20.0, abs=1e-6)


def test_time_cannot_be_advanced_backwards():
    with pytest.raises(ValueError, match="backwards"):
        VirtualClock().advance(-1.0)


def test_a_loop_creates_its_own_clock_by_default():
    loop = VirtualLoop()
    try:
        loop.run_until_complete(asyncio.sleep(5))
        assert loop.clock.monotonic() == pytest.approx(5.0, abs=1e-6)
    finally:
        loop.close()

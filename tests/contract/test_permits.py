"""The permits of a process, and those of a fleet, keep the contract of the port."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from skitter.backends.permits import MemoryPermits, SharedPermits
from skitter.backends.permits.turns import LEAST, MOST, next_turn, of_address
from skitter.ports import Permits
from skitter.runtime.clock import SystemClock
from skitter.settings import PolitenessSettings
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.owner import asynchronous
from skitter.testing.contracts.permits import A, B, PermitsContract, granted, politeness, refused


class TestMemoryPermits(PermitsContract):
    async def sharers(self, count: int, settings: PolitenessSettings) -> Sequence[Permits]:
        return [MemoryPermits(of_address(settings), SystemClock())] * count

    @asynchronous
    async def test_it_forgets_addresses_that_nobody_waits_for(self):
        permits = MemoryPermits(of_address(politeness(None, 0.001)), SystemClock())
        for number in range(5_000):
            address = f"198.18.{number // 250}.{number % 250}"
            await granted(permits, address)
            permits.give_back(address, 0.01)
        assert len(permits._turns) < 3_000
        assert permits._out == {}

    @asynchronous
    async def test_a_permit_that_was_not_used_gives_back_no_turn_that_another_has_taken(self):
        """The first got no permit for another key, but only after the second had begun."""
        clock = VirtualClock()
        permits = MemoryPermits(of_address(politeness(None, 1.0)), clock)
        for ends_first in (False, True):
            await granted(permits, A)
            clock.advance(1.0)
            await granted(permits, A)
            if ends_first:
                permits.give_back(A, 0.0)
            permits.give_back(A, None)
            clock.advance(0.5)
            await refused(permits, A)
            clock.advance(10.0)
            if not ends_first:
                permits.give_back(A, 0.0)


# A worker that takes permits, says so, and waits to be killed.
MORTAL = """
import asyncio, sys, time
from pathlib import Path
from skitter.backends.permits import SharedPermits
from skitter.backends.permits.turns import of_address
from skitter.runtime.clock import SystemClock
from skitter.testing.contracts.permits import A, politeness
permits = SharedPermits(Path(sys.argv[1]), 1, 2, of_address(politeness(3)), SystemClock())
print([asyncio.run(permits.ask(A)) for _ in range(2)], flush=True)
time.sleep(600)
"""
# A worker among others that asks as fast as it can, and counts in a file of its own how many it has.
EAGER = """
import asyncio, sys, time
from pathlib import Path
from skitter.backends.permits import SharedPermits
from skitter.backends.permits.turns import of_address
from skitter.runtime.clock import SystemClock
from skitter.testing.contracts.permits import A, politeness
path, number = Path(sys.argv[1]), int(sys.argv[2])
permits = SharedPermits(path, number, 3, of_address(politeness(2)), SystemClock())
async def main():
    spans, until = [], time.monotonic() + 2
    while time.monotonic() < until:
        if await permits.ask(A) is None:
            begun = time.monotonic()
            time.sleep(0.0005)
            spans.append((begun, time.monotonic()))
            permits.give_back(A, 0.0005)
    for begun, ended in spans:
        print(begun, ended)
asyncio.run(main())
"""


class TestSharedPermits(PermitsContract):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "permits"
        self.open: list[SharedPermits] = []
        self.settings = PolitenessSettings()

    async def sharers(self, count: int, settings: PolitenessSettings) -> Sequence[Permits]:
        self.settings, self.count = settings, count
        self.open = [
            SharedPermits(self.path, number, count, of_address(settings), SystemClock())
            for number in range(count)
        ]
        return self.open

    async def succeed(self, dead: Permits) -> None:
        number = [each is dead for each in self.open].index(True)
        self.open.append(
            SharedPermits(self.path, number, self.count, of_address(self.settings), SystemClock())
        )

    async def release(self) -> None:
        for each in self.open:
            await each.close()

    @asynchronous
    async def test_a_full_bucket_refuses_and_never_exceeds(self):
        permits = SharedPermits(self.path, 0, 1, of_address(politeness(1)), SystemClock())
        self.open.append(permits)
        _, bucket = permits._bucket(A)
        same = []
        for number in range(2**24):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            if permits._bucket_of(address)[1] == bucket:
                same.append(address)
            if len(same) == 9:
                break
        for address in same[:8]:
            assert await permits.ask(address) is None
        await refused(permits, same[8])
        permits.give_back(same[0], 0.01)
        await granted(permits, same[8])
        await refused(permits, same[8])

    @asynchronous
    async def test_a_worker_killed_with_permits_out_keeps_them_until_its_successor_is_there(self):
        permits = SharedPermits(self.path, 0, 2, of_address(politeness(3)), SystemClock())
        self.open.append(permits)
        command = [sys.executable, "-c", MORTAL, str(self.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mortal:
            try:
                assert mortal.stdout is not None
                assert mortal.stdout.readline() == "[None, None]\n"
                assert await permits.ask(A) is None
                await refused(permits, A)
            finally:
                os.kill(mortal.pid, signal.SIGKILL)
        await refused(permits, A)
        self.open.append(SharedPermits(self.path, 1, 2, of_address(politeness(3)), SystemClock()))
        await granted(permits, A)
        await granted(permits, A)
        await refused(permits, A)

    def test_processes_that_ask_at_the_same_time_never_have_more_than_allowed(self):
        commands = [[sys.executable, "-c", EAGER, str(self.path), str(number)] for number in range(3)]
        workers = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
        events = []
        for worker in workers:
            said, _ = worker.communicate(timeout=120)
            assert worker.returncode == 0
            for line in said.splitlines():
                begun, ended = map(float, line.split())
                events += [(begun, 1), (ended, -1)]
        assert len(events) > 100
        now = most = 0
        for _, change in sorted(events):
            now += change
            most = max(most, now)
        assert most == 2

    @asynchronous
    async def test_a_lock_that_is_held_stops_nobody(self):
        """Its holder may have been stopped. Whoever asks meanwhile gets no permit, and gives back without the lock."""
        permits = SharedPermits(self.path, 0, 1, of_address(politeness(1)), SystemClock())
        self.open.append(permits)
        assert await permits.ask(A) is None
        holding = "import fcntl, sys, time; fcntl.flock(file := open(sys.argv[1]), fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)"
        command = [sys.executable, "-c", holding, str(self.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
            try:
                assert holder.stdout is not None
                assert holder.stdout.readline() == "held\n"
                await refused(permits, B)
                permits.give_back(A, 0.01)
            finally:
                os.kill(holder.pid, signal.SIGKILL)
        await granted(permits, A)

    @asynchronous
    async def test_it_starts_over_with_a_file_of_another_size(self):
        self.path.write_bytes(b"\xff" * 1000)
        permits = SharedPermits(self.path, 0, 4, of_address(politeness(1)), SystemClock())
        self.open.append(permits)
        assert await permits.ask(A) is None

    @asynchronous
    async def test_a_request_that_ends_after_the_end_does_no_harm(self):
        permits = SharedPermits(self.path, 0, 1, of_address(politeness(1)), SystemClock())
        assert await permits.ask(A) is None
        await permits.close()
        await permits.close()
        permits.give_back(A, 1.0)


def test_turns_are_apart_and_within_bounds():
    assert next_turn(0.0, 0.1, 100.0) == 100 + LEAST
    assert next_turn(101.0, 0.1, 100.0) == 101.1
    assert next_turn(1000.0, 0.1, 100.0) == 100 + MOST
    assert next_turn(0.0, 0.1, 100.0, free_at=300.0) == 300.0


@pytest.mark.parametrize("kind", ["memory", "shared"])
def test_asking_costs_little(tmp_path, kind):
    """Printed, not promised: how long it takes to ask and to give back."""
    permits: Permits = (
        MemoryPermits(of_address(politeness(8)), SystemClock())
        if kind == "memory"
        else SharedPermits(tmp_path / "p", 0, 4, of_address(politeness(8)), SystemClock())
    )
    rounds = 20_000

    async def main() -> float:
        begun = time.perf_counter()
        for _ in range(rounds):
            await permits.ask(A)
            permits.give_back(A, 0.1)
        return time.perf_counter() - begun

    spent = asyncio.run(main())
    print(f"\n{kind}: {spent / rounds * 1e6:.2f} µs to ask and give back")

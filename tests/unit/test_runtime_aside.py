"""Calls that do not end: nobody waits for them, neither whoever closes nor the process."""

import asyncio
import logging
import subprocess
import sys
import threading
import time

import pytest

from skitter.runtime.aside import OneThread, aside, closed, is_any_left

HUNG = """
import asyncio, sys, threading
import confluent_kafka, skitter.cli
from skitter.__main__ import main
from skitter.runtime.aside import aside, closed

def command():
    async def close():
        return await closed("Kafka", aside(threading.Event().wait), within=0.2)
    is_closed = asyncio.run(close())
    print("closed" if is_closed else "not closed")
    return 3

skitter.cli.main = command
main()
"""


def test_a_process_ends_with_its_exit_code_although_a_client_never_closes():
    """Without the thread aside, asyncio, and then the interpreter, would wait for it."""
    pytest.importorskip("confluent_kafka")
    ended = subprocess.run(
        [sys.executable, "-c", HUNG], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (3, "not closed\n"), ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("Kafka: 1 of 1 connections could not be closed (no answer within 0.2 s)")


@pytest.fixture
def stuck():
    """A lock that is held until the test is over."""
    lock = threading.Event()
    yield lock
    lock.set()


def test_what_does_not_close_in_time_is_said_once_and_left(stuck, caplog):
    async def scenario():
        began = time.monotonic()
        assert not await closed("Redis", aside(stuck.wait), aside(int), aside(stuck.wait), within=0.1)
        assert is_any_left()
        return time.monotonic() - began

    with caplog.at_level(logging.WARNING, "skitter"):
        assert asyncio.run(scenario()) < 60
    [said] = caplog.messages
    assert said == (
        "Redis: 2 of 3 connections could not be closed (no answer within 0.1 s); they end with the process"
    )


def test_a_failure_to_close_is_said_and_raised_by_nobody(caplog):
    async def scenario():
        async def fails():
            raise OSError("the server\nhas gone")

        return await closed("PostgreSQL", fails(), asyncio.sleep(0))

    assert asyncio.run(scenario()) is False
    [said] = caplog.messages
    assert "1 of 2 connections could not be closed (the server has gone)" in said


def test_nothing_is_said_when_all_is_closed(caplog):
    assert asyncio.run(closed("Kafka", asyncio.sleep(0))) is True
    assert caplog.messages == []


def test_calls_of_one_thread_come_one_after_the_other_and_bring_results_and_errors():
    async def scenario():
        thread, order = OneThread("test"), []

        def slow(number: int) -> str:
            time.sleep(0.01)
            order.append(number)
            return threading.current_thread().name

        names = await asyncio.gather(*(thread.call(slow, number) for number in range(5)))
        with pytest.raises(ZeroDivisionError):
            await thread.call(lambda: 1 // 0)
        thread.end()
        return names, order

    names, order = asyncio.run(scenario())
    assert (set(names), order) == ({"test"}, [0, 1, 2, 3, 4])


def test_a_call_that_has_begun_goes_on_when_its_caller_is_cancelled():
    async def scenario():
        begun, go, done = threading.Event(), threading.Event(), threading.Event()

        def call():
            begun.set()
            go.wait()
            done.set()

        calling = asyncio.create_task(aside(call))
        assert await asyncio.to_thread(begun.wait, 60)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        go.set()
        return await asyncio.to_thread(done.wait, 60)

    assert asyncio.run(scenario())

"""Signals stop a run, also those that come before it listens."""

import asyncio
import os
import signal

from skitter.cli.stopping import interrupts_remembered, stoppable


class Swallows:
    """Python drops what is raised in here."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # the handler runs between two steps
            pass


def test_an_interrupt_that_python_swallowed_stops_the_run_when_it_begins(monkeypatch, recwarn):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    stopped = []

    async def main():
        with stoppable(lambda: stopped.append("first"), lambda: stopped.append("again")):
            await asyncio.sleep(0.01)

    try:
        with interrupts_remembered():
            Swallows()
            asyncio.run(main())
            asyncio.run(main())  # it was heard once
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped == ["first"]


def test_an_interrupt_still_raises_before_the_run_listens():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with interrupts_remembered():
            os.kill(os.getpid(), signal.SIGINT)
        raised = False
    except KeyboardInterrupt:
        raised = True
    finally:
        signal.signal(signal.SIGINT, before)
    assert raised

"""Signals that stop a run: Ctrl-C, SIGTERM, and SIGHUP when the terminal closes."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_LOOK = 0.5  # seconds; a signal delivered to another thread does not wake this one


def _heard() -> list[signal.Signals]:
    """The signals to handle; those that nohup or a shell's "&" ignores stay ignored."""
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def until_signal() -> None:
    """Block until the first signal, without an event loop."""
    came = threading.Event()
    before = {number: signal.signal(number, lambda *_: came.set()) for number in _heard()}
    while not came.wait(_LOOK):
        pass
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def stoppable(first: Callable[[], None], again: Callable[[], None]) -> Iterator[None]:
    """Call `first` at the first signal and `again` at each one after it, on the running event loop."""
    loop = asyncio.get_running_loop()
    signals = _heard()
    asked = False

    def interrupt() -> None:
        nonlocal asked
        asked_before, asked = asked, True
        (again if asked_before else first)()

    for number in signals:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)

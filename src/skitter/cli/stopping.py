"""Signals that stop a run: Ctrl-C, SIGTERM, and SIGHUP when the terminal closes."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
def cancelled_by_signals() -> Iterator[None]:
    """A signal cancels the current task, which then leaves nothing half done behind."""
    loop, task, signals = asyncio.get_running_loop(), asyncio.current_task(), _heard()
    for number in signals:
        loop.add_signal_handler(number, task.cancel if task else lambda: None)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


_remembered: list[int] = []


@contextmanager
def interrupts_remembered() -> Iterator[None]:
    """Ctrl-C is remembered until `stoppable` listens.

    It still raises KeyboardInterrupt. But Python drops an exception that is raised inside a destructor or a callback of its
    own, and then nobody would ever hear of it.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        _remembered.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        _remembered.clear()
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


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
    if _remembered:
        _remembered.clear()
        loop.call_soon(interrupt)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)

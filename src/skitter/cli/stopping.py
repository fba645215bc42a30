"""Signals that stop a run: Ctrl-C, SIGTERM, and the end of the terminal."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stoppable(first: Callable[[], None], again: Callable[[], None]) -> Iterator[None]:
    """Call `first` at the first signal and `again` at each one after it, on the running event loop."""
    loop = asyncio.get_running_loop()
    # What nohup or a shell's "&" ignores stays ignored.
    signals = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
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

"""Virtual time: an event loop on which a week of crawling runs in milliseconds.

When every task waits and nothing is ready, the loop does not sleep: it sets its time to that of the next
timer. Work in threads (`run_in_executor`, `asyncio.to_thread`) and sockets are real: while a thread works,
time stands still, and sockets are polled before each jump. A crawl on virtual time therefore brings its own
fetcher. If all tasks wait and no timer is set, nothing can ever happen again: instead of hanging, the loop
raises.

    async def week(clock):
        await asyncio.sleep(7 * 86400)
        return clock.now()

    clock = VirtualClock()
    run_virtual(week(clock), clock)
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Wall-clock time at which virtual time starts by default: 2026-01-01T00:00:00Z.
EPOCH = 1_767_225_600.0
# While a thread works the selector waits for real, in steps of this many seconds.
_THREAD_STEP = 0.05


class Stalled(RuntimeError):  # noqa: N818  it names the state, like StopIteration
    """Every task waits, no timer is set and no thread works: nothing can ever happen again."""


class VirtualClock:
    """The crawler's clock on virtual time. Pass it to `run_virtual`, which advances it."""

    def __init__(self, start: float = EPOCH) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> float:
        """Wall-clock seconds since the epoch."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the clock was created; they never go backwards."""
        return self._elapsed

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward or, if negative, back, as an administrator would. Timers are not affected."""
        self._start += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass. Called by the loop, or by a test to simulate work that takes time."""
        if seconds < 0:
            raise ValueError("time does not run backwards; set_wall sets the wall clock back")
        self._elapsed += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that advances virtual time instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ready events; otherwise a jump to the next timer."""
        ready = super().select(_THREAD_STEP if self.threads and timeout != 0 else 0)
        if ready or self.threads or timeout == 0:
            return ready
        if timeout is not None:
            self.clock.advance(max(0.0, timeout))
            return []
        if len(self.get_map()) > 1:  # besides the loop's own wake-up socket: real sockets, worth waiting for
            return super().select(None)
        raise Stalled("all tasks wait and no timer is set: a future that nobody will ever resolve")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a virtual clock."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self._jumping = _JumpingSelector(self.clock)
        super().__init__(self._jumping)
        # Timers this close are due together. A float loses the real clock's nanosecond after some 200 days,
        # and then the loop would wait for ever for a timer that is due now.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """The clock's monotonic time."""
        return self.clock.monotonic()

    def run_in_executor(
        self,
        executor: Any,  # noqa: ANN401  the executor's type is of no interest here
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Run in a thread, while time stands still."""
        future = super().run_in_executor(executor, func, *args)
        self._jumping.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, *_timeout: float | None) -> None:
        """Wait for the threads, which do real work too. A timeout, available from Python 3.12 on, would be virtual."""
        self._jumping.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.threads -= 1

    def _thread_done(self, _future: "asyncio.Future[Any]") -> None:
        self._jumping.threads -= 1


def run_virtual(main: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    """`asyncio.run` on virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)

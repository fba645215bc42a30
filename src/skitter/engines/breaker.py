"""A circuit breaker: stops calls to a failing engine for a while, then tries it again carefully.

    closed ──half of the calls in the window failed──► open ──its pause is over──► half-open ──enough tests passed──► closed
                                                        ▲                              │
                                                        └──────── a test failed ───────┘   and the next pause is longer

`Breaker` only decides: time and randomness are arguments. A call takes a ticket and returns it with the
result. A ticket belongs to the period it was issued in; one returned from an earlier period (a call that hung
while the breaker opened and closed again) says nothing about the engine now and is not counted.

`Guard` is a breaker around the calls of one engine, with a clock, randomness and a health check. Every probe
starts with the check, because it finishes soon where a call may hang for long; and the check runs alone when
nothing was heard from the engine for a while, so that a frozen or currently unused engine is noticed too. A
guard never waits or repeats by itself: a refused call raises `EngineAway`, and the caller waits until it may
be repeated (`again`).
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import TypeVar

from skitter.ports import EngineAway
from skitter.runtime.metrics import EngineMetrics

T = TypeVar("T")

_BREATH = 0.1  # seconds between two attempts of one caller while the breaker is closed
_LOOK = 1.0  # seconds between two checks of an engine that may have fallen silent


class Phase(StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"  # calls are made
    OPEN = "open"  # calls are refused
    HALF_OPEN = "half-open"  # a few calls are made, as a test


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and how it closes again.

    The defaults suit an engine that everything waits for: leases must be renewed soon after it returns, so no
    pause is long.
    """

    window: float = 12.0  # seconds of calls that count
    minimum: int = 3  # calls in the window before a decision
    share: float = 0.5  # fraction of failures that opens it
    tests: int = 10  # concurrent calls when half-open; this many must succeed (cluster.breaker_tests)
    pause: float = 0.1  # seconds of the first pause; each further one is twice as long
    longest: float = 2.0  # seconds of the longest pause
    silence: float = 3.0  # seconds without an answer before the engine is checked
    deadline: float = 4.0  # seconds for a check; three of them fit into the window

    def pause_after(self, openings: int, dice: float) -> float:
        """How long to stay open for the nth time in a row: half to all of it, randomly, so that workers spread out."""
        whole = min(self.longest, self.pause * 2.0 ** min(openings - 1, 60))
        return whole * (0.5 + dice / 2)


class Breaker:
    """The state machine. `now` never goes backwards, `dice` is in [0, 1)."""

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self.rules = rules or BreakerRules()
        self._calls: deque[tuple[float, bool]] = (
            deque()
        )  # when a call of this period ended, and whether it failed
        self._failures = 0
        self._period = 0
        self._until = 0.0  # open until this time
        self._openings = 0  # times opened in a row, without being closed in between
        self._testing = 0  # tickets of running tests
        self._passed = 0
        self._open = False

    def phase(self, now: float) -> Phase:
        """The state at this time."""
        if not self._open:
            return Phase.CLOSED
        return Phase.HALF_OPEN if now >= self._until else Phase.OPEN

    def enter(self, now: float) -> int | None:
        """A ticket for one call, to be returned; None: do not call."""
        match self.phase(now):
            case Phase.OPEN:
                return None
            case Phase.HALF_OPEN:
                if self._testing + self._passed >= self.rules.tests:
                    return None
                self._testing += 1
        return self._period

    def wait(self, now: float) -> float | None:
        """Seconds until a call may be made: 0 for now, None if that depends on running tests."""
        if self.phase(now) is Phase.HALF_OPEN and self._testing + self._passed >= self.rules.tests:
            return None
        return max(0.0, self._until - now) if self._open else 0.0

    def succeeded(self, ticket: int, now: float) -> None:
        """The call succeeded."""
        if ticket != self._period:
            return
        if self._open:
            self._testing -= 1
            self._passed += 1
            if self._passed >= self.rules.tests:
                self._begin_period()
                self._open, self._openings = False, 0
            return
        self._count(now, failed=False)

    def failed(self, ticket: int, now: float, dice: float) -> None:
        """The call failed, or the engine reported that it is unwell."""
        if ticket != self._period:
            return
        if not self._open:
            self._count(now, failed=True)
            few = len(self._calls) < self.rules.minimum
            if few or self._failures < self.rules.share * len(self._calls):
                return
        self._begin_period()
        self._open = True
        self._openings += 1
        self._until = now + self.rules.pause_after(self._openings, dice)

    def abandoned(self, ticket: int) -> None:
        """The call was cancelled, so nothing is known; another test may replace it."""
        if ticket == self._period and self._open:
            self._testing -= 1

    def metrics(self, now: float) -> EngineMetrics:
        """Whether it is open, how often it opened in a row, and what is in the window."""
        heights = {Phase.CLOSED: 0, Phase.HALF_OPEN: 1, Phase.OPEN: 2}
        return EngineMetrics(heights[self.phase(now)], self._openings, len(self._calls), self._failures)

    def _count(self, now: float, *, failed: bool) -> None:
        self._calls.append((now, failed))
        self._failures += failed
        while self._calls[0][0] < now - self.rules.window:
            self._failures -= self._calls.popleft()[1]

    def _begin_period(self) -> None:
        self._period += 1
        self._calls.clear()
        self._failures = self._testing = self._passed = 0


async def until_again(away: EngineAway) -> None:
    """Wait until the failed call is worth repeating."""
    await (asyncio.sleep(_BREATH) if away.again is None else away.again())


class BreakerOpenError(EngineAway):
    """The call was not made: the engine has failed too often. The message says which, and for how long."""

    def __init__(self, said: str, again: Callable[[], Awaitable[None]]) -> None:
        super().__init__(said)
        self.again = again


@dataclass(frozen=True, slots=True)
class Away:
    """An engine that is currently away."""

    since: float  # by the guard's clock: when the first of the consecutive failures began
    why: str  # the message of the last failure


class _Went(Enum):
    """How a call ended."""

    WELL = auto()
    BADLY = auto()
    NOWHERE = auto()  # called off


class Guard:
    """A breaker around the calls of one engine.

    `check` is the health check; it raises EngineAway if the engine is unwell. EngineAway and `failures` are
    the exceptions that count as failures. Others pass through and count as an answer: a duplicate key or a
    missing object is not an outage.
    """

    def __init__(
        self,
        engine: str,
        check: Callable[[], Awaitable[None]],
        *,
        failures: tuple[type[Exception], ...] = (),
        rules: BreakerRules | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.engine = engine
        self.away: Away | None = None  # from the moment it opens until it closes
        self.listen: Callable[[Guard], None] = lambda _guard: None  # called when `away` changes
        self._check = check
        self._failures: tuple[type[Exception], ...] = (EngineAway, *failures)
        self._rules = rules or BreakerRules()
        self._breaker = Breaker(self._rules)
        self._monotonic = monotonic
        self._dice = dice
        self._moved = asyncio.Event()  # set when a ticket is returned
        self._waiting = 0  # number of callers waiting
        self._heard = monotonic()  # when a call last succeeded
        self._failing: float | None = None  # when the first of the consecutive failures began

    def test_with(self, tests: int) -> None:
        """Set how many calls must succeed before an engine counts as back."""
        self._rules = self._breaker.rules = replace(self._rules, tests=tests)

    @property
    def phase(self) -> Phase:
        """The breaker's current state."""
        return self._breaker.phase(self._monotonic())

    def metrics(self) -> EngineMetrics:
        """The breaker in numbers."""
        return self._breaker.metrics(self._monotonic())

    # -- calls -------------------------------------------------------------------------------------------------

    async def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make one call. Raises BreakerOpenError, without calling, while the breaker is open."""
        async with self.guard():
            return await make()

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Context manager for one call. Raises BreakerOpenError, without entering, while the breaker is open."""
        began = self._monotonic()
        testing = self._breaker.phase(began) is Phase.HALF_OPEN
        ticket = self._breaker.enter(began)
        if ticket is None:
            raise BreakerOpenError(self._refusal(), self.again)
        went, why = _Went.WELL, ""
        try:
            if testing:
                await self._ask()
            yield
        except self._failures as problem:
            went, why = _Went.BADLY, str(problem) or type(problem).__name__
            if isinstance(problem, EngineAway):
                problem.again = self.again
            raise
        except asyncio.CancelledError:
            went = _Went.NOWHERE
            raise
        finally:
            self._hand_back(ticket, went, began)
            self._notice(why)

    async def ready(self) -> None:
        """Wait until a call may be made. Another caller may take the slot first, so the call may still be refused."""
        self._waiting += 1
        try:
            while (wait := self._breaker.wait(self._monotonic())) != 0.0:
                self._moved.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._moved.wait()
                except TimeoutError:
                    pass
        finally:
            self._waiting -= 1

    async def again(self) -> None:
        """Wait until a retry is worthwhile, after a call that failed or was refused."""
        if self.phase is Phase.CLOSED:
            await asyncio.sleep(_BREATH)
        else:
            await self.ready()

    # -- health checks
    # -----------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Check the engine for as long as it is used. Ends by cancellation."""
        while True:
            await asyncio.sleep(_LOOK)
            await self.look()

    async def look(self) -> None:
        """Run the health check until the result is known, if the engine has been silent for a while.

        If a caller is waiting, its call is the better test: an engine may report itself healthy and still
        refuse.
        """
        while self._is_in_doubt() and not self._waiting:
            try:
                async with self.guard():
                    if self.phase is Phase.CLOSED:  # otherwise a test has just done it
                        await self._ask()
            except self._failures:
                await asyncio.sleep(_BREATH)

    def _is_in_doubt(self) -> bool:
        match self.phase:
            case Phase.OPEN:
                return False
            case Phase.HALF_OPEN:
                return True
        return self._monotonic() - self._heard >= self._rules.silence

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(self._rules.deadline):
                await self._check()
        except TimeoutError:
            within = f"{self._rules.deadline:g} s"
            raise EngineAway(f"{self.engine} did not answer a health check within {within}") from None

    # -- state
    # -------------------------------------------------------------------------------------------------

    def _hand_back(self, ticket: int, went: _Went, began: float) -> None:
        now = self._monotonic()
        match went:
            case _Went.WELL:
                self._heard, self._failing = now, None
                self._breaker.succeeded(ticket, now)
            case _Went.BADLY:
                self._failing = began if self._failing is None else self._failing
                self._breaker.failed(ticket, now, self._dice())
            case _Went.NOWHERE:
                self._breaker.abandoned(ticket)
        self._moved.set()

    def _notice(self, why: str) -> None:
        """Report that the engine has gone away, or is back."""
        closed = self.phase is Phase.CLOSED
        if closed == (self.away is None):
            return
        self.away = None if closed else Away(self._failing or self._monotonic(), why)
        self.listen(self)

    def _refusal(self) -> str:
        wait = self._breaker.wait(self._monotonic())
        again = "after the running tests" if wait is None else f"in {wait:.1f} s"
        why = f" ({self.away.why})" if self.away else ""
        return f"{self.engine} keeps failing and gets no calls{why}; it is tried again {again}"

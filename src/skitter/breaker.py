"""A circuit breaker: an engine that keeps failing is left alone for a while, and then tried with care.

    closed ──half of the calls in the window failed──► open ──its pause is over──► half-open ──enough tests passed──► closed
                                                        ▲                              │
                                                        └──────── a test failed ───────┘   and the next pause is longer

`Breaker` decides and does nothing else: the time and the dice are arguments. A call asks for a ticket, and hands it back
with how it went. A ticket belongs to the period it was given in; what comes back from an earlier one (a call that hung
while the breaker opened and closed again) says nothing about the engine now and is not counted.

`Guard` is a breaker around the calls of one engine, with a clock and dice.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TypeVar

T = TypeVar("T")


class Phase(StrEnum):
    """What a breaker does with a call."""

    CLOSED = "closed"  # it is made
    OPEN = "open"  # it is refused
    HALF_OPEN = "half-open"  # a few are made, to see


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and how it comes back."""

    window: float = 30.0  # seconds that count
    minimum: int = 5  # calls in the window before anything is concluded from them
    share: float = 0.5  # of them failed: open
    tests: int = 3  # calls at once when half-open; so many must succeed
    pause: float = 0.5  # seconds of the first pause; each further one is twice as long
    longest: float = 30.0  # … and never longer than this

    def pause_after(self, openings: int, dice: float) -> float:
        """How long to stay open for the nth time in a row: between half and all of it, so that workers spread out."""
        whole = min(self.longest, self.pause * 2.0 ** min(openings - 1, 60))
        return whole * (0.5 + dice / 2)


class Breaker:
    """The state machine. `now` never goes back, `dice` is in [0, 1)."""

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self._rules = rules or BreakerRules()
        self._calls: deque[tuple[float, bool]] = (
            deque()
        )  # when a call of this period ended, and whether it failed
        self._failures = 0
        self._period = 0
        self._until = 0.0  # open until then
        self._openings = 0  # in a row, without having been closed
        self._testing = 0  # tests that are out
        self._passed = 0
        self._open = False

    def phase(self, now: float) -> Phase:
        """Where it is now."""
        if not self._open:
            return Phase.CLOSED
        return Phase.HALF_OPEN if now >= self._until else Phase.OPEN

    def enter(self, now: float) -> int | None:
        """A ticket for one call, to be handed back; None: do not call."""
        match self.phase(now):
            case Phase.OPEN:
                return None
            case Phase.HALF_OPEN:
                if self._testing + self._passed >= self._rules.tests:
                    return None
                self._testing += 1
        return self._period

    def wait(self, now: float) -> float | None:
        """Seconds until a call may be made: 0 for now, None when that hangs on the tests that are out."""
        if self.phase(now) is Phase.HALF_OPEN and self._testing + self._passed >= self._rules.tests:
            return None
        return max(0.0, self._until - now) if self._open else 0.0

    def succeeded(self, ticket: int, now: float) -> None:
        """The call was answered."""
        if ticket != self._period:
            return
        if self._open:
            self._testing -= 1
            self._passed += 1
            if self._passed >= self._rules.tests:
                self._begin_period()
                self._open, self._openings = False, 0
            return
        self._count(now, failed=False)

    def failed(self, ticket: int, now: float, dice: float) -> None:
        """The call was not answered, or the engine said that it is not well."""
        if ticket != self._period:
            return
        if not self._open:
            self._count(now, failed=True)
            few = len(self._calls) < self._rules.minimum
            if few or self._failures < self._rules.share * len(self._calls):
                return
        self._begin_period()
        self._open = True
        self._openings += 1
        self._until = now + self._rules.pause_after(self._openings, dice)

    def abandoned(self, ticket: int) -> None:
        """The call was called off, so nothing is known; another test may be made in its place."""
        if ticket == self._period and self._open:
            self._testing -= 1

    def statistics(self, now: float) -> dict[str, float]:
        """For the status: 0 closed, 1 half-open, 2 open; how often in a row; what the window holds."""
        heights = {Phase.CLOSED: 0.0, Phase.HALF_OPEN: 1.0, Phase.OPEN: 2.0}
        return {
            "phase": heights[self.phase(now)],
            "openings": float(self._openings),
            "calls": float(len(self._calls)),
            "failures": float(self._failures),
        }

    def _count(self, now: float, *, failed: bool) -> None:
        self._calls.append((now, failed))
        self._failures += failed
        while self._calls[0][0] < now - self._rules.window:
            self._failures -= self._calls.popleft()[1]

    def _begin_period(self) -> None:
        self._period += 1
        self._calls.clear()
        self._failures = self._testing = self._passed = 0


class BreakerOpenError(Exception):
    """The call was not made: the engine has failed too often. The message says which, and for how long."""


class _Went(Enum):
    """How a call ended."""

    WELL = auto()
    BADLY = auto()
    NOWHERE = auto()  # called off


class Guard:
    """A breaker around the calls of one engine.

    `failures` are the exceptions that speak against the engine. Others pass and count as an answer: a unique key that is
    taken or a missing object is no illness.
    """

    def __init__(
        self,
        engine: str,
        monotonic: Callable[[], float],
        failures: tuple[type[Exception], ...] = (OSError, TimeoutError),
        *,
        rules: BreakerRules | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.engine = engine
        self._breaker = Breaker(rules)
        self._monotonic = monotonic
        self._failures = failures
        self._dice = dice
        self._moved = asyncio.Event()  # a ticket came back

    @property
    def phase(self) -> Phase:
        """Where the breaker is now."""
        return self._breaker.phase(self._monotonic())

    def statistics(self) -> dict[str, float]:
        """The breaker in numbers."""
        return self._breaker.statistics(self._monotonic())

    async def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make one call. BreakerOpenError, and no call, while the engine is left alone."""
        async with self.guard():
            return await make()

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """The body is one call. BreakerOpenError, and it is not entered, while the engine is left alone."""
        ticket = self._breaker.enter(self._monotonic())
        if ticket is None:
            raise BreakerOpenError(self._refusal())
        went = _Went.WELL
        try:
            yield
        except self._failures:
            went = _Went.BADLY
            raise
        except asyncio.CancelledError:
            went = _Went.NOWHERE
            raise
        finally:
            self._hand_back(ticket, went)

    async def ready(self) -> None:
        """Return when a call may be made. Who is quicker may take the place: be ready to be refused all the same."""
        while (wait := self._breaker.wait(self._monotonic())) != 0.0:
            self._moved.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._moved.wait()
            except TimeoutError:
                pass

    def _hand_back(self, ticket: int, went: _Went) -> None:
        match went:
            case _Went.WELL:
                self._breaker.succeeded(ticket, self._monotonic())
            case _Went.BADLY:
                self._breaker.failed(ticket, self._monotonic(), self._dice())
            case _Went.NOWHERE:
                self._breaker.abandoned(ticket)
        self._moved.set()

    def _refusal(self) -> str:
        wait = self._breaker.wait(self._monotonic())
        again = "once its tests are back" if wait is None else f"in {wait:.1f} s"
        return f"{self.engine} keeps failing and is left alone; it is tried again {again}"

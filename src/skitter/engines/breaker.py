"""A circuit breaker: an engine that keeps failing is left alone for a while, and then tried with care.

    closed ──half of the calls in the window failed──► open ──its pause is over──► half-open ──enough tests passed──► closed
                                                        ▲                              │
                                                        └──────── a test failed ───────┘   and the next pause is longer

`Breaker` decides and does nothing else: the time and the dice are arguments. A call asks for a ticket, and hands it back
with how it went. A ticket belongs to the period it was given in; what comes back from an earlier one (a call that hung
while the breaker opened and closed again) says nothing about the engine now and is not counted.

`Guard` is a breaker around the calls of one engine, with a clock, dice and a health check. The check is the first thing of
every test, because it is over soon where a call may hang for long; and it is made alone when nobody has heard from the
engine for a while, so that a frozen engine, or one that is not needed just now, is found out too. A guard never waits or
repeats by itself: a call that is refused is `EngineAway`, and whoever made it waits until it may be made again (`again`).
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

T = TypeVar("T")

_BREATH = 0.1  # seconds between two attempts of one asker while the breaker is closed
_LOOK = 1.0  # seconds between two looks at an engine that may have fallen silent


class Phase(StrEnum):
    """What a breaker does with a call."""

    CLOSED = "closed"  # it is made
    OPEN = "open"  # it is refused
    HALF_OPEN = "half-open"  # a few are made, to see


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and how it comes back.

    As they are here they suit an engine that everything waits for: leases must be renewed soon after it is back, so no pause
    is long.
    """

    window: float = 12.0  # seconds that count
    minimum: int = 3  # calls in the window before anything is concluded from them
    share: float = 0.5  # of them failed: open
    tests: int = 10  # calls at once when half-open; so many must succeed (cluster.breaker_tests)
    pause: float = 0.1  # seconds of the first pause; each further one is twice as long
    longest: float = 2.0  # … and never longer than this
    silence: float = 3.0  # seconds without an answer, after which the engine is asked how it is
    deadline: float = 4.0  # seconds that it has to say so; three of them fit into the window

    def pause_after(self, openings: int, dice: float) -> float:
        """How long to stay open for the nth time in a row: between half and all of it, so that workers spread out."""
        whole = min(self.longest, self.pause * 2.0 ** min(openings - 1, 60))
        return whole * (0.5 + dice / 2)


class Breaker:
    """The state machine. `now` never goes back, `dice` is in [0, 1)."""

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self.rules = rules or BreakerRules()
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
                if self._testing + self._passed >= self.rules.tests:
                    return None
                self._testing += 1
        return self._period

    def wait(self, now: float) -> float | None:
        """Seconds until a call may be made: 0 for now, None when that hangs on the tests that are out."""
        if self.phase(now) is Phase.HALF_OPEN and self._testing + self._passed >= self.rules.tests:
            return None
        return max(0.0, self._until - now) if self._open else 0.0

    def succeeded(self, ticket: int, now: float) -> None:
        """The call was answered."""
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
        """The call was not answered, or the engine said that it is not well."""
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
        while self._calls[0][0] < now - self.rules.window:
            self._failures -= self._calls.popleft()[1]

    def _begin_period(self) -> None:
        self._period += 1
        self._calls.clear()
        self._failures = self._testing = self._passed = 0


async def until_again(away: EngineAway) -> None:
    """Return when what was asked of an engine is worth asking once more."""
    await (asyncio.sleep(_BREATH) if away.again is None else away.again())


class BreakerOpenError(EngineAway):
    """The call was not made: the engine has failed too often. The message says which, and for how long."""

    def __init__(self, said: str, again: Callable[[], Awaitable[None]]) -> None:
        super().__init__(said)
        self.again = again


@dataclass(frozen=True, slots=True)
class Away:
    """An engine that is left alone."""

    since: float  # by the guard's clock: when the first of the calls began that failed in a row
    why: str  # what was said of the last of them


class _Went(Enum):
    """How a call ended."""

    WELL = auto()
    BADLY = auto()
    NOWHERE = auto()  # called off


class Guard:
    """A breaker around the calls of one engine.

    `check` asks the engine how it is, and raises EngineAway if it is not well. EngineAway and `failures` are the exceptions
    that speak against the engine. Others pass and count as an answer: a unique key that is taken or a missing object is no
    illness.
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
        self.listen: Callable[[Guard], None] = lambda _guard: None  # told when `away` changes
        self._check = check
        self._failures: tuple[type[Exception], ...] = (EngineAway, *failures)
        self._rules = rules or BreakerRules()
        self._breaker = Breaker(self._rules)
        self._monotonic = monotonic
        self._dice = dice
        self._moved = asyncio.Event()  # a ticket came back
        self._waiting = 0  # how many wait until they may call
        self._heard = monotonic()  # when a call last went well
        self._failing: float | None = None  # when the first of the calls began that failed in a row

    def test_with(self, tests: int) -> None:
        """So many calls must go well before an engine that was away counts as back."""
        self._rules = self._breaker.rules = replace(self._rules, tests=tests)

    @property
    def phase(self) -> Phase:
        """Where the breaker is now."""
        return self._breaker.phase(self._monotonic())

    def statistics(self) -> dict[str, float]:
        """The breaker in numbers."""
        return self._breaker.statistics(self._monotonic())

    # -- calls -------------------------------------------------------------------------------------------------

    async def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Make one call. BreakerOpenError, and no call, while the engine is left alone."""
        async with self.guard():
            return await make()

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """The body is one call. BreakerOpenError, and it is not entered, while the engine is left alone."""
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
        """Return when a call may be made. Who is quicker may take the place: be ready to be refused all the same."""
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
        """Return when it is worth trying once more, after a call that failed or was refused."""
        if self.phase is Phase.CLOSED:
            await asyncio.sleep(_BREATH)
        else:
            await self.ready()

    # -- looks -------------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Look at the engine for as long as it is used. Ends by cancellation."""
        while True:
            await asyncio.sleep(_LOOK)
            await self.look()

    async def look(self) -> None:
        """Ask the engine how it is until that is known, if nobody has heard from it for a while.

        Where somebody waits to make a call, that call is the better test: an engine may be well and refuse all the same.
        """
        while self._is_in_doubt() and not self._waiting:
            try:
                async with self.guard():
                    if self.phase is Phase.CLOSED:  # else it was asked as the first thing of a test
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
            raise EngineAway(f"{self.engine} does not say within {within} how it is") from None

    # -- what is known -----------------------------------------------------------------------------------------

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
        """Say so when the engine has gone, and when it is back."""
        closed = self.phase is Phase.CLOSED
        if closed == (self.away is None):
            return
        self.away = None if closed else Away(self._failing or self._monotonic(), why)
        self.listen(self)

    def _refusal(self) -> str:
        wait = self._breaker.wait(self._monotonic())
        again = "once its tests are back" if wait is None else f"in {wait:.1f} s"
        why = f" ({self.away.why})" if self.away else ""
        return f"{self.engine} keeps failing and is left alone{why}; it is tried again {again}"

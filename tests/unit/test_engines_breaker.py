"""A breaker opens only when it must, tests carefully, and always closes again."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from skitter.engines.breaker import Away, Breaker, BreakerOpenError, BreakerRules, Guard, Phase
from skitter.engines.retry import patiently
from skitter.ports import EngineAway
from skitter.runtime.metrics import EngineMetrics
from skitter.settings import Settings
from skitter.testing.clock import VirtualClock, run_virtual

RULES = BreakerRules(
    window=10.0, minimum=4, share=0.5, tests=2, pause=1.0, longest=8.0, silence=3.0, deadline=2.0
)


def ticket_of(breaker: Breaker, now: float) -> int:
    ticket = breaker.enter(now)
    assert ticket is not None
    return ticket


def tell(breaker: Breaker, now: float, *answers: bool, dice: float = 0.0) -> None:
    for answered in answers:
        ticket = ticket_of(breaker, now)
        if answered:
            breaker.succeeded(ticket, now)
        else:
            breaker.failed(ticket, now, dice)


@pytest.mark.parametrize(
    ("answers", "phase"),
    [
        ([], Phase.CLOSED),
        ([False] * 3, Phase.CLOSED),  # too few to conclude anything
        ([False] * 4, Phase.OPEN),
        ([True, True, False, False], Phase.OPEN),  # exactly half
        ([True, True, True, False, False], Phase.CLOSED),  # two of five
        ([True, True, True, False, False, False], Phase.OPEN),
        ([True] * 100, Phase.CLOSED),
    ],
)
def test_it_opens_at_half_of_enough_calls(answers, phase):
    breaker = Breaker(RULES)
    tell(breaker, 0.0, *answers)
    assert breaker.phase(0.0) is phase


def test_ten_calls_must_succeed_unless_configured_otherwise():
    now, engine = 0.0, []

    async def check() -> None:
        engine.append("asked")

    async def fails() -> None:
        raise EngineAway("away")

    async def well() -> None:
        pass

    async def calls_until_closed(tests: int | None) -> int:
        nonlocal now
        guard = Guard("engine", check, monotonic=lambda: now, dice=lambda: 0.0)
        if tests is not None:
            guard.test_with(tests)
        for _ in range(BreakerRules().minimum):
            with pytest.raises(EngineAway):
                await guard.call(fails)
        now += 100.0
        for made in range(100):
            if guard.away is None:
                return made  # 0, had it not opened
            await guard.call(well)
        raise AssertionError("it stays half-open")

    assert asyncio.run(calls_until_closed(None)) == Settings().cluster.breaker_tests == 10
    assert asyncio.run(calls_until_closed(3)) == 3


def test_a_success_never_opens_it():
    """Three failures are too few; the fourth call is one that went well."""
    breaker = Breaker(RULES)
    tell(breaker, 0.0, False, False, False, True)
    assert breaker.phase(0.0) is Phase.CLOSED


def test_results_older_than_the_window_do_not_count():
    breaker = Breaker(RULES)
    tell(breaker, 0.0, False, False, False)
    tell(breaker, 10.5, False, False, False)
    assert breaker.phase(10.5) is Phase.CLOSED
    tell(breaker, 10.6, False)
    assert breaker.phase(10.6) is Phase.OPEN


def opened(at: float = 0.0, dice: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    tell(breaker, at, *[False] * RULES.minimum, dice=dice)
    return breaker


def test_open_refuses_until_its_pause_is_over():
    breaker = opened(dice=0.999_999)
    assert breaker.enter(0.0) is None
    assert breaker.wait(0.0) == pytest.approx(1.0, abs=1e-3)
    assert breaker.enter(0.99) is None
    assert breaker.phase(1.0) is Phase.HALF_OPEN
    assert breaker.wait(1.0) == 0.0


def test_half_open_allows_a_few_calls_and_closes_when_all_succeed():
    breaker = opened()
    tickets = [breaker.enter(1.0), breaker.enter(1.0)]
    assert None not in tickets
    assert breaker.enter(1.0) is None
    assert breaker.wait(1.0) is None, "how long is not known: it hangs on the tests"
    breaker.succeeded(tickets[0], 1.5)
    assert breaker.enter(1.5) is None, "two are two, also when one is back already"
    breaker.succeeded(tickets[1], 1.5)
    assert breaker.phase(1.5) is Phase.CLOSED
    assert breaker.metrics(1.5) == EngineMetrics()


def test_a_failed_test_opens_it_for_twice_as_long_up_to_a_limit():
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(6):
        wait = breaker.wait(now)
        pauses.append(wait)
        now += wait
        breaker.failed(ticket_of(breaker, now), now, 0.0)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_having_been_closed_the_first_pause_is_short_again():
    breaker = opened()
    breaker.failed(ticket_of(breaker, 1.0), 1.0, 0.0)
    assert breaker.wait(1.0) == 1.0
    tell(breaker, 2.0, True, True)
    tell(breaker, 3.0, *[False] * RULES.minimum)
    assert breaker.wait(3.0) == 0.5


def test_an_answer_from_an_earlier_period_says_nothing():
    breaker = Breaker(RULES)
    late = ticket_of(breaker, 0.0)
    tell(breaker, 0.0, *[False] * RULES.minimum)
    breaker.succeeded(late, 0.1)
    assert breaker.phase(0.1) is Phase.OPEN
    tell(breaker, 1.0, True, True)
    breaker.failed(late, 1.1, 0.0)
    assert breaker.metrics(1.1).calls == 0
    assert breaker.phase(1.1) is Phase.CLOSED


def test_a_cancelled_test_makes_room_for_another():
    breaker = opened()
    tickets = [ticket_of(breaker, 1.0), ticket_of(breaker, 1.0)]
    breaker.abandoned(tickets[0])
    assert breaker.enter(1.0) is not None
    assert breaker.enter(1.0) is None


@given(openings=st.integers(1, 10_000), dice=st.floats(0, 1, exclude_max=True))
def test_a_pause_is_spread_over_its_upper_half(openings, dice):
    whole = min(RULES.longest, RULES.pause * 2.0 ** min(openings - 1, 60))
    assert whole / 2 <= RULES.pause_after(openings, dice) <= whole


class BreakerMachine(RuleBasedStateMachine):
    """Any sequence of calls, answers and time, against what the rules say in other words."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(RULES)
        self.now = 0.0
        self.out: list[tuple[int, bool]] = []  # tickets that are out, and whether they are tests
        self.ended: list[tuple[float, bool]] = []  # of this closed period: when, and whether it failed

    @rule(seconds=st.floats(0, 12))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def call(self):
        before = self.breaker.phase(self.now)
        ticket = self.breaker.enter(self.now)
        if before is Phase.CLOSED:
            assert ticket is not None
        if before is Phase.OPEN:
            assert ticket is None
        if ticket is not None:
            assert self.breaker.wait(self.now) in (0.0, None)
            self.out.append((ticket, before is Phase.HALF_OPEN))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), how=st.sampled_from(["well", "badly", "off"]), dice=st.floats(0, 0.99))
    def end(self, data, how, dice):
        at = data.draw(st.integers(0, len(self.out) - 1))
        (ticket, test), before = self.out.pop(at), self.breaker.phase(self.now)
        current = ticket == self.breaker._period
        if how == "well":
            self.breaker.succeeded(ticket, self.now)
        elif how == "badly":
            self.breaker.failed(ticket, self.now, dice)
        else:
            self.breaker.abandoned(ticket)
        after = self.breaker.phase(self.now)
        if before is Phase.CLOSED and current and how != "off":
            self.ended.append((self.now, how == "badly"))
        if before is Phase.CLOSED:
            self.judge_opening(after, current=current, badly=how == "badly")
        if before is Phase.OPEN:
            assert after is Phase.OPEN, "nothing but time ends a pause"
        if before is Phase.HALF_OPEN and current and test and how == "badly":
            assert after is Phase.OPEN
        if after is not Phase.CLOSED or before is not Phase.CLOSED:
            self.ended.clear()

    def judge_opening(self, after, *, current, badly):
        recent = [failed for at, failed in self.ended if at >= self.now - RULES.window]
        must = current and badly and len(recent) >= RULES.minimum and 2 * sum(recent) >= len(recent)
        assert (after is Phase.OPEN) == must

    @invariant()
    def never_more_tests_than_allowed(self):
        current = self.breaker._period
        assert sum(test for ticket, test in self.out if ticket == current) <= RULES.tests

    @invariant()
    def it_always_recovers(self):
        """Once all calls go well it closes, after one pause and as many calls as there are tests."""
        if self.breaker.phase(self.now) is Phase.CLOSED:
            return
        wait = self.breaker.wait(self.now)
        assert wait is not None or self.out, "it waits for tests that nobody makes"
        assert wait is None or wait <= RULES.longest

    def teardown(self):
        self.now += RULES.longest
        for ticket, _ in self.out:
            self.breaker.succeeded(ticket, self.now)
        for _ in range(RULES.tests):
            if self.breaker.phase(self.now) is not Phase.CLOSED:
                tell(self.breaker, self.now, True)
        assert self.breaker.phase(self.now) is Phase.CLOSED


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)


# ------------------------------------------------------------------------------------------------ the guard


async def well() -> None:
    pass


def guarded(use: Callable[[Guard, VirtualClock], object], check: Callable[[], object] = well):
    clock = VirtualClock()

    async def whole():
        guard = Guard(
            "engine", check, failures=(OSError,), rules=RULES, monotonic=clock.monotonic, dice=lambda: 0.0
        )
        return await use(guard, clock)

    return run_virtual(whole(), clock)


async def fail() -> None:
    raise OSError("away")


async def answer() -> str:
    return "here"


async def break_it(guard: Guard) -> None:
    for _ in range(RULES.minimum):
        with pytest.raises(OSError, match="away"):
            await guard.call(fail)


def test_a_guard_makes_no_call_while_it_is_open_and_says_why():
    async def use(guard, _clock):
        await break_it(guard)
        calls = []
        with pytest.raises(
            BreakerOpenError,
            match=r"engine keeps failing and gets no calls \(away\); it is tried again in 0\.5 s",
        ):
            await guard.call(lambda: calls.append(1))
        assert calls == []
        return guard.phase

    assert guarded(use) is Phase.OPEN


def test_ready_waits_for_the_pause_and_calls_close_it_again():
    async def use(guard, clock):
        await break_it(guard)
        await guard.ready()
        waited = clock.monotonic()
        answers = [await guard.call(answer) for _ in range(RULES.tests)]
        return waited, answers, guard.phase

    waited, answers, phase = guarded(use)
    assert waited == pytest.approx(0.5, abs=1e-3)
    assert answers == ["here"] * RULES.tests
    assert phase is Phase.CLOSED


def test_a_caller_waiting_for_tests_continues_after_them():
    async def slow():
        await asyncio.sleep(3)

    async def use(guard, clock):
        await break_it(guard)
        await guard.ready()
        tests = [asyncio.ensure_future(guard.call(slow)) for _ in range(RULES.tests)]
        await asyncio.sleep(0)
        with pytest.raises(BreakerOpenError, match="after the running tests"):
            await guard.call(answer)
        await guard.ready()
        await asyncio.gather(*tests)
        return clock.monotonic(), guard.phase

    assert guarded(use) == (pytest.approx(3.5, abs=1e-3), Phase.CLOSED)


def test_a_cancelled_call_is_not_a_failure_and_frees_its_slot():
    async def use(guard, _clock):
        await break_it(guard)
        await guard.ready()
        stuck = [asyncio.ensure_future(guard.call(lambda: asyncio.sleep(1000))) for _ in range(RULES.tests)]
        await asyncio.sleep(1)
        for one in stuck:
            one.cancel()
        await asyncio.wait(stuck)
        await guard.call(answer)
        await guard.call(answer)
        return guard.phase

    assert guarded(use) is Phase.CLOSED


def test_an_exception_that_is_not_about_the_engine_does_not_open_it():
    async def wrong():
        raise ValueError("ours")

    async def use(guard, _clock):
        for _ in range(3 * RULES.minimum):
            with pytest.raises(ValueError, match="ours"):
                await guard.call(wrong)
        return guard.phase, guard.metrics().failures

    assert guarded(use) == (Phase.CLOSED, 0)


# ------------------------------------------------------------------------------------------------ the health check


class Engine:
    """One that is away, says nothing, or is well; and how often it was asked."""

    def __init__(self) -> None:
        self.checks = 0
        self.calls = 0
        self.trouble: str = ""

    async def check(self) -> None:
        self.checks += 1
        await self._suffer()

    async def call(self) -> str:
        self.calls += 1
        await self._suffer()
        return "here"

    async def _suffer(self) -> None:
        if self.trouble == "slow":
            await asyncio.sleep(0.5)
        if self.trouble in ("away", "slow"):
            raise EngineAway("engine: gone")
        if self.trouble == "frozen":
            await asyncio.sleep(100)
            raise EngineAway("engine: no answer")


def with_engine(use: Callable[[Guard, VirtualClock, Engine], object]):
    engine = Engine()
    return guarded(lambda guard, clock: use(guard, clock, engine), engine.check)


async def lose(guard: Guard, engine: Engine) -> None:
    engine.trouble = "away"
    for _ in range(RULES.minimum):
        with pytest.raises(EngineAway, match="gone"):
            await guard.call(engine.call)


def test_a_test_starts_with_a_health_check_and_makes_no_call_if_that_fails():
    async def use(guard, _clock, engine):
        await lose(guard, engine)
        await guard.ready()
        before = engine.calls
        with pytest.raises(EngineAway, match="gone"):
            await guard.call(engine.call)
        assert (engine.checks, engine.calls) == (1, before)
        assert guard.phase is Phase.OPEN
        engine.trouble = ""
        await guard.ready()
        assert await guard.call(engine.call) == "here"
        assert (engine.checks, engine.calls) == (2, before + 1)

    with_engine(use)


def test_a_call_that_fails_although_the_engine_says_it_is_well_opens_it_again():
    """A full disk, say: it answers, and takes nothing."""

    async def use(guard, clock):
        await break_it(guard)
        for _ in range(3):
            await guard.ready()
            with pytest.raises(OSError, match="away"):
                await guard.call(fail)
        return guard.phase, clock.monotonic()

    assert guarded(use) == (Phase.OPEN, pytest.approx(0.5 + 1 + 2, abs=1e-2))


def test_a_health_check_of_a_frozen_engine_ends_at_its_deadline():
    async def use(guard, clock, engine):
        await lose(guard, engine)
        engine.trouble = "frozen"
        await guard.ready()
        began = clock.monotonic()
        with pytest.raises(EngineAway, match="engine did not answer a health check within 2 s"):
            await guard.call(engine.call)
        return clock.monotonic() - began

    assert with_engine(use) == pytest.approx(RULES.deadline, abs=1e-3)


def test_an_engine_that_is_heard_of_is_not_asked_and_one_that_fell_silent_is():
    async def use(guard, clock, engine):
        watching = asyncio.ensure_future(guard.watch())
        for _ in range(10):
            await guard.call(engine.call)
            await asyncio.sleep(RULES.silence - 1.5)
        assert engine.checks == 0
        await asyncio.sleep(60)
        watching.cancel()
        return engine.checks

    assert 60 / (RULES.silence + 1.1) <= with_engine(use) <= 60 / RULES.silence


def test_calls_that_hang_are_found_out_by_looks():
    """A frozen engine says neither yes nor no; its callers may hang for a minute."""

    async def use(guard, clock, engine):
        for _ in range(50):
            await guard.call(engine.call)
        engine.trouble = "frozen"
        began = clock.monotonic()
        watching = asyncio.ensure_future(guard.watch())
        hanging = asyncio.ensure_future(guard.call(engine.call))
        while guard.phase is Phase.CLOSED:
            await asyncio.sleep(0.1)
        assert not hanging.done()
        found_out = clock.monotonic() - began
        engine.trouble = ""
        while guard.away is not None:
            await asyncio.sleep(0.1)
        watching.cancel()
        hanging.cancel()
        return found_out

    assert with_engine(use) <= RULES.window + RULES.silence + RULES.deadline


def test_an_unused_engine_recovers_too():
    async def use(guard, clock, engine):
        await lose(guard, engine)
        engine.trouble = ""
        watching = asyncio.ensure_future(guard.watch())
        await asyncio.sleep(3)
        watching.cancel()
        return guard.phase, engine.calls - RULES.minimum

    assert with_engine(use) == (Phase.CLOSED, 0)


def test_a_waiting_callers_call_is_the_test():
    """Who looks just when the pause is over, and before the others have noticed, leaves it to them."""

    async def use():
        engine, now = Engine(), [0.0]
        guard = Guard("engine", engine.check, rules=RULES, monotonic=lambda: now[0], dice=lambda: 0.0)
        await lose(guard, engine)
        waiting = asyncio.ensure_future(guard.ready())
        await asyncio.sleep(0)
        now[0] = 1.0
        assert guard.phase is Phase.HALF_OPEN
        await guard.look()
        assert engine.checks == 0
        waiting.cancel()
        await asyncio.wait([waiting])
        engine.trouble = ""
        await guard.look()
        assert (engine.checks, guard.phase) == (RULES.tests, Phase.CLOSED)

    asyncio.run(use())


def test_an_outage_is_reported_once_with_its_start_and_once_at_its_end():
    async def use(guard, clock, engine):
        told = []
        guard.listen = lambda heard: told.append(heard.away)
        await guard.call(engine.call)
        await asyncio.sleep(5)
        began = clock.monotonic()
        engine.trouble = "slow"
        for _ in range(RULES.minimum):
            with pytest.raises(EngineAway, match="gone"):
                await guard.call(engine.call)
        assert clock.monotonic() > began
        for _ in range(5):
            await guard.again()
            with pytest.raises(EngineAway):
                await guard.call(engine.call)
        assert told == [Away(began, "engine: gone")]
        assert guard.away == told[0]
        engine.trouble = ""
        await patiently(lambda: guard.call(engine.call))
        assert told[1:] == [], "one test of two has passed"
        await patiently(lambda: guard.call(engine.call))
        assert told[1:] == [None]

    with_engine(use)


def test_the_patient_wait_for_the_breaker_and_all_go_on_when_the_engine_is_back():
    async def use(guard, clock, engine):
        engine.trouble = "away"
        tries = 0

        async def attempt():
            nonlocal tries
            tries += 1
            return await guard.call(engine.call)

        waiting = [asyncio.ensure_future(patiently(attempt)) for _ in range(50)]
        await asyncio.sleep(60)
        assert tries < 50 * 60, "who waits sleeps until the breaker says that it is worth it"
        asked = engine.checks + engine.calls
        engine.trouble = ""
        back = clock.monotonic()
        assert await asyncio.gather(*waiting) == ["here"] * 50
        return asked, clock.monotonic() - back

    asked, took = with_engine(use)
    assert asked < 50 + 60 * RULES.tests, "fifty at first, and then a few tests after every pause"
    assert took <= RULES.longest

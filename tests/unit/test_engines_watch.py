"""Engines that go and come back are said once each, and told with the sign of life."""

import asyncio

from skitter.engines.breaker import BreakerRules, Guard
from skitter.engines.watch import INDEXING, EngineWatch, working
from skitter.ports import EngineAway
from skitter.testing.clock import VirtualClock, run_virtual

RULES = BreakerRules(window=10.0, minimum=2, tests=1, pause=1.0, longest=8.0, silence=3.0, deadline=2.0)


class Engine:
    """One that may be away."""

    away = False

    async def check(self) -> None:
        if self.away:
            raise EngineAway("Kafka: no broker answers")


def play(scene):
    clock, engine, said = VirtualClock(), Engine(), []

    async def whole():
        guard = Guard("Kafka", engine.check, rules=RULES, monotonic=clock.monotonic, dice=lambda: 0.0)
        watch = EngineWatch([guard], working("full"), clock, said.append)
        watching = asyncio.ensure_future(watch.run())
        await scene(engine, watch, clock)
        watching.cancel()

    run_virtual(whole(), clock)
    return said


def test_an_engine_that_nobody_asks_is_missed_and_found_again_and_each_is_said_once():
    async def scene(engine, watch, clock):
        await asyncio.sleep(20)
        assert watch.about() == {"Kafka": {"breaker": "closed", "since": None}}
        engine.away, gone = True, clock.now()
        await asyncio.sleep(60)
        told = watch.about()["Kafka"]
        assert told["breaker"] in ("open", "half-open")
        assert gone <= told["since"] <= gone + RULES.silence + 1.1
        engine.away = False
        await asyncio.sleep(20)
        assert watch.about() == {"Kafka": {"breaker": "closed", "since": None}}

    gone, back = play(scene)
    assert gone.startswith("Kafka is away since ")
    assert gone.endswith(
        "Z (no broker answers); what has finished is held, and nothing new is begun once there is no room for more"
    )
    assert back.startswith("Kafka is back after 1m 0")


def test_what_becomes_of_the_work_is_said_for_every_engine_that_is_used():
    assert set(working("full")) == {"PostgreSQL", "Kafka", "Redis", "S3"}
    assert "held" in working("redis")["Redis"]
    assert "resolves names for itself" in working("full")["Redis"]
    assert set(INDEXING) == {"Kafka", "OpenSearch"}


def test_an_engine_that_was_away_before_anybody_listened_is_said_too():
    said: list[str] = []

    async def scene(clock: VirtualClock) -> None:
        engine = Engine()
        engine.away = True
        guard = Guard("Kafka", engine.check, rules=RULES, monotonic=clock.monotonic)
        await asyncio.sleep(RULES.silence)
        await guard.look()
        EngineWatch([guard], INDEXING, clock, said.append)

    clock = VirtualClock()
    run_virtual(scene(clock), clock)
    assert len(said) == 1
    assert said[0].endswith("; no pages come")

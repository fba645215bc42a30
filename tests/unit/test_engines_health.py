"""How engines are, for people who look."""

import asyncio

from skitter.engines import health
from skitter.engines.health import Health, ask_all
from skitter.ports import EngineError


async def fine():
    return "3 brokers"


async def ill():
    raise EngineError("no space left")


async def silent():
    await asyncio.Event().wait()


def test_an_engine_that_is_ill_or_silent_does_not_keep_the_others_from_being_told(monkeypatch):
    monkeypatch.setattr(health, "_DEADLINE", 0.05)
    assert asyncio.run(ask_all({"A": fine, "B": ill, "C": silent})) == [
        Health("A", up=True, said="3 brokers"),
        Health("B", up=False, said="no space left"),
        Health("C", up=False, said="C says nothing for 0.05 s"),
    ]

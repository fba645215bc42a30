"""Health checks for `cluster status` and `doctor`: one cheap question to each engine, all at the same time.

Workers check through their breakers, and only if an engine has not answered anything for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from skitter.ports import EngineError

_DEADLINE = 12.0  # seconds; a little more than the first connection has, whose error says more than a timeout

Question = Callable[[], Awaitable[str]]
"""Checks an engine; returns what it reports about itself, if anything. EngineError if it does not work."""


class Health(Struct, frozen=True):
    """The health of one engine."""

    engine: str
    up: bool
    said: str  # what it reports about itself, if anything, or what is wrong


async def ask_all(questions: Mapping[str, Question]) -> list[Health]:
    """Ask each engine its question, by name."""
    return list(await asyncio.gather(*(_ask(engine, question) for engine, question in questions.items())))


async def _ask(engine: str, question: Question) -> Health:
    try:
        async with asyncio.timeout(_DEADLINE):
            return Health(engine, up=True, said=await question())
    except TimeoutError:
        return Health(engine, up=False, said=f"{engine} says nothing for {_DEADLINE:g} s")
    except EngineError as problem:
        return Health(engine, up=False, said=str(problem))

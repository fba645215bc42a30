"""How engines are, for people who look (`cluster status`, `doctor`): each is asked one cheap question, all at the same time.

Workers ask through their breakers, and only when nobody has heard from an engine for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from skitter.ports import EngineError

_DEADLINE = 12.0  # seconds: a little more than first contacts have, which can say more than that it was over

Question = Callable[[], Awaitable[str]]
"""Asks an engine how it is; returns what it says of itself, if anything. EngineError when it is not well."""


class Health(Struct, frozen=True):
    """How one engine is."""

    engine: str
    up: bool
    said: str  # what it says of itself, if anything, or what is wrong


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

"""Calls to an engine that may be away for a while."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from skitter.ports import EngineAway

T = TypeVar("T")


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call that may be made again, until the engine answers.

    When to try is for its breaker to say. Whoever waits here holds what is in flight and takes nothing more, which is what a
    worker shall do while its engine is away. A worker that has lost its shard meanwhile learns it from the answer.
    """
    while True:
        try:
            return await call()
        except EngineAway as away:
            from skitter.engines.breaker import until_again  # noqa: PLC0415  an engine at hand is never away

            await until_again(away)

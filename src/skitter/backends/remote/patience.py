"""Calls to an engine that may be away for a while."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from skitter.ports import EngineAway

T = TypeVar("T")
_FIRST, _LONGEST = 0.05, 2.0  # seconds between two tries


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call that may be made again, until the engine answers.

    Whoever waits here holds what is in flight and takes nothing more, which is what a worker shall do while its engine is
    away. A worker that has lost its shard meanwhile learns it from the answer.
    """
    pause = _FIRST
    while True:
        try:
            return await call()
        except EngineAway:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

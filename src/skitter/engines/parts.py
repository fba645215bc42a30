"""A value that an engine refuses fails alone, without the batch that contained it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from skitter.ports import Unstorable

T = TypeVar("T")
R = TypeVar("R")


async def in_parts(
    items: Sequence[T],
    step: Callable[[Sequence[T]], Awaitable[list[R]]],
    refused: Callable[[T, Unstorable], Awaitable[R]],
) -> list[R]:
    """Call `step` with all items; if an engine refuses them, with each half, down to the single refused item.

    So a refused value only fails the visit, link or line that contained it.
    """
    try:
        return await step(items)
    except Unstorable as problem:
        if len(items) == 1:
            return [await refused(items[0], problem)]
        if not items:
            raise
    middle = len(items) // 2
    return [
        *await in_parts(items[:middle], step, refused),
        *await in_parts(items[middle:], step, refused),
    ]

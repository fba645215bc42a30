"""What an engine refuses costs the one item that it refuses, not the batch that the item came in."""

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
    """Take a step with all items; if an engine refuses that, with each half, down to the one it does not take.

    So what an engine refuses costs the visit, the link or the line that brought it, and nothing else.
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

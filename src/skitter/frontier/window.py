"""The first keys of an ordered list that an engine keeps, held in memory.

The engine has the whole list; a window has every key of it up to its horizon. A new key before the horizon is put into
the window too, one behind it is left to the engine. Only the owner of a shard changes its lists, so a window stays true.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Generic, TypeVar

from skitter.frontier.rows import Spot

K = TypeVar("K", bytes, Spot, tuple[float, bytes])
V = TypeVar("V")


class Window(Generic[K, V]):
    """A read-ahead over one list."""

    __slots__ = ("_values", "complete", "horizon", "keys", "size")

    def __init__(self, start: K, size: int) -> None:
        self.size = size
        self._values: dict[K, V] = {}
        self.keys: list[K] = []
        self.horizon: K = start
        self.complete = False  # the list has no more keys than those in memory

    def push(self, key: K, value: V) -> None:
        """A key was put into the list."""
        if not self.complete and key > self.horizon:
            return
        if key not in self._values:
            insort(self.keys, key)
        self._values[key] = value
        if len(self.keys) > 2 * self.size:
            for beyond in self.keys[self.size :]:
                del self._values[beyond]
            del self.keys[self.size :]
            self.horizon, self.complete = self.keys[-1], False

    def discard(self, key: K) -> None:
        """A key was taken out of the list."""
        if self._values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def lacks(self, count: int) -> bool:
        """Whether the engine has to be asked before the first so many keys are known."""
        return not self.complete and len(self.keys) < count

    def fill(self, found: Iterable[tuple[K, V]], horizon: K | None) -> None:
        """The engine has told all keys up to a new horizon; None: all there are."""
        for key, value in found:
            if key not in self._values:
                insort(self.keys, key)
            self._values[key] = value
        if horizon is None:
            self.complete = True
        else:
            self.horizon = horizon

    def first(self) -> tuple[K, V] | None:
        """The first key, as far as memory goes, and what is found there."""
        return (self.keys[0], self._values[self.keys[0]]) if self.keys else None

    def heads(self, count: int) -> list[tuple[K, V]]:
        """The first keys that are in memory."""
        return [(key, self._values[key]) for key in self.keys[:count]]

    def __len__(self) -> int:
        return len(self.keys)

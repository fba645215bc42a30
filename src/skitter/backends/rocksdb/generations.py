"""A bounded memory of what was used lately: two dictionaries, of which the older is dropped when the younger is full.

Cheaper than a linked list of uses (nothing moves on a hit in the younger one), and as good for what links do: they repeat.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Generations(Generic[K, V]):
    """Holds at least the last `capacity // 2` things used, and forgets only in `trim`."""

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """What is remembered."""
        value = self._young.get(key)
        if value is None:
            value = self._old.pop(key, None)
            if value is not None:
                self._young[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """Remember."""
        self._young[key] = value

    def drop(self, key: K) -> None:
        """Forget this one."""
        self._young.pop(key, None)
        self._old.pop(key, None)

    def trim(self) -> None:
        """Forget what was not used lately. Only here, so that nothing vanishes in the middle of a step."""
        if len(self._young) > self._half:
            self._old, self._young = self._young, {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

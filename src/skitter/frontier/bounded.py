"""A dictionary with a bounded number of entries; the oldest are dropped."""

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """Plain dictionary look-ups. Entries are dropped oldest first, and only in `trim`: none vanishes in a step."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity

    def trim(self) -> None:
        """Drop the older half if there are too many: deleting one by one from the front is slow."""
        if len(self) > self.capacity:
            for key in list(islice(self, len(self) - self.capacity // 2)):
                del self[key]

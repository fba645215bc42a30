"""A dictionary that remembers a bounded number of things, the latest ones."""

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(dict[K, V]):
    """Looking up is a plain dictionary's. What came first goes first, and only in `trim`: nothing vanishes in a step."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity

    def trim(self) -> None:
        """Forget the older half once there is too much. In halves, because the front of a dictionary is slow to eat."""
        if len(self) > self.capacity:
            for key in list(islice(self, len(self) - self.capacity // 2)):
                del self[key]

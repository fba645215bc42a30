"""SimHashes of a domain in memory, compared all at once."""

import numpy as np
from numpy.typing import NDArray


class SimhashSet:
    """The SimHashes of a domain, in an array with room for more."""

    __slots__ = ("size", "values")

    def __init__(self, values: list[int]) -> None:
        self.size = len(values)
        self.values: NDArray[np.uint64] = np.zeros(max(8, 2 * self.size), np.uint64)
        self.values[: self.size] = values

    def add(self, simhash: int) -> None:
        """Add one."""
        if self.size == len(self.values):
            self.values = np.concatenate((self.values, np.zeros_like(self.values)))
        self.values[self.size] = simhash
        self.size += 1

    def nearest(self, simhash: int, distance: int) -> list[int]:
        """The nearest ones, all equally far, within the distance."""
        values = self.values[: self.size]
        apart = np.bitwise_count(values ^ np.uint64(simhash))
        least = int(apart.min(initial=distance + 1))
        return [] if least > distance else [int(value) for value in values[apart == least]]

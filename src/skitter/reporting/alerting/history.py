"""The numbers that rules look at, for as long as they look back."""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping

from skitter.reporting.exposition import Family, families
from skitter.reporting.observation import Observation

KEPT = 3600.0 + 60  # seconds: the longest time that a rule looks back, and a moment
_MOST = 2_000  # looks


class Numbers:
    """`conditions.History` of one process. Its counters only grow, so two looks suffice to know by how much."""

    def __init__(self, names: Collection[str]) -> None:
        self.now = 0.0
        self._names = frozenset(names)
        self._looks: deque[tuple[float, Mapping[str, Mapping[str, float]]]] = deque(maxlen=_MOST)

    def note(self, seen: Observation) -> None:
        """Another look. One that is not later than the last is left out: a clock was set back."""
        if self._looks and seen.at <= self._looks[-1][0]:
            self._looks.clear()
        self.now = seen.at
        self._looks.append((seen.at, numbers(families(seen), self._names)))
        while self._looks[0][0] < seen.at - KEPT:
            self._looks.popleft()

    def last(self, name: str) -> Mapping[str, float]:
        """The numbers of a metric, by label, as last seen."""
        return self._looks[-1][1].get(name, {})

    def grown(self, name: str, over: float) -> Mapping[str, float] | None:
        """By how much counters grew; None with a single look."""
        looks = self._within(over)
        if len(looks) < 2:
            return None
        first, last = looks[0][1].get(name, {}), looks[-1][1].get(name, {})
        return {label: max(0.0, value - first.get(label, 0.0)) for label, value in last.items()}

    def predicted(self, name: str, over: float, ahead: float) -> float | None:
        """The straight line with the least squares, as Prometheus has it."""
        points = [(at - self.now, by[name][""]) for at, by in self._within(over) if "" in by.get(name, {})]
        if len(points) < 2:
            return None
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
        return mean_y + slope * (ahead - mean_x)

    def _within(self, over: float) -> list[tuple[float, Mapping[str, Mapping[str, float]]]]:
        begin = bisect_right(self._looks, self.now - over - 1e-9, key=lambda look: look[0])
        return [self._looks[number] for number in range(begin, len(self._looks))]


def numbers(found: list[Family], names: Collection[str]) -> dict[str, dict[str, float]]:
    """By full name: the numbers of some metrics, by the value of their label; of a histogram, its sum and its count."""
    told: dict[str, dict[str, float]] = {}
    for family in found:
        for suffix, labels, value in family.points:
            name = family.name + suffix
            if name in names:
                told.setdefault(name, {})[labels[0][1] if labels else ""] = float(value)
    return told

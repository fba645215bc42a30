"""The kinds of numbers: counters, gauges and histograms, and what each of them means."""

from bisect import bisect_left
from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """The kinds of metrics, as Prometheus has them."""

    COUNTER = "counter"  # only grows
    GAUGE = "gauge"  # as it is now
    HISTOGRAM = "histogram"


class Metric(Struct, frozen=True):
    """What a number means."""

    kind: Kind
    help: str
    unit: str = ""  # seconds or bytes; else a plain number
    label: str = ""  # what it is counted by
    is_most: bool = False  # of several parts the largest counts, not the sum


def counter(text: str, unit: str = "", label: str = "") -> Metric:
    """What only grows."""
    return Metric(Kind.COUNTER, text, unit, label)


def gauge(text: str, unit: str = "", label: str = "") -> Metric:
    """What goes up and down."""
    return Metric(Kind.GAUGE, text, unit, label)


def most(text: str, unit: str = "") -> Metric:
    """A gauge of which the largest counts, not the sum."""
    return Metric(Kind.GAUGE, f"{text}; of several parts, the largest", unit, is_most=True)


def spread(text: str, unit: str = "") -> Metric:
    """A histogram."""
    return Metric(Kind.HISTOGRAM, text, unit)


class Histogram(Struct, array_like=True):
    """How often values fell between bounds. The last count is of those above all bounds."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def number(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def add(self, other: "Histogram") -> None:
        """Add those of another part, which has the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


def empty(*bounds: float) -> Histogram:
    """One that has counted nothing yet."""
    return Histogram(bounds, [0] * (len(bounds) + 1))


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BYTES = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6)
WAITS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
AGES = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)

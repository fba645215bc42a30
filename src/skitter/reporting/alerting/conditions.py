"""What a rule can ask of metrics.

A condition is a small tree of values. It has two readings that mean the same: `holds` looks at the numbers of the last
hours (`History`), and `promql` writes the expression that Prometheus evaluates.
"""

import math
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class History(Protocol):
    """The numbers of the last hours."""

    now: float

    def last(self, name: str) -> Mapping[str, float]:
        """The numbers of a metric, by label, as last seen."""
        ...

    def grown(self, name: str, over: float) -> Mapping[str, float] | None:
        """By how much counters grew over a time; None while it is not known."""
        ...

    def predicted(self, name: str, over: float, ahead: float) -> float | None:
        """What a gauge would be after a time, if it goes on as it did; None while it is not known."""
        ...


# ------------------------------------------------------------------------------------------------ values


class Value(Protocol):
    """A number that is computed from metrics."""

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        ...

    def promql(self) -> str:
        """The same for Prometheus."""
        ...


class Total(Struct, frozen=True):
    """The sum over a metric's labels, or over some of their values; of a counter, how much that grew."""

    name: str
    label: str = ""
    only: tuple[str, ...] = ()
    over: float = 0.0

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        by = seen.grown(self.name, self.over) if self.over else seen.last(self.name)
        if not by:
            return None
        return sum(number for value, number in by.items() if not self.only or value in self.only)

    def promql(self) -> str:
        """The same for Prometheus."""
        chosen = f'{{{self.label}=~"{"|".join(self.only)}"}}' if self.only else ""
        inner = f"{self.name}{chosen}"
        if self.over:
            inner = f"increase({inner}[{_span(self.over)}])"
        return f"sum without ({self.label}) ({inner})" if self.label else inner


class Most(Struct, frozen=True):
    """The largest of a metric's numbers."""

    name: str
    label: str
    least: bool = False  # the smallest

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        by = seen.last(self.name)
        return (min if self.least else max)(by.values()) if by else None

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"{'min' if self.least else 'max'} without ({self.label}) ({self.name})"


class Predicted(Struct, frozen=True):
    """What a gauge would be after a time, by a straight line through the last hour."""

    name: str
    over: float
    ahead: float

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        return seen.predicted(self.name, self.over, self.ahead)

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"predict_linear({self.name}[{_span(self.over)}], {_number(self.ahead)})"


class Size(Struct, frozen=True):
    """A number without its sign."""

    inner: Value

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        value = self.inner.of(seen)
        return None if value is None else abs(value)

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"abs({self.inner.promql()})"


class Age(Struct, frozen=True):
    """How long ago a time was."""

    name: str

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        at = Total(self.name).of(seen)
        return None if at is None else seen.now - at

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"time() - {self.name}"


class Sum(Struct, frozen=True):
    """Several values together."""

    parts: tuple[Value, ...]

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        found = [part.of(seen) for part in self.parts]
        known = [each for each in found if each is not None]
        return sum(known) if len(known) == len(found) else None

    def promql(self) -> str:
        """The same for Prometheus."""
        return "(" + " + ".join(part.promql() for part in self.parts) + ")"


class Share(Struct, frozen=True):
    """One value as a part of another."""

    part: Value
    whole: Value

    def of(self, seen: History) -> float | None:
        """The number; None while it is not known."""
        part, whole = self.part.of(seen), self.whole.of(seen)
        if part is None or whole is None:
            return None
        if not whole:
            return math.inf if part else math.nan
        return part / whole

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"{self.part.promql()} / {self.whole.promql()}"


# ------------------------------------------------------------------------------------------------ conditions


class Compared(Struct, frozen=True):
    """A value against a bound."""

    value: Value
    how: str  # >, <, >= or ==
    bound: float

    def holds(self, seen: History) -> bool:
        """Whether it holds now."""
        value = self.value.of(seen)
        if value is None or math.isnan(value):
            return False
        return {
            ">": value > self.bound,
            "<": value < self.bound,
            ">=": value >= self.bound,
            "==": value == self.bound,
        }[self.how]

    def promql(self) -> str:
        """The same for Prometheus."""
        return f"{self.value.promql()} {self.how} {_number(self.bound)}"


def _span(seconds: float) -> str:
    return f"{int(seconds // 60)}m" if seconds % 3600 else f"{int(seconds // 3600)}h"


def _number(value: float) -> str:
    return f"{value:.15g}"

"""Strategies that know more of a link than its depth: they give it a level, and explain themselves."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from skitter.model import Level
from skitter.schedule.features import Features
from skitter.schedule.importance import Importance
from skitter.schedule.ranks import Ranks
from skitter.settings import ScheduleSettings

_LEAST = 1e-9  # a value whose logarithm is taken


class Order(Protocol):
    """A strategy. Pure, but for the time of discovery, which it is given."""

    def place(self, url: str, host: str, depth: int, anchor: str) -> tuple[Level, float]:
        """The level and score of a link that was not known before, with the text of its anchor if that is read."""
        ...

    def terms(self, url: str, host: str, depth: int, score: float) -> Sequence[tuple[float, str]]:
        """What its score is made of: numbers that add up to it, each with what it stands for."""
        ...


class Decaying:
    """A strategy whose values halve with every half-life since the discovery of a link.

    Of two links, v·2^(-age/h) is larger where log2(v) + discovered/h is, at any time. So that is the score: it never
    changes, and no queue is ever sorted again.
    """

    def __init__(self, order: Order, half_life: float, now: Callable[[], float]) -> None:
        self._order, self._half_life, self._now = order, half_life, now

    def place(self, url: str, host: str, depth: int, anchor: str) -> tuple[Level, float]:
        """The level and score of a link discovered now."""
        level, value = self._order.place(url, host, depth, anchor)
        return level, math.log2(max(value, _LEAST)) + self._now() / self._half_life

    def terms(self, url: str, host: str, depth: int, score: float) -> Sequence[tuple[float, str]]:
        """What its score is made of."""
        parts = self._order.terms(url, host, depth, score)
        value = max(sum(part for part, _ in parts), _LEAST)
        spelt = " + ".join(f"{part:.3g} ({what})" for part, what in parts)
        logarithm = math.log2(value)
        return [
            (logarithm, f"log2 of {value:.4g} = {spelt}"),
            (score - logarithm, "when it was found, in half-lives (schedule.half_life)"),
        ]


def order_of(settings: ScheduleSettings, ranks: Ranks, now: Callable[[], float]) -> Order | None:
    """The strategy of the settings, if it is one of these."""
    found: Order
    if settings.strategy == "importance":
        found = Importance(settings, ranks)
    elif settings.strategy == "features":
        found = Features(settings)
    else:
        return None
    return found if settings.half_life is None else Decaying(found, float(settings.half_life), now)

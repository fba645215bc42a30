"""Importance: how well known a domain is, how near a page is to a seed, whether it looks like news, whether it is new.

Each part is between 0 and 1 and has a weight in the settings. The sum decides about the level, and the order within it.
"""

import re

from skitter.model import Level
from skitter.schedule.ranks import UNRANKED, Ranks
from skitter.settings import ScheduleSettings

_ABOVE = 0.8, 0.6, 0.4, 0.2  # critical, high, normal, low; the rest is background


def level_of(importance: float) -> Level:
    """The level of an importance."""
    for level, least in zip(Level, _ABOVE, strict=False):
        if importance > least:
            return level
    return Level.BACKGROUND


class Importance:
    """The strategy `importance`."""

    def __init__(self, settings: ScheduleSettings, ranks: Ranks) -> None:
        self._settings = settings
        self._ranks = ranks
        self._is_news = re.compile(settings.news_pattern).search

    def place(self, url: str, host: str, depth: int, _anchor: str) -> tuple[Level, float]:
        """The level and score of a link. Whoever is judged here was not crawled yet, or is not queued."""
        weights = self._settings
        value = (
            weights.importance_domain * self._ranks.value(host)
            + weights.importance_depth / (1 + depth)
            + weights.importance_new
        )
        if self._is_news(url, url.find("/", 8)):
            value += weights.importance_news
        value = round(value, 12)  # 0.4 + 0.2 is not above 0.6
        return level_of(value), value

    def terms(self, url: str, host: str, depth: int, _score: float) -> list[tuple[float, str]]:
        """What the score of a link is made of."""
        weights, rank = self._settings, self._ranks.value(host)
        listed = "" if rank != UNRANKED else ", which no rank file lists"
        found = [
            (weights.importance_domain * rank, f"its domain, {rank:.3g}{listed}"),
            (weights.importance_depth / (1 + depth), f"its depth, {depth}"),
            (weights.importance_new, "it was not crawled before"),
        ]
        if self._is_news(url, url.find("/", 8)):
            found.append((weights.importance_news, "its path looks like news (schedule.news_pattern)"))
        return found

"""The targets: ratios within one run, so that the machine cancels out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]  # a web's lines by the crawler's name


@dataclass(frozen=True)
class Target:
    """A ratio that should be at most, or at least, this."""

    web: str
    what: str
    over: str  # the two crawlers compared
    under: str
    figure: str
    limit: float
    shown: str
    at_least: bool = False

    def measured(self, rows: Rows) -> float | None:
        """The ratio, if both were measured."""
        if self.over not in rows or self.under not in rows:
            return None
        return float(rows[self.over][self.figure] / rows[self.under][self.figure])

    def met(self, ratio: float) -> bool:
        return ratio >= self.limit if self.at_least else ratio <= self.limit


TARGETS = (
    Target("site", "CPU per page, Skitter to Scrapy", "skitter", "scrapy", "cpu", 1 / 5, "≤ 1/5"),
    Target("site", "… without near-duplicates", "skitter-exact", "scrapy", "cpu", 1 / 6, "≤ 1/6"),
    Target("site", "… without near-duplicates, to wget", "skitter-exact", "wget", "cpu", 1.7, "≤ 1.7"),
    Target("broad", "CPU per page, Skitter to Scrapy", "skitter", "scrapy", "cpu", 1 / 5, "≤ 1/5"),
    Target("broad", "… to wget", "skitter", "wget", "cpu", 1.0, "< 1"),
    Target("fleet", "CPU per page, two workers to one", "skitter-2", "skitter", "cpu", 1.15, "≤ 1.15"),
    Target(
        "fleet",
        "pages/s, two workers to one",
        "skitter-2",
        "skitter",
        "pages_per_second",
        1.6,
        "≥ 1.6",
        at_least=True,
    ),
    *(
        Target(f"docs-{name}", "CPU per page, Skitter to Scrapy", "skitter", "scrapy", "cpu", 1 / 2, "≤ 1/2")
        for name in ("python", "postgresql", "java")
    ),
)


@dataclass(frozen=True)
class Reached:
    """A target and its result."""

    web: str
    what: str
    target: str
    measured: float
    met: bool


def compared(
    crawls: Mapping[str, Sequence[Mapping[str, Any]]], wide: Mapping[str, Any] | None = None
) -> list[Reached]:
    """Every target whose two sides were measured, and those of the polite crawl."""
    found = []
    for target in TARGETS:
        ratio = target.measured({row["name"]: row for row in crawls.get(target.web, ())})
        if ratio is not None:
            found.append(Reached(target.web, target.what, target.shown, ratio, target.met(ratio)))
    if wide is not None:
        rate, peak = wide["pages_per_second"], wide["peak_mb"]
        found.append(Reached("wide", "pages/s of one worker", "≥ 1,000", rate, rate >= 1000))
        found.append(Reached("wide", "peak MB of one worker", "≤ 300", peak, peak <= 300))
    return found

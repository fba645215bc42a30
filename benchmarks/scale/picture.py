"""The week as a chart: rate, hosts and queue of each run, hour by hour, in plain SVG.

Figures are those of the full-size crawl: the model's, times its reduction.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import Any

from benchmarks.picture import FAINT, OURS, STYLE, WIDTH

LEFT, GAP, TOP = 70, 78, 118
PANEL, HEIGHT, ROW = 338, 150, 208
DARK, WARM, RULE = "#1d2433", "#c2571a", "#e4e7ec"
DECADES = 7  # of the hosts' axis


@dataclass(frozen=True)
class Curve:
    """A line over the hours."""

    label: str
    values: Sequence[float]
    colour: str
    dashes: str = ""
    width: float = 2


@dataclass(frozen=True)
class Axis:
    """From a value to a height between 0 and 1, and the labelled values."""

    top: float
    ticks: Sequence[float]
    decades: int = 0  # of a logarithmic axis

    def height(self, value: float) -> float:
        if not self.decades:
            return value / self.top
        return max(0.0, 1 + math.log10(max(value, 1e-9) / self.top) / self.decades)


def draw(runs: Sequence[Mapping[str, Any]]) -> str:
    """The whole chart: a column per run."""
    height = TOP + 3 * ROW + 14
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {STYLE} role="img">',
        "<title>A simulated week of crawling: rate, hosts and queue length</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="32" font-size="18" font-weight="600">A machine for 1,000 requests/s, for a week</text>',
        f'<text x="20" y="53" fill="{FAINT}">{_legend(runs)}</text>',
    ]
    queues = _linear(max(max(_full(run)["queue"]) for run in runs) / 1e6)
    for column, run in enumerate(runs):
        lines += _column(run, LEFT + column * (PANEL + GAP), queues)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(runs: Sequence[Mapping[str, Any]]) -> str:
    shrink = runs[0]["plan"]["shrink"]
    return (
        f"The real frontier and politeness code in virtual time; a model at 1:{shrink}, shown at full size."
    )


def _full(run: Mapping[str, Any]) -> dict[str, list[float]]:
    """The hours at full size."""
    plan, hours = run["plan"], run["hours"]
    hosts = plan["shrink"] / plan["slow"]
    factors = {"rate": plan["shrink"], "predicted": plan["shrink"], "queue": plan["shrink"]}
    return {
        name: [value * factors.get(name, hosts) for value in hours[name]]
        for name in ("rate", "predicted", "queue", "ready", "working")
    }


def _column(run: Mapping[str, Any], left: int, queues: Axis) -> Iterator[str]:
    plan, full = run["plan"], _full(run)
    yield f'<text x="{left}" y="84" font-weight="600">{escape(plan["about"])}</text>'
    rate = Axis(1.1 * plan["capacity"], [0, 250, 500, 750, 1000])
    hosts = Axis(10.0**DECADES, [10.0**power for power in range(1, DECADES, 2)], DECADES)
    needed = [plan["capacity"] * run["cycle"]] * len(full["ready"])
    panels = (
        ("requests/s", rate, [
            Curve("crawled", full["rate"], OURS, width=4),
            Curve("predicted", full["predicted"], DARK, "2 3", 1.5),
        ]),
        ("hosts (log)", hosts, [
            Curve("with work", full["working"], WARM),
            Curve("ready now", full["ready"], OURS),
            Curve("needed", needed, FAINT, "5 4", 1.5),
        ]),
        ("URLs waiting, millions", queues, [Curve("", [value / 1e6 for value in full["queue"]], OURS)]),
    )  # fmt: skip
    for row, (title, axis, curves) in enumerate(panels):
        yield from _panel(title, axis, curves, left, TOP + row * ROW)


def _panel(title: str, axis: Axis, curves: Sequence[Curve], left: int, top: int) -> Iterator[str]:
    yield f'<text x="{left}" y="{top - 8}" font-size="12">{_key(title, curves)}</text>'
    bottom = top + HEIGHT
    for tick in axis.ticks:
        y = bottom - axis.height(tick) * HEIGHT
        yield f'<path d="M{left} {y:.1f}h{PANEL}" stroke="{RULE}"/>'
        yield (
            f'<text x="{left - 6}" y="{y + 4:.1f}" font-size="11" fill="{FAINT}" text-anchor="end">{tick:,.0f}</text>'
        )
    hours = len(curves[0].values)
    for day in range(hours // 24 + 1):
        x = left + PANEL * day * 24 / hours
        yield f'<path d="M{x:.1f} {bottom}v4" stroke="{FAINT}"/>'
        name = f"day {day}" if day else "start"
        yield f'<text x="{x:.1f}" y="{bottom + 17}" font-size="11" fill="{FAINT}" text-anchor="middle">{name}</text>'
    for curve in curves:
        points = " ".join(
            f"{left + PANEL * (hour + 1) / hours:.1f},{bottom - axis.height(value) * HEIGHT:.1f}"
            for hour, value in enumerate(curve.values)
        )
        dashes = f' stroke-dasharray="{curve.dashes}"' if curve.dashes else ""
        yield f'<polyline points="{points}" fill="none" stroke="{curve.colour}" stroke-width="{curve.width}"{dashes}/>'


def _key(title: str, curves: Sequence[Curve]) -> str:
    named = (
        f'<tspan dx="12" fill="{curve.colour}">{"╌╌" if curve.dashes else "━━"} {escape(curve.label)}</tspan>'
        for curve in curves
        if curve.label
    )
    return "".join(chain([f'<tspan font-weight="600">{escape(title)}</tspan>'], named))


def _linear(largest: float) -> Axis:
    """An axis with about four round ticks."""
    step = 10.0 ** math.floor(math.log10(max(largest, 1e-9) / 3))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if largest / (step * factor) <= 4.5)
    return Axis(largest * 1.05, [step * number for number in range(int(largest / step) + 1)])

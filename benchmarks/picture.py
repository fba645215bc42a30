"""The crawls as a chart: bars of CPU per page with their spread, one panel per web, in plain SVG."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.webs import WEBS

WIDTH = 860
LABELS = 210  # where bars begin
BARS = 470  # the longest
LINE = 30
TOP = 74
GAP = 62  # between panels
STYLE = 'font-family="system-ui, sans-serif" font-size="14" fill="#1d2433"'
FAINT = "#5b6577"
LEGEND = "All processes, user + system, start-up included. Bar: median; line: least to most; light: does less work."
OURS, THEIRS, MEASURE = "#0b7a75", "#8a94a6", "#c9ced8"
NO_PEER = ("wget", "floor")  # they do less work, and serve as reference points


def draw(crawls: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The whole chart. All panels share one scale."""
    longest = max(row["cpu_most"] for rows in crawls.values() for row in rows)
    height = TOP + sum(LINE * len(rows) + GAP for rows in crawls.values())
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {STYLE} role="img">',
        "<title>CPU seconds per 1,000 pages, by crawler</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="32" font-size="18" font-weight="600">CPU seconds per 1,000 pages: less is better</text>',
        f'<text x="20" y="53" fill="{FAINT}">{LEGEND}</text>',
    ]
    at = TOP
    for web, rows in crawls.items():
        lines += _panel(web, rows, at, BARS / longest)
        at += LINE * len(rows) + GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(web: str, rows: Sequence[Mapping[str, Any]], top: int, scale: float) -> Iterator[str]:
    yield f'<text x="20" y="{top + 20}" font-weight="600">{web}: {escape(WEBS[web].about)}</text>'
    for number, row in enumerate(rows):
        middle = top + 34 + number * LINE + LINE // 2
        length = row["cpu"] * scale
        yield f'<text x="{LABELS - 8}" y="{middle + 5}" text-anchor="end">{escape(row["label"])}</text>'
        yield f'<rect x="{LABELS}" y="{middle - 10}" width="{length:.1f}" height="20" fill="{_colour(row["name"])}"/>'
        least, most = (LABELS + row[end] * scale for end in ("cpu_least", "cpu_most"))
        yield f'<path d="M{least:.1f} {middle}H{most:.1f}" stroke="#1d2433" stroke-width="2"/>'
        after = max(LABELS + length, most) + 8
        yield (
            f'<text x="{after:.1f}" y="{middle + 5}">{row["cpu"]:.2f}'
            f'<tspan fill="{FAINT}" dx="10">{row["pages_per_second"]:,.0f} pages/s</tspan></text>'
        )


def _colour(name: str) -> str:
    if name.startswith("skitter"):
        return OURS
    return MEASURE if name in NO_PEER else THEIRS

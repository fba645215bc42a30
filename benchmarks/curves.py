"""The order of visits as a chart: what share of PageRank the pages of a crawl hold, as it goes on, in plain SVG."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 860, 440
LEFT, TOP, SIDE, GAP = 60, 84, 300, 120  # of a panel, which is a square
STYLE = 'font-family="system-ui, sans-serif" font-size="14" fill="#1d2433"'
FAINT, GRID = "#5b6577", "#e3e6ec"
COLOURS = {
    "opic": "#0b7a75",
    "importance": "#b5541c",
    "larger-sites": "#5b4bb7",
    "features": "#a02c6d",
    "bfs": "#1d2433",
}


def draw(results: Mapping[str, Any]) -> str:
    """The whole chart: strategies on the first web, and the bound beside the truth."""
    web = results["many"][0]
    bound = web["crawls"]["opic"]["bound"]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    right = LEFT + SIDE + GAP
    orders = [
        (name, web["crawls"][name]["curve"], COLOURS[name]) for name in COLOURS if name in web["crawls"]
    ]
    truth = [("truth", bound["truth"], COLOURS["bfs"]), ("lower bound", bound["curve"], COLOURS["opic"])]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {STYLE} role="img">',
            "<title>Share of PageRank held by the first pages of a crawl, by strategy</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            '<text x="20" y="32" font-size="18" font-weight="600">Share of PageRank held by the pages fetched so far</text>',
            *_panel(LEFT, "By strategy", "pages fetched", orders),
            *_panel(
                right,
                "What status says, by opic (from the seeds)",
                "the crawl goes on",
                truth,
            ),
            "</svg>\n",
        ]
    )


def _panel(
    left: int, title: str, along: str, lines: Sequence[tuple[str, Sequence[float], str]]
) -> Iterator[str]:
    yield f'<text x="{left}" y="{TOP - 18}" font-weight="600">{escape(title)}</text>'
    for tenth in range(0, 11, 2):
        y, x = TOP + SIDE - SIDE * tenth / 10, left + SIDE * tenth / 10
        yield f'<path d="M{left} {y:.1f}H{left + SIDE}" stroke="{GRID}"/>'
        yield f'<text x="{left - 8}" y="{y + 5:.1f}" text-anchor="end" fill="{FAINT}">{tenth * 10} %</text>'
        yield f'<text x="{x:.1f}" y="{TOP + SIDE + 20}" text-anchor="middle" fill="{FAINT}">{tenth * 10} %</text>'
    yield f'<text x="{left + SIDE / 2}" y="{TOP + SIDE + 42}" text-anchor="middle" fill="{FAINT}">{along}</text>'
    yield f'<path d="M{left + SIDE / 10} {TOP}V{TOP + SIDE}" stroke="{FAINT}" stroke-dasharray="3 4"/>'
    for number, (name, values, colour) in enumerate(lines):
        points = " ".join(
            f"{left + SIDE * at / (len(values) - 1):.1f},{TOP + SIDE - SIDE * value:.1f}"
            for at, value in enumerate(values)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        y = TOP + SIDE - 16 - 18 * (len(lines) - 1 - number)
        yield f'<path d="M{left + SIDE - 118} {y - 5}h20" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{left + SIDE - 92}" y="{y}" font-size="13">{escape(name)}</text>'

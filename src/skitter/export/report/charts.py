"""Charts as HTML with small SVG drawings: the text stays text, so that it can be read on a phone and copied."""

import html
from collections.abc import Callable, Sequence

from skitter.reporting.format import printable

Point = tuple[str, float, str]  # a label, a value, and where the label leads to
_MOST = 200  # columns; more are added up in equal parts


def bars(points: Sequence[Point], say: Callable[[float], str]) -> str:
    """Horizontal bars, one below the other."""
    most = max((value for _, value, _ in points), default=0) or 1
    lines = []
    for label, value, link in points:
        name = f'<a href="{html.escape(link)}">{_text(label)}</a>' if link else _text(label)
        length = max(0.4, 100 * value / most) if value else 0
        lines.append(
            f"<li><span>{name}</span><b>{_text(say(value))}</b>"
            f'<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width="{length:.2f}" height="4"/></svg></li>'
        )
    return f'<ul class="bars">{"".join(lines)}</ul>'


def columns(points: Sequence[Point], say: Callable[[float], str]) -> str:
    """Vertical columns in the order given, as for times: the first and the last are labelled, the others on touch."""
    points = _fewer(points)
    most = max((value for _, value, _ in points), default=0) or 1
    width = 100 / max(1, len(points))
    drawn = []
    for place, (label, value, _) in enumerate(points):
        height = 40 * value / most
        drawn.append(
            f'<rect x="{place * width:.3f}" y="{40 - height:.3f}" width="{width * 0.86:.3f}" height="{height:.3f}">'
            f"<title>{_text(label)}: {_text(say(value))}</title></rect>"
        )
    ends = f"<span>{_text(points[0][0])}</span><span>most: {_text(say(most))}</span><span>{_text(points[-1][0])}</span>"
    svg = f'<svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img">{"".join(drawn)}</svg>'
    return f'<div class="columns">{svg}<p>{ends}</p></div>'


def _fewer(points: Sequence[Point]) -> Sequence[Point]:
    """Neighbours added up, so that at most _MOST are left."""
    step = -(-len(points) // _MOST)
    if step <= 1:
        return points
    parts = [points[place : place + step] for place in range(0, len(points), step)]
    return [(part[0][0], sum(value for _, value, _ in part), "") for part in parts]


def _text(text: str) -> str:
    return html.escape(printable(text))

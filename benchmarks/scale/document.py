"""docs/scale.md: the tables between its markers, from docs/scale.json and docs/performance.json.

The words around them are written by hand. Every figure in a table is an input with its source, or a formula of inputs.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks import show

Kept = Mapping[str, Any]  # docs/scale.json


def as_json(kept: Kept) -> str:
    """Short numbers, and every list of them on one line."""
    text = json.dumps(json.loads(json.dumps(kept), parse_float=lambda digits: float(f"{float(digits):.6g}")), indent=1)
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r"\s*\n\s*", " ", found[1]) + "]", text) + "\n"


def week(run: Mapping[str, Any], every: int) -> show.Table:
    """The week at full size, a line per so many hours."""
    heads = ("hour", "requests/s", "predicted", "hosts ready", "with work", "known", "URLs waiting", "RSS MB", "frontier µs", "all µs")
    plan, hours = run["plan"], run["hours"]
    many = plan["shrink"] / plan["slow"]
    picked = [n for n, hour in enumerate(hours["hour"]) if hour % every == 0 or hour in (1, len(hours["hour"]))]
    lines = [
        (
            str(hours["hour"][n]),
            f"{hours['rate'][n] * plan['shrink']:,.0f}",
            f"{hours['predicted'][n] * plan['shrink']:,.0f}",
            f"{hours['ready'][n] * many:,.0f}",
            f"{hours['working'][n] * many:,.0f}",
            f"{hours['known'][n] * many:,.0f}",
            f"{hours['queue'][n] * plan['shrink']:,.0f}",
            f"{hours['resident_mb'][n]:.0f}",
            f"{hours['frontier_us'][n]:.0f}",
            f"{hours['visit_us'][n]:.0f}",
        )
        for n in picked
    ]
    return heads, lines


def checked(run: Mapping[str, Any]) -> str:
    """What was counted and checked in a run."""
    return (
        f"{run['requests']:,} requests in {run['cpu']:.0f} s of CPU, {run['pages']:,} pages stored, {run['urls']:,} URLs; "
        f"{run['too_soon']} requests too soon, {run['forbidden']} forbidden, {run['disagreements']} hours in which frontier and "
        f"books counted differently. Against the prediction: {run['overall']:+.2%} over all, {run['worst']:.1%} of the capacity in the worst hour."
    )

"""The report of a crawl as one HTML page: its numbers, and what the checks found, with charts.

The page is one file without scripts, and needs no network. Everything in it that strangers wrote is escaped, and a policy in
the page itself forbids whatever might slip through.
"""

import html
import shlex
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import groupby
from typing import Any

from msgspec import Struct

from skitter.export.checks import Check
from skitter.export.checks.running import Finding
from skitter.export.report.charts import bars, columns
from skitter.model import Counts
from skitter.reporting.format import amount, count, counted, duration, moment, printable
from skitter.reporting.report import error_answers

SHOWN = 10  # rows of a check; the page says how to see all
_CUT = 300  # characters of a cell
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SIZES = frozenset({"bytes", "size"})


class Summary(Struct, frozen=True):
    """What the head of the page says."""

    name: str  # of the crawl
    state: str  # in words
    made_at: float
    counts: Counts


def page(summary: Summary, found: Sequence[Finding]) -> str:
    """The whole page."""
    style = (resources.files(__package__) / "style.css").read_text("utf-8")
    made_at = moment(summary.made_at)[:16].replace("T", " ")
    title = f"Report of {shown(summary.name)}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer"><meta name="robots" content="noindex">',
        f"<title>{title}</title><style>{style}</style></head><body><main>",
        f"<header><h1>{title}</h1><p>{shown(summary.state)} · made {made_at} UTC</p></header>",
        _tiles(summary.counts),
        *_contents(found),
        *_groups(found, summary.name),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _tiles(counts: Counts) -> str:
    numbers = (
        ("Pages", count(counts.pages)),
        ("URLs found", count(counts.added + sum(counts.refused.values()))),
        ("Waiting", count(counts.queued + counts.leased)),
        ("Requests", count(counts.requests)),
        ("Error answers", count(error_answers(counts))),
        ("Given up", count(counts.failed)),
        ("Hosts", count(counts.hosts)),
        ("Received", amount(counts.bytes)),
        ("Time", duration(counts.elapsed)),
    )
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
    return f'<dl class="tiles">{tiles}</dl>'


def _contents(found: Sequence[Finding]) -> Iterator[str]:
    """What is worth a look, the most frequent first, as bars; it links to the sections."""
    problems = sorted((each for each in found if _is_open(each)), key=lambda each: -each.total)
    if not problems:
        yield "<section><h2>What to look at</h2><p>No check has found anything.</p></section>"
        return
    fine = sum(each.check.kind == "problem" and not each.total for each in found)
    rows = [(each.check.title, each.total, f"#{each.check.name}") for each in problems]
    yield '<section id="contents"><h2>What to look at</h2>'
    yield f"<p>{counted(len(problems), 'check')} found something, {count(fine)} found nothing.</p>"
    yield bars(rows, lambda number: count(int(number)))
    yield "</section>"


def _is_open(finding: Finding) -> bool:
    return finding.check.kind == "problem" and finding.total > 0


def _groups(found: Sequence[Finding], name: str) -> Iterator[str]:
    for group, members in groupby(found, key=lambda each: each.check.group):
        some = list(members)
        yield f"<section><h2>{shown(group)}</h2>"
        for finding in some:
            if finding.total:
                yield from _section(finding, name)
        fine = [each.check for each in some if not each.total]
        if fine:
            yield f'<p class="fine">Nothing found: {"; ".join(_quiet(check) for check in fine)}.</p>'
        yield "</section>"


def _quiet(check: Check) -> str:
    return f'<span title="{shown(check.about)}">{shown(check.title.lower())}</span>'


def _section(finding: Finding, name: str) -> Iterator[str]:
    check = finding.check
    badge = f' <span class="badge">{count(finding.total)}</span>' if check.kind == "problem" else ""
    yield f'<article id="{shown(check.name)}"><h3>{shown(check.title)}{badge}</h3>'
    yield f"<p>{shown(check.about)}</p>"
    charted = bool(check.chart) and len(finding.rows) > 1
    if charted:
        yield _chart(finding)
    tabled = not charted or len(finding.columns) > 2
    if tabled:
        yield _table(finding)
    seen = SHOWN if tabled or len(check.chart) == 2 else len(finding.rows)  # columns of a chart show more
    hidden = finding.total - min(seen, len(finding.rows))
    if hidden > 0:
        command = f"skitter sql {shlex.quote(printable(name))} {check.name}"
        yield f'<p class="more">{counted(hidden, "more row")}: <code>{shown(command)}</code></p>'
    if check.kind == "problem":
        yield f'<p class="advice">{shown(check.advice)}</p>'
    yield "</article>"


def _chart(finding: Finding) -> str:
    label, value, *form = finding.check.chart
    names, places = list(finding.columns), finding.rows
    label_at, value_at = names.index(label), names.index(value)
    rows = [(cell(label, found[label_at]), float(found[value_at] or 0), "") for found in places]
    say = amount if value in _SIZES else lambda number: cell(value, number)
    return columns(rows, say) if form else bars(rows[:SHOWN], say)


def _table(finding: Finding) -> str:
    heads = "".join(f"<th>{shown(name.replace('_', ' '))}</th>" for name in finding.columns)
    rows = "".join(
        "<tr>" + "".join(map(_cell, finding.columns, found)) + "</tr>" for found in finding.rows[:SHOWN]
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(name: str, value: Any) -> str:  # noqa: ANN401  whatever SQL gives
    text = cell(name, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{shown(text)}</td>'
    if isinstance(value, str) and value.startswith(("https://", "http://")) and " " not in value:
        return f'<td><a rel="noreferrer nofollow noopener" href="{html.escape(value)}">{shown(_cut(value))}</a></td>'
    return f"<td>{shown(_cut(text))}</td>"


def cell(name: str, value: Any) -> str:  # noqa: ANN401  the same
    """A value in words: numbers with separators, octets with units."""
    if value is None:
        return ""
    if name in _SIZES and isinstance(value, int | float):
        return amount(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        whole = int(value)
        return str(whole) if name in {"status", "fetch_status"} else count(whole)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[:_CUT]}…"


def shown(text: str) -> str:
    """Text for HTML: nothing invisible, nothing that is markup."""
    return html.escape(printable(text))

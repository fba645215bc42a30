"""The first page: all crawls, rendered here, and kept live by a script of our own.

Names, URLs and reasons come from strangers. They are only ever text in the page, and the page may load and run nothing
but its own two files.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from skitter.reporting.format import count, duration, printable
from skitter.serve.shapes import Crawl, Crawls

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HERE = Path(__file__).parent
FILES = {
    "/front.css": ((_HERE / "front.css").read_bytes(), "text/css"),
    "/front.js": ((_HERE / "front.js").read_bytes(), "text/javascript"),
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/front.css">
<link rel="icon" href="data:,">
{script}</head>
<body>
{body}
</body>
</html>
"""
_MOST_CAUSES = 4


def page(crawls: Crawls) -> str:
    """The first page."""
    running = sum(one.state in ("running", "paused") for one in crawls.items)
    title = f"{running} running – Skitter" if running else "Skitter"
    body = f"""<header><h1>Skitter</h1><p id="live" role="status">as of now</p></header>
<main id="crawls">
{listed(crawls)}
</main>
<footer><p>API: <a href="/api/v1/openapi.json">OpenAPI</a></p></footer>"""
    return _PAGE.format(title=escape(title), script='<script src="/front.js" defer></script>\n', body=body)


def stranger() -> str:
    """For a browser that is not known."""
    body = """<header><h1>Skitter</h1></header>
<main><p>This browser is not known here. Open the link that <code>skitter serve</code> printed; it works once, for ten minutes.
For another one, start the server again. Programs send a token: <code>skitter token create NAME</code>.</p></main>"""
    return _PAGE.format(title="Skitter", script="", body=body)


def listed(crawls: Crawls) -> str:
    """All crawls, those that run first."""
    if not crawls.items:
        return '<p class="empty">There is no crawl here yet. Start one: <code>skitter crawl https://example.org</code></p>'
    order = {
        "running": 0,
        "paused": 1,
        "cluster": 2,
        "limit": 3,
        "stopped": 4,
        "unreadable": 5,
        "finished": 6,
    }
    return "\n".join(_crawl(one) for one in sorted(crawls.items, key=lambda each: order[each.state]))


def _crawl(crawl: Crawl) -> str:
    numbers = crawl.counts
    facts = [("pages", count(numbers.get("pages", 0))), ("waiting", count(numbers.get("queued", 0)))]
    if crawl.live is not None:
        facts += [
            ("pages/s", f"{crawl.live.pages_per_second:.1f}"),
            ("in flight", count(crawl.live.in_flight)),
            ("running for", duration(crawl.live.elapsed)),
        ]
    elif crawl.rates is not None:
        facts.append(("pages/s on average", f"{crawl.rates.pages_per_second:.1f}"))
    shown = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    advice = f'<p class="advice">{_text(crawl.advice)}</p>' if crawl.advice else ""
    return f"""<article class="crawl {crawl.state}" aria-labelledby="of-{_text(crawl.id)}">
<h2 id="of-{_text(crawl.id)}">{_text(crawl.id)}</h2>
<p class="state"><span class="badge">{crawl.state}</span> {_text(crawl.reason)}</p>
{advice}
<dl class="facts">{shown}</dl>
{_troubles(numbers)}{_pauses(crawl)}
</article>"""


def _troubles(numbers: dict[str, object]) -> str:
    """Failures by cause, the most frequent ones."""
    causes: dict[str, int] = dict(numbers.get("failures", {}))  # type: ignore[call-overload]
    causes |= {
        f"status {status}": number
        for status, number in dict(numbers.get("statuses", {})).items()  # type: ignore[call-overload]
        if int(status) >= 400
    }
    most = sorted(causes.items(), key=lambda each: -each[1])
    rows = [f"<li>{_text(code)}: {count(number)}</li>" for code, number in most[:_MOST_CAUSES]]
    if len(most) > _MOST_CAUSES:
        rows.append(f"<li>and {len(most) - _MOST_CAUSES} other causes</li>")
    return _section("Errors by cause", rows)


def _pauses(crawl: Crawl) -> str:
    pauses = () if crawl.live is None else crawl.live.pauses
    rows = [
        f"<li>{_text(each.host or 'the whole crawl')} for {duration(each.seconds)}: {_text(each.why)}</li>"
        for each in pauses
    ]
    return _section("Hosts that pause", rows)


def _section(title: str, rows: Iterable[str]) -> str:
    inside = "".join(rows)
    return f"<section><h3>{title}</h3><ul>{inside}</ul></section>" if inside else ""


def _text(text: str) -> str:
    return escape(printable(text))

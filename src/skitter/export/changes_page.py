"""The changes between two crawls as one HTML page, which needs no network and no script.

Everything from the web is escaped, links lead only to http and https, and the page's own policy forbids everything but
its style: nothing in it runs or loads.
"""

from collections.abc import Mapping
from html import escape

from skitter.export.changes import CHANGED, KINDS, MOVED, Change
from skitter.reporting.format import printable

_STYLE = """
:root { color-scheme: light dark; --soft: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere }
table { border-collapse: collapse } td, th { padding: .2rem 1rem .2rem 0; text-align: left }
article { border-top: 1px solid var(--soft); padding: .6rem 0 } h2 { font-size: 1rem; margin: 0 }
p { margin: .3rem 0 } .kind { display: inline-block; min-width: 5.5rem; font-weight: bold }
.hunk { border-left: 3px solid var(--soft); padding-left: .8rem } .soft { opacity: .7 }
ins { background: #2a93; text-decoration: none } del { background: #d333 }
"""
_MARKS = {"-": "del", "+": "ins"}


def head(old: str, new: str, counts: Mapping[str, int]) -> str:
    """The beginning of the page, with the numbers."""
    rows = "".join(f"<tr><th>{kind}<td>{counts.get(kind, 0):,}" for kind in KINDS)
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<meta name=referrer content=no-referrer>"
        f"<title>What changed</title><style>{_STYLE}</style><h1>What changed</h1>"
        f"<p>from {_text(old)} to {_text(new)}</p><table>{rows}</table>\n"
    )


def article(change: Change) -> str:
    """One page that changed."""
    parts = [f"<article><h2><span class=kind>{change.kind}</span>{_link(change.url)}</h2>"]
    if change.title:
        parts.append(f"<p class=soft>{_text(change.title)}</p>")
    if change.kind == MOVED or (change.kind == CHANGED and change.old_url):
        parts.append(f"<p>from {_link(change.old_url)}</p>")
    if change.note:
        parts.append(f"<p class=soft>{_text(change.note)}</p>")
    for hunk in change.hunks:
        words = " ".join(_marked(piece.sign, piece.text) for piece in hunk)
        parts.append(f"<p class=hunk>{words}</p>")
    return "".join([*parts, "</article>\n"])


def _marked(sign: str, text: str) -> str:
    name = _MARKS.get(sign)
    return f"<{name}>{_text(text)}</{name}>" if name else _text(text)


def _link(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return _text(url)
    return f'<a href="{escape(printable(url))}" rel="noreferrer">{_text(url)}</a>'


def _text(text: str) -> str:
    return escape(printable(text))

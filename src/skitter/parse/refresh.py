"""<meta http-equiv=refresh> and the Refresh header, which share one grammar.

HTML Standard, 4.2.5.3 (Refresh state), the "shared declarative refresh steps".
"""

import re

from skitter.parse.markup import SPACE

_TIME = re.compile(r"[\t\n\f\r ]*+([0-9]*+)(\.?)[0-9.]*+")
_URL = re.compile(r"[uU][rR][lL][\t\n\f\r ]*+=[\t\n\f\r ]*+")


def refresh(content: str) -> tuple[int, str | None] | None:
    """Seconds and target; the target is None for the page itself. None if it is not a refresh."""
    time = _TIME.match(content)
    if time is None or not (time[1] or time[2]):
        return None
    seconds = int(time[1][:9] or 0)  # thirty years is long enough, and Python limits the digits of an int
    rest = content[time.end() :]
    if rest and rest[0] not in ";," + SPACE:
        return None
    rest = rest.lstrip(SPACE)
    if rest[:1] in (";", ","):
        rest = rest[1:].lstrip(SPACE)
    return seconds, _target(rest) if rest else None


def _target(rest: str) -> str:
    prefix = _URL.match(rest)
    if prefix is None and rest[0] in "uU":
        return rest  # "u", "ur" and "url" without an equals sign are the beginning of the target
    rest = rest[prefix.end() :] if prefix else rest
    quote = rest[:1]
    return rest[1:].partition(quote)[0] if quote in ("'", '"') else rest

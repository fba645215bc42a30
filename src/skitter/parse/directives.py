"""Robots directives of a page, from header fields and meta elements.

X-Robots-Tag and <meta name=robots> as Google documents them: rules add up, and the stricter wins. A rule for
a named robot only counts for that robot; ours is `AGENT`. Preferences about AI are not interpreted: they are
recorded as sent and stay with the page.
"""

import re
from collections.abc import Iterable

from skitter.model import Directives
from skitter.parse import markup

AGENT = "skitter"  # the product token, as in robots.txt

# Rules with a value, so that the text before their colon is not a robot's name.
_VALUED = markup.names("max-image-preview max-snippet max-video-preview unavailable_after")
_NAMED = re.compile(r"\s*([\w\-.*]+)\s*:\s*(.*)", re.DOTALL)
_NO_INDEX = frozenset(("noindex", "none"))
_NO_FOLLOW = frozenset(("nofollow", "none"))
_NO_AI = ("noai", "noimageai")

# draft-ietf-aipref-vocab; other labels must be ignored.
_USAGES = frozenset(("bots", "train-ai", "train-genai", "ai-use", "search"))
# RFC 9651 4.2.2: a dictionary member, its value (a token here, or something we do not use), its parameters.
_MEMBER = re.compile(
    r'([a-z*][a-z0-9_\-.*]*+)(?:=("(?:[^"\\]++|\\.)*+"|[^;,"\s]*+))?+((?:\s*;[^,"]*+(?:"[^"]*+"[^,"]*+)*+)*+)'
)
_COMMA = re.compile(r"[\t ]*+,[\t ]*+")


def rules(lines: Iterable[str], agent: str = AGENT) -> list[str]:
    """The rules in X-Robots-Tag lines for everybody or for this agent, in lower case."""
    found = []
    for line in lines:
        ours = True
        for part in line.split(","):
            rule = part.strip().lower()
            named = _NAMED.fullmatch(rule)
            if named and named[1] not in _VALUED:
                ours = named[1] in (agent, "*")
                rule = named[2]
            if rule and ours:
                found.append(rule)
    return found


def meta_rules(content: str) -> list[str]:
    """The rules in a robots meta element. Authors separate them by commas, blanks, or both."""
    return content.lower().replace(",", " ").split()


def usage(field: str) -> dict[str, str]:
    """Content-Usage: a dictionary of y and n (draft-ietf-aipref-attach). A malformed one is ignored entirely."""
    found: dict[str, str] = {}
    position, field = 0, field.strip()
    while position < len(field):
        member = _MEMBER.match(field, position)
        if member is None:
            return {}
        found[member[1]] = member[2] or ""
        comma = _COMMA.match(field, member.end())
        if comma is None and member.end() < len(field):
            return {}
        position = comma.end() if comma else len(field)
    return {label: value for label, value in found.items() if label in _USAGES and value in ("y", "n")}


def signals(field: str) -> dict[str, str]:
    """Content-Signal as a header field: the same words as in robots.txt, comma-separated (contentsignals.org)."""
    pairs = (part.partition("=") for part in field.split(","))
    return {
        name.strip().lower(): value.strip().lower()
        for name, _, value in pairs
        if name.strip() and value.strip()
    }


def reservation(name: str, value: str) -> dict[str, str]:
    """TDM Reservation Protocol, a header field or meta element: only 0 and 1 have a meaning."""
    value = value.strip()
    known = value in ("0", "1") if name == "tdm-reservation" else value and name == "tdm-policy"
    return {name: value} if known else {}


def directives(found: Iterable[str], preferences: dict[str, str]) -> Directives:
    """All of it as one value."""
    asked = frozenset(found)
    ai = {rule: "y" for rule in _NO_AI if rule in asked} | preferences
    return Directives(index=not asked & _NO_INDEX, follow=not asked & _NO_FOLLOW, ai=ai or None)


def of_page(
    headers: dict[str, list[str]], meta: Iterable[str] = (), preferred: dict[str, str] | None = None
) -> Directives:
    """What a page asks for in its header fields, combined with the rules and preferences of its meta elements."""
    found, preferences = of_headers(headers)
    return directives([*found, *meta], preferences | (preferred or {}))


def of_headers(headers: dict[str, list[str]]) -> tuple[list[str], dict[str, str]]:
    """Rules and preferences in the header fields."""
    preferences: dict[str, str] = {}
    for line in headers.get("content-signal", ()):
        preferences |= signals(line)
    if lines := headers.get("content-usage"):
        preferences |= usage(", ".join(lines))
    for name in ("tdm-reservation", "tdm-policy"):
        for line in headers.get(name, ()):
            preferences |= reservation(name, line)
    return rules(headers.get("x-robots-tag", ())), preferences

"""A second reader of robots.txt, by RFC 9309: whoever is audited shall not be judged by their own reading.

It is short and slow, and shares no line with `skitter.robots`. Both pass the same conformance cases.
"""

import re
from urllib.parse import urlsplit

from msgspec import Struct

_LIMIT = 500 * 1024  # RFC 9309 2.5
_LONGEST_LINE = 16_663  # octets; what Google's reader keeps of a line
_SPACE = " \t\n\v\f\r"
_LINE = re.compile(rb"\r\n|\n|\r")
_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
# Directives by the beginnings of their names, as Google reads them, with the misspellings it accepts.
_KINDS = (
    ("agent", ("user-agent", "useragent", "user agent")),
    ("allow", ("allow",)),
    ("disallow", ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")),
    ("delay", ("crawl-delay", "crawldelay", "crawl delay")),
    ("rate", ("request-rate", "requestrate", "request rate")),
    ("time", ("visit-time", "visittime", "visit time")),
)
_RATE = re.compile(r"(\d{1,9})\s*/\s*(\d{1,9})\s*([smhd]?)", re.IGNORECASE)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Rules(Struct, frozen=True):
    """What a robots.txt says to one crawler."""

    lines: tuple[tuple[bool, str], ...] = ()  # (allowed, pattern)
    delay: float = 0.0  # Crawl-delay or Request-rate, in seconds
    hours: tuple[tuple[int, int], ...] = ()  # Visit-time: minutes of the day, UTC

    def refusal(self, url: str) -> str:
        """The line that forbids a URL; empty if it is allowed."""
        path = path_of(url)
        if path == "/robots.txt":
            return ""
        best, line = (-1, True), ""
        for allowed, pattern in self.lines:
            if _matches(pattern, path) and (len(pattern), allowed) > best:
                best, line = (len(pattern), allowed), pattern
        return "" if best[1] else f"Disallow: {line}"


ALL = Rules()


def read(body: bytes, token: str, *, cut: bool = False) -> Rules:
    """The rules for a product token: its own groups, else those of everybody. `cut`: the body is not whole."""
    rules, limits = _groups(body, cut=cut)
    token = product(token)
    who = token if token and any(token in names for names, _ in rules) else "*"
    return _rules([line for names, lines in (*rules, *limits) if who in names for line in lines])


def product(agent: str) -> str:
    """The product token of a user agent, lower case: "Scrapy/2.19 (+https://…)" gives "scrapy"."""
    found = _TOKEN.match(agent.lstrip(_SPACE))
    return found[0].lower() if found else ""


def path_of(url: str) -> str:
    """The part of a URL that rules are compared with."""
    try:
        parts = urlsplit(url.partition("#")[0])
    except ValueError:
        return "/"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query or "?" in url else "")
    return _normal(path.replace("*", "%2A").replace("$", "%24"))


# ------------------------------------------------------------------------------------------------ lines


_Groups = list[tuple[set[str], list[tuple[str, str]]]]


def _groups(body: bytes, *, cut: bool) -> tuple[_Groups, _Groups]:
    """Rules, and delays and hours, by whom they are for.

    Delays do not end a list of names for the rules that follow (RFC 9309 2.2.4), but a delay between two names
    was meant for the first.
    """
    rules: _Groups = []
    limits: _Groups = []
    more_rules = more_limits = False  # whether the next name belongs to the group before
    for kind, value in _directives(body, cut=cut):
        if kind == "agent":
            for groups, more in ((rules, more_rules), (limits, more_limits)):
                if not more:
                    groups.append((set(), []))
                groups[-1][0].add(_name(value))
            more_rules = more_limits = True
        elif kind in {"allow", "disallow"}:
            more_rules = more_limits = False
            if rules:
                rules[-1][1].append((kind, value))
        else:
            more_limits = False
            if limits:
                limits[-1][1].append((kind, value))
    return rules, limits


def _name(value: str) -> str:
    """A user-agent line names everybody, or the product that its value begins with."""
    if value[:1] == "*" and (len(value) == 1 or value[1] in _SPACE):
        return "*"
    return product(value)


def _directives(body: bytes, *, cut: bool) -> list[tuple[str, str]]:
    if body[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        body = body[:_LIMIT].decode("utf-16", "replace").encode() if b"\0" in body else body[2:]
    if len(body) >= _LIMIT or cut:
        body = body[:_LIMIT]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        if body.startswith(mark):
            body = body[len(mark) :]
            break
    found = []
    for raw in _LINE.split(body):
        line = raw[:_LONGEST_LINE].decode("utf-8", "surrogateescape").partition("#")[0].strip(_SPACE)
        name, colon, value = line.partition(":")
        if not colon:  # Google also reads "Disallow /private"
            words = line.split()
            if len(words) != 2:
                continue
            name, value = words
        kind = next((kind for kind, names in _KINDS if name.strip(_SPACE).lower().startswith(names)), "")
        if kind:
            found.append((kind, value.strip(_SPACE)))
    return found


def _rules(lines: list[tuple[str, str]]) -> Rules:
    delays, hours = [0.0], []
    for kind, value in lines:
        if kind == "delay":
            delays.append(_seconds(value))
        elif kind == "rate":
            delays.append(_interval(value))
        elif kind == "time" and (window := _window(value)):
            hours.append(window)
    patterns = [
        (kind == "allow", _pattern(value)) for kind, value in lines if kind in {"allow", "disallow"} and value
    ]
    # Google's reader: who allows /a/index.html means /a/ as well.
    folders = [
        (True, found[1] + "$")
        for allowed, pattern in patterns
        if allowed and (found := _INDEX.fullmatch(pattern))
    ]
    return Rules((*patterns, *folders), max(delays), tuple(hours))


def _seconds(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        return 0.0
    return number if 0 < number < 1e9 else 0.0


def _interval(value: str) -> float:
    found = _RATE.match(value)
    if found is None or not int(found[1]):
        return 0.0
    return int(found[2]) * _UNITS[found[3].lower()] / int(found[1])


def _window(value: str) -> tuple[int, int] | None:
    found = re.fullmatch(
        r"(\d\d):?(\d\d)\s*-\s*(\d\d):?(\d\d)(?:\s*(?:UTC|GMT|Z))?", value, re.IGNORECASE | re.ASCII
    )
    if found is None:
        return None
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    return (start, end) if max(start, end) <= 24 * 60 and start != end else None


# ------------------------------------------------------------------------------------------------ patterns

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


_PLAIN = _UNRESERVED | frozenset("/?&=+:@!'(),;*$%[]")
_INDEX = re.compile(r"(.*/)index\.html?")


def _pattern(value: str) -> str:
    """A pattern in normal spelling. Only a $ at its end means something."""
    return _normal(value[:-1].replace("$", "%24") + value[-1:])


def _normal(text: str) -> str:
    """One spelling for each octet (RFC 9309 2.2.2): what a URL may contain as it is, all others as %XX."""
    octets = text.encode("utf-8", "surrogateescape")
    encoded = "".join(letter if (letter := chr(octet)) in _PLAIN else f"%{octet:02X}" for octet in octets)
    return _ESCAPE.sub(_one_spelling, encoded)


def _one_spelling(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in _UNRESERVED else found[0].upper()


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern with * and a final $ matches the beginning of a path. Greedy, without backtracking."""
    ends = pattern.endswith("$")
    first, *pieces = (pattern[:-1] if ends else pattern).split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    if not pieces:
        return not ends or at == len(path)
    *middle, last = pieces
    for piece in middle:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if ends:
        return len(path) - at >= len(last) and path.endswith(last)
    return path.find(last, at) >= 0

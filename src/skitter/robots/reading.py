"""From the bytes of a robots.txt to what it says to us: rules, delays, sitemaps, preferences.

The file is read line by line as Google's parser does, whatever else is in it: HTML, half a byte order mark,
UTF-16, line ends of all kinds. What cannot be understood is skipped (RFC 9309 2.3.1.5). Nothing raises.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache

from skitter.robots.matching import RobotsRules, rule_index, stamp
from skitter.robots.saying import Said, said

MAX_SIZE = 500 * 1024  # RFC 9309 2.5: the limit must be at least 500 KiB
MAX_LINE = 2083 * 8 - 1  # octets of a line that Google reads: eight times the longest URL of old browsers
LONGEST_DELAY = 1e9  # seconds; the cap for longer ones, so that the stored value stays finite
WHITE = " \t\n\v\f\r"  # C isspace(); str.strip() would also strip bytes 0x85 and 0xA0


# ------------------------------------------------------------------------------------------------ the product token

_TOKEN = re.compile(r"[A-Za-z0-9_-]*")
_VALID_TOKEN = re.compile(r"[A-Za-z_-]+")


def product_token(user_agent: str) -> str:
    """The product token of a user agent: "Skitter/0.1 (+https://…)" gives "skitter".

    RFC 9309 2.2.1 allows only letters, `_` and `-`. Digits are accepted anyway, or "MJ12bot" would be
    anybody's "mj".
    """
    found = _TOKEN.match(user_agent.lstrip(WHITE))
    return found[0].lower() if found else ""


def valid_product_token(token: str) -> bool:
    """Whether a crawler may use this product token (RFC 9309 2.2.1)."""
    return _VALID_TOKEN.fullmatch(token) is not None


# ------------------------------------------------------------------------------------------------ lines

_UNKNOWN, _AGENT, _ALLOW, _DISALLOW, _SITEMAP, _CRAWL_DELAY, _REQUEST_RATE, _VISIT_TIME = range(8)
_USAGE, _SIGNAL, _LICENSE = range(8, 11)

# Google matches a directive by its prefix, and accepts these misspellings.
_NAMES = {
    _AGENT: ("user-agent", "useragent", "user agent"),
    _ALLOW: ("allow",),
    _DISALLOW: ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"),
    _SITEMAP: ("sitemap", "site-map"),
    _CRAWL_DELAY: ("crawl-delay", "crawldelay", "crawl delay"),
    _REQUEST_RATE: ("request-rate", "requestrate", "request rate"),
    _VISIT_TIME: ("visit-time", "visittime", "visit time"),
    _USAGE: ("content-usage",),
    _SIGNAL: ("content-signal",),
    _LICENSE: ("license",),
}


@lru_cache(maxsize=256)
def _directive(name: str) -> int:
    name = name.strip(WHITE).lower()
    return next((known for known, starts in _NAMES.items() if name.startswith(starts)), _UNKNOWN)


def clipped(body: bytes, limit: int) -> bytes:
    """At most `limit` bytes.

    A body that reaches it is cut after a complete line: half a rule could be `Disallow: /`.
    """
    if len(body) < limit:
        return body
    end = max(body.rfind(b"\n", 0, limit), body.rfind(b"\r", 0, limit))
    return body[: end + 1]


def _decoded(body: bytes) -> bytes:
    """As UTF-8: cut at the limit, UTF-16 converted, the byte order mark or its beginning removed."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        wide = b"\0" in body  # some files are ASCII after that mark
        body = body[:MAX_SIZE].decode("utf-16", "replace").encode() if wide else body[2:]
    body = clipped(body, MAX_SIZE)
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        if body.startswith(mark):
            return body[len(mark) :]
    return body


def _lines(body: bytes) -> Iterator[tuple[int, int, str]]:
    """Number, directive and value of every line that has them."""
    lines = body.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if len(body) > MAX_LINE:
        lines = [line[:MAX_LINE] for line in lines]
    if b"\0" in body:  # Google's lines are C strings, so NUL ends a line
        lines = [line.partition("\0")[0] for line in lines]
    for number, line in enumerate(lines, 1):
        if "#" in line:
            line = line.partition("#")[0]  # noqa: PLW2901  the comment is no part of it
        name, colon, value = line.partition(":")
        if not colon:  # accepted if there are just two words
            words = line.strip(WHITE).replace("\t", " ").split(" ", 1)
            if len(words) != 2 or " " in words[1].lstrip(" "):
                continue
            name, value = words
        directive = _directive(name)
        if directive:
            yield number, directive, value.strip(WHITE)
        elif "sitemap" in value and name.strip(WHITE).lower() in {"http", "https"}:
            yield number, _SITEMAP, line.strip(WHITE)  # a bare address; the word before it is missing


# ------------------------------------------------------------------------------------------------ groups


class _Audience(IntEnum):
    """Whom a group addresses. A group that names both everybody and us is ours: the larger value counts."""

    OTHERS = 0
    EVERYBODY = 1
    US = 2


def _audience(value: str, token: str) -> _Audience:
    if value == "*" or (value.startswith("*") and value[1] in WHITE):
        return _Audience.EVERYBODY
    return _Audience.US if token and product_token(value) == token else _Audience.OTHERS


def robots_rules(body: bytes, agent: str) -> RobotsRules:
    """What a robots.txt says to the product token of `agent`. Groups that name it are merged; otherwise `*` applies."""
    token, body = product_token(agent), _decoded(body)
    rules: tuple[list[tuple[str, int]], ...] = ([], [], [])  # by audience
    limits: tuple[list[tuple[int, str]], ...] = ([], [], [])
    for_all: list[tuple[int, str]] = []  # what stands before the first group, and licences
    begun = False
    sitemaps: dict[str, None] = {}
    named = _Audience.EVERYBODY  # whose group applies to us: ours, once there is one
    # Other records do not end a list of agents (RFC 9309 2.2.4). But a delay between two agents was meant for
    # the first, so the audience of rules and of delays is tracked separately.
    to = limit_to = _Audience.OTHERS
    rules_begun = limits_begun = False
    for number, directive, value in _lines(body):
        if directive == _AGENT:
            begun = True
            who = _audience(value, token)
            named = max(named, who)
            to = who if rules_begun else max(to, who)
            limit_to = who if rules_begun or limits_begun else max(limit_to, who)
            rules_begun = limits_begun = False
        elif directive <= _DISALLOW:
            rules_begun = True
            if to:
                rules[to].append((value, stamp(number, allow=directive == _ALLOW)))
        elif directive == _SITEMAP:
            sitemaps[value.encode("latin-1").decode("utf-8", "replace")] = None
        elif directive == _LICENSE or (directive >= _USAGE and not begun):
            for_all.append((directive, value))
        else:
            limits_begun = True
            limits[limit_to].append((directive, value))
    ours = limits[named]
    return RobotsRules(
        index=rule_index(rules[named]),
        body=body,
        crawl_delay=max(_crawl_delays(ours), default=None),
        request_rate=max(_request_rates(ours), default=None),
        visit_time=next(_visit_times(ours), None),
        sitemaps=tuple(sitemaps),
        said=_said(for_all + ours),
    )


def _said(found: Sequence[tuple[int, str]]) -> Said | None:
    """What is said about uses; most files say nothing."""
    kinds = {kind for kind, _ in found}
    if kinds.isdisjoint((_USAGE, _SIGNAL, _LICENSE)):
        return None
    usages, signals, licenses = (
        [value for kind, value in found if kind == wanted] for wanted in (_USAGE, _SIGNAL, _LICENSE)
    )
    return said(usages, signals, licenses)


# ------------------------------------------------------------------------------------------------ how often, and when

_DELAY = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?(?:<.*)?", re.ASCII)  # some files are HTML: "10<BR>"
_RATE = re.compile(r"(\d{1,9}) ?/ ?(\d{1,9}) ?([smhd]?)(?: \d{4} ?- ?\d{4})?", re.ASCII | re.IGNORECASE)
_RATE_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_WINDOW = re.compile(r"(\d\d)(\d\d)(?: ?- ?| )(\d\d)(\d\d)", re.ASCII)


def _values(
    limits: Sequence[tuple[int, str]], directive: int, form: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    """The values of one directive that have the right form, with runs of white space collapsed."""
    return filter(
        None, (form.fullmatch(" ".join(value.split())) for kind, value in limits if kind == directive)
    )


def _crawl_delays(limits: Sequence[tuple[int, str]]) -> Iterator[float]:
    for value in _values(limits, _CRAWL_DELAY, _DELAY):
        yield min(float(value[1]), LONGEST_DELAY)


def _request_rates(limits: Sequence[tuple[int, str]]) -> Iterator[float]:
    """Seconds per request. A rate for some hours of the day applies all day."""
    for value in _values(limits, _REQUEST_RATE, _RATE):
        pages, period = int(value[1]), int(value[2]) * _RATE_UNITS[value[3].lower()]
        if pages:
            yield min(period / pages, LONGEST_DELAY)


def _visit_times(limits: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    for value in _values(limits, _VISIT_TIME, _WINDOW):
        from_hour, from_minute, to_hour, to_minute = map(int, value.groups())
        start, end = from_hour * 60 + from_minute, to_hour * 60 + to_minute
        if max(from_minute, to_minute) < 60 and max(start, end) <= 24 * 60:
            yield start, end

"""What an audit is about: requests as any log tells of them, and what was found."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Request(Struct, frozen=True, array_like=True):
    """One request, from whichever log. Times are seconds since the epoch."""

    era: int  # how often the clock had been set back before
    start: float
    end: float  # = start where a log does not tell
    url: str
    host: str
    file: int  # number of the log
    line: int
    terms: int  # number of the terms that it was made under
    address: str = ""
    status: int = 0
    size: int = 0
    purpose: str = ""  # as in the request log; empty elsewhere
    fault: str = ""
    attempt: int = 0
    retry_after: str = ""
    origin: str = ""  # of a moved robots.txt
    lost: bool = False  # no request: a visit that was open when its process died
    run: int = 0  # of this log: how many there were before


class Log(Struct, frozen=True):
    """What a log can tell."""

    name: str
    precision: float  # seconds by which its times may be wrong
    ends: bool  # whether it has the ends of requests
    kind: str = "requests"  # requests, access or warc


class Promise(Struct, frozen=True):
    """The settings that requests were made under, by section, and the token that robots.txt files address."""

    agent: str
    settings: Mapping[str, Any]
    at: float = 0.0
    name: str = ""  # where they are from


class Violation(Struct, frozen=True):
    """One promise that was not kept."""

    check: str  # one of CHECKS
    kind: str
    key: str  # host, address, domain or group
    where: str  # FILE:LINE
    url: str
    at: float
    owed: str
    found: str


CHECKS: Mapping[str, str] = {
    "gap": "the wait before each request",
    "in flight": "requests at the same time",
    "robots first": "robots.txt before any page of its origin",
    "robots obeyed": "nothing that robots.txt forbids",
    "Retry-After": "no request before the time a server asked for",
    "windows": "requests only at the agreed hours",
    "budgets": "no more than the agreed pages, bytes and requests",
    "bandwidth": "no more bytes per second than agreed, on average",
    "once": "nothing twice without a reason",
    "log": "the log itself: whole, and in order",
}

"""What is owed to whom, from the settings that a crawl ran with: read anew here, without the crawler's code.

Delays that grow with a server's trouble are not known here. They only ever make a wait longer than what is demanded, so
what is found to be kept is kept.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from msgspec import Struct

from skitter import urls
from skitter.reporting.audit.values import Promise

_PORTS = {"http": 80, "https": 443}
_PATTERN = re.compile(
    r"(?:(https?)://)?(\[[^\]]*\]|[^/:]+)(?::(\d+))?(/.*)?", re.DOTALL
)  # of [[site]]: scheme, host, port, path
_WINDOW = re.compile(
    r"(?:([a-z]{3})[a-z]*(?:-([a-z]{3})[a-z]*)? )?(\d\d?):(\d\d) ?- ?(\d\d?):(\d\d) (\S+)", re.IGNORECASE
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Duty(Struct, frozen=True):
    """What is owed to one key: a host, an address, a registrable domain or a group of hosts."""

    kind: str
    name: str
    delay: float = 0.0
    in_flight: int | None = None  # None: any number
    burst: int = 1
    source: str = ""  # the setting that says so
    turns: bool = False  # only starts are apart, each a turn behind the other
    pages: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    requests_per_day: int | None = None


class Duties:
    """The settings of one run, ready to be asked about a request."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.agent = promise.agent
        self._settings = promise.settings
        self._sites = [(_site(site["match"]), site["values"]) for site in promise.settings.get("site", ())]
        self._groups = [
            (group, [_glob(pattern.lower().removesuffix(".")) for pattern in group["hosts"]])
            for group in promise.settings.get("group", ())
        ]
        self._windows = lru_cache(maxsize=1000)(windows)

    def value(self, url: str, dotted: str, default: Any = None) -> Any:  # noqa: ANN401  a setting may be anything
        """A setting as it holds for a URL: the first overlay that matches and names it decides."""
        if self._sites:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            for (scheme, host, its_port, path), values in self._sites:
                if (
                    dotted in values
                    and scheme in {"", parts.scheme}
                    and its_port in {0, port}
                    and host.fullmatch(parts.hostname or "")
                    and (path is None or path.fullmatch(target))
                ):
                    return values[dotted]
        section, _, name = dotted.partition(".")
        return self._settings.get(section, {}).get(name, default)

    @cached_property
    def cache(self) -> float:
        """How long a robots.txt may be used."""
        return float(self._settings.get("robots", {}).get("cache", 86400.0))

    @cached_property
    def least_cache(self) -> float:
        """How long it is used at least, while nothing goes wrong."""
        return self.cache * (1 - float(self._settings.get("robots", {}).get("jitter", 0.1)))

    @cached_property
    def stale(self) -> float:
        """How long an old one may be used while its host fails."""
        return float(self._settings.get("robots", {}).get("stale", 30 * 86400.0))

    @cached_property
    def bandwidth(self) -> float:
        """Bytes per second that the whole crawl may receive, on average; 0 if any number."""
        return float(self._settings.get("budget", {}).get("bandwidth") or 0.0)

    @cached_property
    def retries(self) -> int:
        """How often a failed page is tried again."""
        return int(self._settings.get("schedule", {}).get("retries", 3))

    def keys(self, url: str, host: str, address: str) -> Iterator[Duty]:
        """Everybody to whom something is owed for a request."""
        yield self.host(url, host)
        ask = self._settings.get("politeness", {}).get
        if address:
            delay = float(ask("address_delay", 0.0))
            yield Duty(
                "address",
                _spelt(address),
                delay,
                ask("per_address"),
                1,
                "politeness.address_delay",
                turns=True,
            )
        domain, limits = urls.registrable_domain(host), self._budget(url, "domain_")
        delay, most = float(ask("domain_delay") or 0.0), ask("per_domain")
        if delay or most is not None or any(limit is not None for limit in limits.values()):
            yield Duty("domain", domain, delay, most, 1, "politeness.domain_delay", turns=True, **limits)
        for group, globs in self._groups:
            if any(glob.fullmatch(host) for glob in globs):
                most = group.get("in_flight")
                yield Duty(
                    "group", group["name"], float(group.get("delay") or 0.0), most, 1, f"group.{group['name']}.delay",
                    turns=True, **{name: group.get(name) for name in _BUDGETS},
                )  # fmt: skip

    def host(self, url: str, host: str) -> Duty:
        """What is owed to a host after a request for this URL."""
        most = int(self.value(url, "politeness.per_host", 1))
        limits = self._budget(url, "host_")
        return Duty(
            "host", host, float(self.value(url, "politeness.delay", 1.0)), most,
            int(self.value(url, "politeness.burst", 1)), "politeness.delay", turns=most != 1, **limits,
        )  # fmt: skip

    def _budget(self, url: str, prefix: str) -> dict[str, Any]:
        return {name: self.value(url, f"budget.{prefix}{name}") for name in _BUDGETS}

    def windows(self, url: str, host: str) -> list[str]:
        """The windows that concern a request."""
        asked = [str(self.value(url, "politeness.window", "") or "")]
        asked += [
            group["window"]
            for group, globs in self._groups
            if group.get("window") and any(glob.fullmatch(host) for glob in globs)
        ]
        return [text for text in asked if text]

    def closed(self, url: str, host: str, at: float) -> str:
        """The window that is closed at a moment; empty if all that concern a request are open."""
        for text in self.windows(url, host):
            if not any(window.is_open(at) for window in self._windows(text)):
                return text
        return ""


_BUDGETS = ("pages", "bytes", "seconds", "requests_per_day")


def _spelt(address: str) -> str:
    """An IPv4 address inside an IPv6 one is the IPv4 address."""
    return address.lower().removeprefix("::ffff:") if "." in address else address.lower()


# ------------------------------------------------------------------------------------------------ patterns and windows


def _glob(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", text).split("*"))), re.DOTALL)


def _site(match: str) -> tuple[str, re.Pattern[str], int, re.Pattern[str] | None]:
    found = _PATTERN.fullmatch(match)
    if found is None:
        raise ValueError(f"{match!r} is not a pattern of sites")
    path = found[4]
    host = found[2].lower().removesuffix(".")
    return found[1] or "", _glob(host), int(found[3] or 0), None if path in {None, "/*"} else _glob(path)


class _Window(Struct, frozen=True):
    start: int
    end: int
    zone: tzinfo
    days: frozenset[int]

    def is_open(self, at: float) -> bool:
        wall = datetime.fromtimestamp(at, self.zone)
        minute, day = wall.hour * 60 + wall.minute, wall.weekday()
        if self.start < self.end:
            return self.start <= minute < self.end and day in self.days
        return (minute >= self.start and day in self.days) or (
            minute < self.end and (day - 1) % 7 in self.days
        )


def windows(text: str) -> tuple[_Window, ...]:
    """The windows of a setting, such as "Mon-Fri 22:00-06:00 Europe/Berlin"."""
    found = []
    for part in text.split(","):
        match = _WINDOW.fullmatch(" ".join(part.split()))
        if match is None:
            continue
        first, last, *clock, zone = match.groups()
        from_hour, from_minute, to_hour, to_minute = map(int, clock)
        days = range(7)
        if first:
            begin = _DAYS.index(first.lower())
            days = range(begin, begin + (_DAYS.index((last or first).lower()) - begin) % 7 + 1)
        zones = UTC if zone.upper() in {"UTC", "Z"} else ZoneInfo(zone)
        found.append(
            _Window(
                from_hour * 60 + from_minute,
                to_hour * 60 + to_minute,
                zones,
                frozenset(day % 7 for day in days),
            )
        )
    return tuple(found)


def as_promise(settings: Mapping[str, Any], agent: str, name: str, at: float = 0.0) -> Promise:
    """Settings as a promise."""
    return Promise(agent, settings, at, name)

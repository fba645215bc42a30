"""Everything that a request has to wait for, in one list: its host, domain, groups and address. For people; pure.

What is decided, the frontier and the permits decide; here it is put together from the settings, the robots.txt in force and
the record of the host.
"""

from collections.abc import Iterator
from math import floor

from msgspec import Struct

from skitter import politeness, urls
from skitter.model import HostRecord
from skitter.politeness import listening
from skitter.robots import RobotsRules
from skitter.settings.sites import Sites


class Key(Struct, frozen=True, omit_defaults=True):
    """One thing that limits requests."""

    kind: str  # host, domain, group or address
    name: str
    delay: float = 0.0  # seconds
    asked_by: str = ""  # who wants that delay
    in_flight: int | None = None  # requests at once, at most
    free_at: float | None = None  # None: only the process that sends knows
    tokens: int | None = None  # requests that may start now

    @property
    def rate(self) -> float | None:
        """Requests per second in the long run; None if that has no limit."""
        return 1 / self.delay if self.delay else None


def keys_of(
    url: str, host: HostRecord | None, sites: Sites, rules: RobotsRules | None, now: float
) -> list[Key]:
    """Every key of a URL that has a limit."""
    return list(_keys(url, host, sites, rules, now))


def _keys(
    url: str, host: HostRecord | None, sites: Sites, rules: RobotsRules | None, now: float
) -> Iterator[Key]:
    name, own = urls.host(url), sites.of(url).politeness
    delay, asked_by = delay_of(url, host, sites, rules)
    free_at = 0.0 if host is None else max(host.free_at, host.held)
    room = own.per_host - (0 if host is None else host.in_flight)
    rested = politeness.TokenBucket(delay, own.burst)
    yield Key(
        "host", name, delay, asked_by, own.per_host, free_at, max(0, min(room, _tokens(rested, free_at, now)))
    )
    if own.per_domain is not None or own.domain_delay:
        domain = urls.registrable_domain(name)
        yield Key("domain", domain, own.domain_delay, "politeness.domain_delay", own.per_domain)
    for group in sites.groups(name):
        if group.delay or group.in_flight is not None:
            yield Key("group", group.name, group.delay or 0.0, f"[group.{group.name}] delay", group.in_flight)
    if own.per_address is not None or own.address_delay:
        yield Key("address", "", own.address_delay, "politeness.address_delay", own.per_address)


def delay_of(url: str, host: HostRecord | None, sites: Sites, rules: RobotsRules | None) -> tuple[float, str]:
    """Seconds between an answer of a host and the next request, and who asks for them."""
    own = sites.of(url).politeness
    owed = politeness.owed(rules, own)
    learnt = listening.delay_of(None if host is None or not own.adaptive else host.pace, owed, own)
    if learnt > owed:
        return learnt, "politeness.adaptive, for what was learnt of the host"
    asked = None if rules is None else rules.delay
    if rules is not None and asked is not None and asked >= owed > 0:
        return owed, f"{'Crawl-delay' if rules.crawl_delay == asked else 'Request-rate'} in its robots.txt"
    speaker = sites.speaker(url, "politeness.delay")
    return owed, "politeness.delay" if speaker is None else f"politeness.delay of {speaker}"


def _tokens(bucket: politeness.TokenBucket, free_at: float, now: float) -> int:
    if free_at > now:
        return 0
    if not bucket.delay:
        return bucket.burst
    return min(bucket.burst, 1 + floor((now - free_at) / bucket.delay))

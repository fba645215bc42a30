"""When is a host free again? Pure: the outcome, the rules and the time go in, a time comes out.

A host's clock is one number, the time from which it may be touched. It is measured from the end of the last response,
persisted with every settlement, and shared by pages, robots.txt, redirects and retries alike. Nothing here sleeps: a host
whose clock is in the future is simply not handed out by the frontier.
"""

from collections.abc import Sequence
from datetime import UTC

from msgspec import Struct

from skitter import reasons
from skitter.model import Reason
from skitter.robots import RobotsRules
from skitter.settings import PolitenessSettings

# RFC 9110 10.2.3 writes delay-seconds without an upper bound; more digits than this is more than three centuries.
_MAX_DELAY_DIGITS = 10


class TokenBucket(Struct, frozen=True):
    """At most `burst` requests at once and one per `delay` seconds in the long run.

    The state of the bucket is the clock itself: the time from which a token is there (the generic cell rate algorithm).
    A clock that lies far in the past stands for a full bucket, so a host that was left alone for long may get `burst`
    requests without a wait between them. With a burst of 1 this is "one `delay` after the last response".
    """

    delay: float
    burst: int = 1

    @property
    def rate(self) -> float:
        """Requests per second in the long run."""
        return 1 / self.delay if self.delay else float("inf")

    def wait(self, free_at: float, now: float) -> float:
        """Seconds until a token is there."""
        return max(0.0, free_at - now)

    def take(self, free_at: float, now: float) -> float:
        """The clock after a token was taken at `now`."""
        full_since = now - (self.burst - 1) * self.delay
        return max(free_at, full_since) + self.delay


def owed(rules: RobotsRules | None, settings: PolitenessSettings) -> float:
    """Seconds a host is owed after every response: what its robots.txt asks for, never less than our own delay."""
    asked = rules.delay if rules is not None else None
    return max(settings.delay, asked or 0.0)


def too_slow(rules: RobotsRules | None, settings: PolitenessSettings) -> Reason | None:
    """A host that wants to be left alone for longer than we can wait is set aside: a delay is never cut short."""
    asked = rules.delay if rules is not None else None
    if asked is None or asked <= settings.max_crawl_delay:
        return None
    detail = f"robots.txt asks for {asked:g} s between requests, more than politeness.max_crawl_delay ({settings.max_crawl_delay:g} s)"
    return Reason(reasons.CRAWL_DELAY, detail)


def too_late(asked: float | None, settings: PolitenessSettings) -> Reason | None:
    """A host that wants us back later than we can wait is set aside: Retry-After is never cut short either."""
    if asked is None or asked <= settings.max_retry_after:
        return None
    detail = f"asked to come back in {asked:g} s, more than politeness.max_retry_after ({settings.max_retry_after:g} s)"
    return Reason(reasons.RETRY_AFTER, detail)


def retry_after(headers: Sequence[tuple[str, str]], now: float) -> float | None:
    """Seconds that Retry-After asks for, in either of its forms (RFC 9110 10.2.3); None when absent or unreadable."""
    value = next((value.strip() for name, value in headers if name == "retry-after"), "")
    if value.isascii() and value.isdigit():
        return float(value[:_MAX_DELAY_DIGITS]) if len(value) <= _MAX_DELAY_DIGITS else float("inf")
    if not value:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  few servers write a date

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)

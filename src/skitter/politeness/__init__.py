"""When is a host free again? Pure: outcome, rules and time in, a time out.

A host's clock is one number, the time from which it may be visited. It is measured from the end of the last
response, persisted with every settlement, and shared by pages, robots.txt, redirects and retries. Nothing
here sleeps: the frontier does not lease a host whose clock is in the future.
"""

from collections.abc import Sequence
from datetime import UTC

from msgspec import Struct

from skitter import reasons
from skitter.model import NotNow, Reason
from skitter.robots import RobotsRules
from skitter.runtime.windows import Windows
from skitter.settings import PolitenessSettings

# RFC 9110 10.2.3 writes delay-seconds without an upper bound; more digits than this is more than three centuries.
_MAX_DELAY_DIGITS = 10


class TokenBucket(Struct, frozen=True):
    """At most `burst` requests at once and one per `delay` seconds in the long run.

    The bucket's state is the clock itself: the time from which a token is available (generic cell rate
    algorithm). A clock far in the past means a full bucket, so a long idle host may get `burst` requests
    without a wait between them. With a burst of 1 this is "one `delay` after the last response".
    """

    delay: float
    burst: int = 1

    @property
    def rate(self) -> float:
        """Requests per second in the long run."""
        return 1 / self.delay if self.delay else float("inf")

    def wait(self, free_at: float, now: float) -> float:
        """Seconds until a token is available."""
        return max(0.0, free_at - now)

    def take(self, free_at: float, now: float) -> float:
        """The clock after a token was taken at `now`."""
        full_since = now - (self.burst - 1) * self.delay
        return max(free_at, full_since) + self.delay


def free_after(host_free: float, started: float, ended: float, delay: float, burst: int) -> float:
    """The clock of a host after a request, if it was `host_free` before."""
    # A host is not idle while it is working on our request: a burst grows with idle time, not with slow
    # answers.
    return TokenBucket(delay, burst).take(host_free + (ended - started), ended)


def owed(rules: RobotsRules | None, settings: PolitenessSettings) -> float:
    """The delay after every response: what robots.txt asks for, but at least our own."""
    asked = rules.delay if rules is not None else None
    return max(settings.delay, asked or 0.0)


def too_slow(rules: RobotsRules | None, settings: PolitenessSettings) -> Reason | None:
    """A host that wants a longer delay than we accept is set aside: a delay is never shortened."""
    asked = rules.delay if rules is not None else None
    if asked is None or asked <= settings.max_crawl_delay:
        return None
    detail = f"robots.txt asks for {asked:g} s between requests, more than politeness.max_crawl_delay ({settings.max_crawl_delay:g} s)"
    return Reason(reasons.CRAWL_DELAY, detail)


def too_late(asked: float | None, settings: PolitenessSettings) -> Reason | None:
    """A host that asks us to return later than we accept is set aside: Retry-After is never shortened either."""
    if asked is None or asked <= settings.max_retry_after:
        return None
    detail = f"asked to come back in {asked:g} s, more than politeness.max_retry_after ({settings.max_retry_after:g} s)"
    return Reason(reasons.RETRY_AFTER, detail)


def not_at_this_hour(hours: Windows, opens: float) -> NotNow:
    """The robots.txt of the site asks for visits at other times of the day."""
    return NotNow(
        Reason(reasons.VISIT_TIME, f"robots.txt asks for visits within {hours.name} (Visit-time)"), opens
    )


def retry_after(headers: Sequence[tuple[str, str]], now: float) -> float | None:
    """Seconds of Retry-After, in either form (RFC 9110 10.2.3); None if absent or unreadable."""
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

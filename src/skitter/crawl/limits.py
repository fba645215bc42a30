"""The limits of a crawl: which one is reached, and how many more pages each part may store. Pure.

`crawl.max_pages`, `max_bytes` and `max_time` hold for the whole crawl, in one process, a fleet or a cluster. The page
limit is exact: a visit in flight counts as a page until it is settled, and no part of the crawl (a worker, or a shard
in a cluster) starts a visit beyond its allowance. The allowances never add up to more than the limit. Bytes and time
may be exceeded by what is in flight when the limit is reached.
"""

import sys
from collections.abc import Mapping

from msgspec import Struct

from skitter.reporting.format import amount, counted, duration
from skitter.settings import CrawlSettings

GRACE = 5.0  # seconds that requests in flight may still take after crawl.max_time


def has_limit(limits: CrawlSettings) -> bool:
    """Whether any of the three limits is set."""
    return not (limits.max_pages is None and limits.max_bytes is None and limits.max_time is None)


def limit_reached(limits: CrawlSettings, *, pages: int, received: int, elapsed: float) -> str:
    """Which limit is reached, in words; empty if none is. `received` counts bytes."""
    if limits.max_pages is not None and pages >= limits.max_pages:
        return f"{counted(pages, 'page')} of {limits.max_pages:,} are stored (crawl.max_pages)"
    if limits.max_bytes is not None and received >= limits.max_bytes:
        return f"{amount(received)} of {amount(limits.max_bytes)} are received (crawl.max_bytes)"
    if limits.max_time is not None and elapsed >= limits.max_time:
        return f"{duration(elapsed)} of {duration(limits.max_time)} have passed (crawl.max_time)"
    return ""


def may_complete(limits: CrawlSettings, *, received: int, elapsed: float) -> bool:
    """Whether what the stored pages need may still be fetched once there are enough of them: no other limit is reached."""
    return not limit_reached(limits, pages=-1, received=received, elapsed=elapsed)


def grace_is_over(limits: CrawlSettings, elapsed: float) -> bool:
    """Whether to cancel requests still in flight after crawl.max_time."""
    return limits.max_time is not None and elapsed >= limits.max_time + GRACE


def pages_left(allowed: int | None, stored: int, in_flight: int) -> int:
    """How many more visits may start under this page allowance; None: there is no page limit."""
    return sys.maxsize if allowed is None else allowed - stored - in_flight


class Share(Struct, frozen=True):
    """One part's share of the page limit, in pages of all runs."""

    used: int  # stored, or in flight and maybe stored soon: cannot be taken back
    allowed: int  # may be stored in all
    wanted: int  # would be stored in all if allowed: less than `allowed` gives some back


def share_out(limit: int, shares: Mapping[int, Share]) -> dict[int, int]:
    """How many pages each part may store in all from now on.

    Free pages are divided equally among the parts that want more, as far as they want them. If a part wants more, the
    others are asked to give back what they do not want. That becomes free once they have done so, because until then
    they may use it: it shows in `allowed` of the next call. So the allowances in use never exceed the limit.
    """
    allowed = {part: share.allowed for part, share in shares.items()}
    lacking = [part for part, share in shares.items() if share.wanted > share.allowed]
    if not lacking:
        return allowed
    free = limit - sum(allowed.values())
    for part, share in shares.items():
        allowed[part] = max(share.used, min(share.allowed, share.wanted))
    for place, part in enumerate(lacking):
        more = max(0, min(shares[part].wanted - shares[part].allowed, -(-free // (len(lacking) - place))))
        allowed[part] += more
        free -= more
    return allowed

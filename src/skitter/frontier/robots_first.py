"""The robots.txt of an origin comes before its pages: its request, its redirect hops, and the rules without one."""

import base64
import sys
from typing import Protocol

import msgspec

from skitter.model import Level, Link, Purpose, Reason, RobotsCopy

# How long a host waits for the next hop of its robots.txt, which may be on a host with its own clock, before
# the robots.txt is requested from the start.
HOP_PATIENCE = 60.0
# The score of such a hop: before every page of its host.
BEFORE_ALL = sys.float_info.max
# RFC 9309 2.4: a cached copy is used for a day at most.
NO_ROBOTS_FOR = 86400.0


class Waiting(Protocol):
    """A page that waits for its robots.txt, as stored in any store."""

    @property
    def url(self) -> str: ...  # noqa: D102

    @property
    def depth(self) -> int: ...  # noqa: D102

    @property
    def purpose(self) -> Purpose: ...  # noqa: D102


def robots_link(origin: str, host: str, page: Waiting | None = None) -> Link:
    """The request for an origin's robots.txt, which comes before any of its pages.

    It names the page it is for, so that it is not sent if that is out of scope. No scope holds for an asset.
    """
    if page is not None and page.purpose is Purpose.ASSET:
        page = None
    url = f"{origin}/robots.txt"
    return Link(
        url=url,
        key=url,
        host=host,
        depth=page.depth if page else 0,
        parent=page.url if page else "",
        level=Level.CRITICAL,
        purpose=Purpose.ROBOTS,
        origin=origin,
    )


def unreachable(origin: str, problem: str, now: float) -> RobotsCopy:
    """RFC 9309 2.3.1.4: if the rules cannot be fetched, everything is disallowed."""
    return RobotsCopy(
        origin=origin, access="none", fetched_at=now, expires=now + NO_ROBOTS_FOR, tries=1, problem=problem
    )


def hop_refused(origin: str, url: str, host: str, aside: Reason, now: float) -> RobotsCopy:
    """The robots.txt has moved to a host that is set aside."""
    return unreachable(origin, f"robots.txt is at {url}, and {host} is set aside: {aside.detail}", now)


def carry(copy: RobotsCopy, host: str) -> Link:
    """A robots.txt copy for another shard's origin, as a link in the outbox: the hop was ours, the pages are theirs."""
    packed = base64.b85encode(msgspec.msgpack.encode(copy)).decode()
    return msgspec.structs.replace(robots_link(copy.origin, host), meta={"robots": packed})


def carried(link: Link) -> RobotsCopy | None:
    """The robots.txt copy inside a link from another shard."""
    if link.purpose is not Purpose.ROBOTS or not link.meta or "robots" not in link.meta:
        return None
    return msgspec.msgpack.decode(base64.b85decode(link.meta["robots"]), type=RobotsCopy)

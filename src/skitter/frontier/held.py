"""What the owner of a shard remembers of visits that are out, and of rules."""

from math import inf
from typing import NamedTuple

from msgspec import Struct

from skitter.frontier.rows import UrlRow
from skitter.model import RobotsCopy, Visit


class Flight(NamedTuple):
    """What of a host is in flight."""

    visits: int = 0
    robots: bool = False


IDLE = Flight()


class Rules(NamedTuple):
    """What a lease has to know of a robots.txt."""

    expires: float = 0.0
    tries: int = 0
    access: str = ""


def rules_of(copy: RobotsCopy | None) -> Rules:
    """The part of a copy that is kept in memory."""
    return Rules() if copy is None else Rules(copy.expires, copy.tries, copy.access)


class Lease(Struct, gc=False):
    """A visit that is out, or taken out ahead."""

    visit: Visit
    row: UrlRow | None  # None: a robots.txt, which need not wait in a queue
    until: float = inf  # its page may be fetched as long as the rules hold
    handed: bool = False

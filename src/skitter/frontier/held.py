"""What the owner of a shard keeps in memory about visits in flight and robots rules."""

from math import inf

from msgspec import Struct

from skitter.frontier.rows import UrlRow
from skitter.model import RobotsCopy, Visit


class Flight(Struct, frozen=True, gc=False):
    """The visits of a host that are in flight."""

    visits: int = 0
    robots: bool = False
    others: int = 0  # of visits: those that count as no page


IDLE = Flight()


class Rules(Struct, frozen=True, gc=False):
    """What a lease needs to know about a robots.txt."""

    expires: float = 0.0
    tries: int = 0
    access: str = ""


def rules_of(copy: RobotsCopy | None) -> Rules:
    """The part of a robots.txt copy that is kept in memory."""
    return Rules() if copy is None else Rules(copy.expires, copy.tries, copy.access)


class Lease(Struct, gc=False):
    """A visit that is in flight, or leased ahead."""

    visit: Visit
    row: UrlRow | None  # None: a robots.txt, which was in no queue
    until: float = inf  # its page may be fetched while these rules are valid
    handed: bool = False

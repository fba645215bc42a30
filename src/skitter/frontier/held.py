"""What the owner of a shard remembers of visits that are out, of rules, and of links that were offered before."""

from math import inf
from typing import NamedTuple

from msgspec import Struct

from skitter.frontier.rows import UrlRow
from skitter.model import Level, Visit

Rank = tuple[int, float]
NEVER: Rank = (-1, 0.0)  # nothing would move this one forward
ALWAYS: Rank = (len(Level), 0.0)  # whoever wants this one changes something


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


class Lease(Struct, gc=False):
    """A visit that is out, or taken out ahead."""

    visit: Visit
    row: UrlRow | None  # None: a robots.txt, which need not wait in a queue
    until: float = inf  # its page may be fetched as long as the rules hold
    handed: bool = False

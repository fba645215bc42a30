"""When somebody who gets no permit shall ask again. Pure.

Everybody who is refused is promised a time of their own, as far after the one before as the address needs for one
request: how long a request takes there, divided by how many may be in flight. So they return one by one, about as
fast as permits become free, and most are refused once.
"""

from math import inf, isinf

from skitter import reasons
from skitter.model import Reason
from skitter.ports import PermitTerms
from skitter.settings import GroupSettings, PolitenessSettings

LEAST = 0.05  # seconds: sooner, the visit would hardly be settled
MOST = 10.0  # seconds: a server that was slow may be fast again
TYPICAL = 0.1  # seconds of a request, before one was measured
WEIGHT = 1 / 8  # of the latest request in what is typical


def smoothed(typical: float, used: float) -> float:
    """How long requests typically take, after one that took so long."""
    return typical + (used - typical) * WEIGHT


def step(typical: float, limit: float, delay: float) -> float:
    """Seconds from one turn at an address to the next."""
    return max(typical / limit, delay)


def next_turn(promised: float, after: float, now: float, free_at: float = 0.0, least: float = LEAST) -> float:
    """The turn behind the last one that was promised. At `free_at` the address may be asked again at all."""
    return min(max(promised + after, now + least, free_at), max(now + MOST, free_at))


def of_address(settings: PolitenessSettings) -> PermitTerms:
    """What limits the requests to an IP address."""
    limit, delay = most(settings.per_address), float(settings.address_delay)
    return PermitTerms(
        limit,
        delay,
        Reason(
            reasons.ADDRESS_BUSY,
            f"{_requests(limit)} in flight at its address already (politeness.per_address)",
        ),
        Reason(
            reasons.ADDRESS_DELAY,
            f"a request to its address began less than {delay:g} s before (politeness.address_delay)",
        ),
    )


def of_domain(settings: PolitenessSettings) -> PermitTerms:
    """What limits the requests to all hosts of a registrable domain."""
    limit, delay = most(settings.per_domain), float(settings.domain_delay)
    return PermitTerms(
        limit,
        delay,
        Reason(
            reasons.DOMAIN_BUSY, f"{_requests(limit)} in flight in its domain already (politeness.per_domain)"
        ),
        Reason(
            reasons.DOMAIN_DELAY,
            f"a request to a host of its domain began less than {delay:g} s before (politeness.domain_delay)",
        ),
    )


def of_group(group: GroupSettings) -> PermitTerms:
    """What limits the requests to all hosts of a group."""
    limit, delay = most(group.in_flight), float(group.delay or 0.0)
    return PermitTerms(
        limit,
        delay,
        Reason(
            reasons.GROUP_BUSY,
            f"{_requests(limit)} in flight in its group already ([group.{group.name}] in_flight)",
        ),
        Reason(
            reasons.GROUP_DELAY,
            f"a request to its group began less than {delay:g} s before ([group.{group.name}] delay)",
        ),
    )


def limits(terms: PermitTerms) -> bool:
    """Whether there is anything to wait for."""
    return terms.delay > 0 or not isinf(terms.limit)


def _requests(limit: float) -> str:
    return "1 request is" if limit == 1 else f"{limit:g} requests are"


def most(number: int | None) -> float:
    """The limit as a number."""
    return inf if number is None else number

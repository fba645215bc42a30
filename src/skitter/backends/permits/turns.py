"""When somebody who gets no permit shall ask again. Pure.

Everybody who is refused is promised a time of their own, as far after the one before as the address needs for one
request: how long a request takes there, divided by how many may be in flight. So they return one by one, about as
fast as permits become free, and most are refused once.
"""

from math import inf

from skitter import reasons
from skitter.model import Reason

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


def busy(limit: float) -> Reason:
    """Why there is no permit."""
    requests = "1 request is" if limit == 1 else f"{limit:g} requests are"
    return Reason(
        reasons.ADDRESS_BUSY, f"{requests} in flight at its address already (politeness.per_address)"
    )


def too_soon(delay: float) -> Reason:
    """Why there is no permit yet."""
    return Reason(
        reasons.ADDRESS_DELAY,
        f"a request to its address began less than {delay:g} s before (politeness.address_delay)",
    )


def most(per_address: int | None) -> float:
    """The limit as a number."""
    return inf if per_address is None else per_address

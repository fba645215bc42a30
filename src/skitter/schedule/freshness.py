"""When a page that was fetched is worth another visit: what is believed about its changes, and the price of a visit. Pure.

Changes of a page are taken as a Poisson process of unknown rate. What is believed about the rate is a weight for each of
nineteen rates (`RATES`), a factor of two apart: its visits have made some of them unlikely (`learn`), and before its first
visits the other pages of its host say what to expect (`Usual`). So a page that nobody knows is neither taken for still nor
for busy, and each answer counts for what it tells: "changed" after a month says less than after an hour.

A visit is worth what it adds to the time in which our copy is right, weighted by the importance of the page (`value`):
little for a page that has hardly had time to change, and little for one that will have changed again tomorrow. It is
the greedy index of crawling under a constant bandwidth (arXiv 2502.02430), averaged over the belief. Nothing is solved for
all pages together: each host has a price, a page is due when its value reaches the price (`wait`), and the price moves
until the visits planned are those that the host may get (`moved_price`).

Dates of sitemaps are evidence (`Dates`): if a change was told since the last visit, the page is the more probably stale
the more often such news were true; if the host tells most changes, silence means something too. They count for what they
tell beyond the rates of the pages, so dates that lie, or name today for every page, count for nothing.
"""

import math
import struct
from collections.abc import Sequence

from msgspec import Struct

DAY = 86_400.0
RATES = tuple(
    2.0**exponent / DAY for exponent in range(-12, 7)
)  # changes a second: one in 11 years … 64 a day
_BELIEF = struct.Struct(f"<{len(RATES)}e")
_SUMS = struct.Struct(f"<{len(RATES)}f")
_UNLIKELY = -60.0  # the logarithm of a likelihood that needs no closer look
_FORGETS = 1 / 64  # of what is known, with each visit: pages change their habits
_SHORTEST, _LONGEST = 600.0, 2 * 365 * DAY  # between two visits of a page
_NOBODY_STARVES = 20  # times the usual interval: even the least valuable page is looked at that often
_STEPS = 24  # of a bisection

Weights = Sequence[float]
"""How probable each rate is; they add up to 1."""

Belief = Sequence[float]
"""By rate, how likely what was seen is, as a logarithm; the largest is 0."""

UNKNOWN: Belief = (0.0,) * len(RATES)


def packed(belief: Belief) -> bytes:
    """A belief as it is kept: 38 bytes."""
    return _BELIEF.pack(*belief)


def unpacked(kept: bytes) -> Belief:
    """A belief as it was kept; nothing is known of a page without one."""
    return _BELIEF.unpack(kept) if len(kept) == _BELIEF.size else UNKNOWN


def learn(belief: Belief, seconds: float, *, changed: bool) -> Belief:
    """What is believed after a visit, so many seconds after the one before."""
    if seconds <= 0:
        return belief
    seen = [
        (1 - _FORGETS) * before + (math.log(-math.expm1(-rate * seconds)) if changed else -rate * seconds)
        for before, rate in zip(belief, RATES, strict=True)
    ]
    most = max(seen)
    return [max(one - most, _UNLIKELY) for one in seen]


# ------------------------------------------------------------------------------------------------ a host

# Before anything is known of a host: a change in a month, give or take a factor of twelve, with the weight of ten pages. What is
# published about change rates of pages spreads that much (Cho and Garcia-Molina 2003).
_MONTH, _SPREAD, _PAGES = 30 * DAY, 2.5, 10.0


def _start() -> list[float]:
    raw = [math.exp(-(math.log(rate * _MONTH) ** 2) / (2 * _SPREAD**2)) for rate in RATES]
    return [_PAGES * one / sum(raw) for one in raw]


START = tuple(_start())


def sums(kept: bytes) -> Weights:
    """What is usual for the pages of a host, as it was kept: sums over pages."""
    return _SUMS.unpack(kept) if len(kept) == _SUMS.size else START


def with_page(usual: Weights, weights: Weights, *, first: bool) -> bytes:
    """What is usual, after a visit to one more page, or to one that was counted before; as it is kept."""
    stays = 1.0 if first else 1 - 1 / max(sum(usual), 1.0)
    return _SUMS.pack(*(one * stays + more for one, more in zip(usual, weights, strict=True)))


def weights_of(belief: Belief, usual: Weights) -> Weights:
    """How probable each rate is, given what was seen and what is usual."""
    raw = [much * math.exp(likely) for much, likely in zip(usual, belief, strict=True)]
    total = sum(raw)
    return [one / total for one in raw] if total > 0 else [1 / len(raw)] * len(raw)


def moved_price(price: float, planned: float, allowed: float, pages: int, seconds: float) -> float:
    """The price after one more visit: higher if more visits a second are planned than allowed, lower if fewer.

    `seconds` have passed since it last moved: if visits are rare because it is too high, it must not wait for them.
    """
    if allowed <= 0 or not pages:
        return price
    off = max(-1.0, min(1.0, planned / allowed - 1))
    visits = min(max(1.0, allowed * seconds), max(pages / 10, 1.0))
    return price * math.exp(_GAIN * off * visits / (pages + _FEW))


def faded(visits: float, seconds: float, usual_wait: float) -> float:
    """What remains of visits counted so long ago; divided by the usual wait, they are a rate."""
    return visits * math.exp(-max(seconds, 0.0) / usual_wait)


_GAIN = 2.0  # of the price, in a round over all pages: it follows within a few rounds, and does not swing
_FEW = 3  # pages: of fewer than that nothing can be told


# ------------------------------------------------------------------------------------------------ dates


class Dates(Struct, frozen=True):
    """What the dates of a host are worth: of its changes, the part that is told; of what is told, the part that is true."""

    recall: float = 0.0
    precision: float = 0.0


NO_DATES = Dates()
_DOUBT = 3.0  # visits that dates have to outweigh before they count
_SURE = 0.95  # nothing is believed more than that
_COUNTED = 200.0  # visits: what was learnt before counts less

Told = tuple[float, float, float, float]
"""Of pages that were told to have changed: how many had not, and how many should not have, going by their own rates; of the
others: how many had changed, and how many should have."""


def dates_of(counted: Told) -> Dates:
    """Dates are worth what they tell beyond the rates of pages: if every page is told to have changed every day, nothing."""
    fresh, fresh_expected, changed, changed_expected = counted
    return Dates(
        recall=_told_beyond(changed, changed_expected), precision=_told_beyond(fresh, fresh_expected)
    )


def _told_beyond(seen: float, expected: float) -> float:
    return min(max(1 - (seen + _DOUBT) / (expected + _DOUBT), 0.0), _SURE)


def counted_dates(counted: Told, expected: float, *, told: bool, changed: bool) -> Told:
    """With one more visit. `expected`: how probable it was, by its rate, that the page had not changed."""
    fade = 1 - 1 / _COUNTED
    fresh, fresh_expected, moved, moved_expected = (one * fade for one in counted)
    if told:
        return fresh + (not changed), fresh_expected + expected, moved, moved_expected
    return fresh, fresh_expected, moved + changed, moved_expected + 1 - expected


# ------------------------------------------------------------------------------------------------ a page


def value(weights: Weights, seconds: float, dates: Dates = NO_DATES, *, told: bool = False) -> float:
    """What a visit adds so long after the last one, in seconds of a right copy, for a page of importance 1."""
    jump = _jump(dates, told=told)
    total = 0.0
    for much, rate in zip(weights, RATES, strict=True):
        x = rate * (1 - dates.recall) * seconds + jump
        gain = 1 - math.exp(-x) * (1 + x) if x > 1e-4 else x * x / 2
        total += much * gain / rate
    return total


def _jump(dates: Dates, *, told: bool) -> float:
    return -math.log(max(1 - dates.precision, 1e-3)) if told else 0.0


def wait(
    weights: Weights, price: float, usual_wait: float, dates: Dates = NO_DATES, *, told: bool = False
) -> float:
    """How long after a visit the value of the next one reaches the price (for a page of importance 1)."""
    low, high = math.log(_SHORTEST), math.log(max(min(_NOBODY_STARVES * usual_wait, _LONGEST), _SHORTEST))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if value(weights, math.exp(middle), dates, told=told) < price:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def fresh_at(weights: Weights, seconds: float, dates: Dates = NO_DATES, *, told: bool = False) -> float:
    """How probable it is that the page has not changed so long after a visit."""
    still = math.exp(-_jump(dates, told=told))
    quiet = 1 - dates.recall
    return still * sum(
        much * math.exp(-rate * quiet * seconds) for much, rate in zip(weights, RATES, strict=True)
    )


def fresh_until(weights: Weights, seconds: float) -> float:
    """The part of this time, after a visit, in which our copy is right."""
    if seconds <= 0:
        return 1.0
    return sum(
        much * -math.expm1(-rate * seconds) / (rate * seconds)
        for much, rate in zip(weights, RATES, strict=True)
    )


_GONE_DOUBLES = 8


def wait_for_gone(usual_wait: float, times: int) -> float:
    """How long a page that is gone is left alone: twice as long each time that it still is."""
    return min(usual_wait * 2.0 ** min(times, _GONE_DOUBLES), _LONGEST)


def changes_every(kept: bytes) -> float | None:
    """The time between two changes of a page, as far as its own visits tell; None if nothing is known."""
    if not kept:
        return None
    weights = weights_of(unpacked(kept), START)
    return 1 / sum(much * rate for much, rate in zip(weights, RATES, strict=True))

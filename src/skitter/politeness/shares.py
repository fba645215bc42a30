"""What a shard may go on spending of the budget of a group while the others cannot be asked. Pure.

Each shard that spends of a budget sets aside a share of what is left, and tells it with its account: the others count it as if it
were spent. So whoever is cut off spends its share, and all together never pass the limit, however many are cut off and for how long.
Shares are an equal part of half of what is left. They shrink with it, so that they do not keep others from the last page.
"""

from collections.abc import Sequence
from operator import lt
from typing import NamedTuple

from skitter.politeness.budgets import DAY, Limits, Used
from skitter.ports import Account


class Share(NamedTuple):
    """An amount of each thing that budgets count."""

    visits: int = 0  # each may be a page, and is a request
    bytes: int = 0
    seconds: float = 0.0


class Held:
    """The share of one shard: what is surely its own, and what it would like to have instead."""

    __slots__ = ("sure", "turn", "wanted")

    def __init__(self) -> None:
        self.sure = Share()
        self.wanted: Share | None = None  # told to the others, who may not have room for it
        self.turn = 0  # what is told differs from one to the next

    @property
    def told(self) -> Share:
        """What the others have to leave alone."""
        return self.sure if self.wanted is None else self.wanted

    def take(self, share: Share) -> bool:
        """Spend some of it. Returns whether a visit was surely in it."""
        had = self.sure.visits >= share.visits
        self.sure = _less(self.sure, share)
        self.wanted = None if self.wanted is None else _less(self.wanted, share)
        return had

    def give_back(self) -> None:
        """A visit that was in it is not made."""
        self.sure = self.sure._replace(visits=self.sure.visits + 1)
        if self.wanted is not None:
            self.wanted = self.wanted._replace(visits=self.wanted.visits + 1)

    def covers(self, limits: Limits, *, drawn: bool) -> bool:
        """Whether a visit may be made without asking anybody. `drawn`: it was surely in the share."""
        return (
            (drawn or not _counts_visits(limits))
            and (limits.bytes is None or self.sure.bytes > 0)
            and (limits.seconds is None or self.sure.seconds > 0)
        )

    def weigh(self, limits: Limits, accounts: Sequence[Account], turn: int, now: float) -> bool:
        """After everybody's accounts were read, the own one as it was told: settle what is wanted, and want what is fair.

        Returns whether the others should soon be told that they have more room than they know.
        """
        refused = self.wanted is not None and turn == self.turn and not fits(limits, accounts, now)
        if refused:
            self._change(self.sure, None)
        elif self.wanted is not None and turn == self.turn:
            self.sure, self.wanted = self.wanted, None
        fair = fair_share(limits, accounts, now)
        if any(mine > 2 * part for mine, part in zip(self.sure, fair, strict=True)):
            self._change(_smaller(self.sure, fair), None)
            return True
        if not refused and self.wanted is None and any(map(lt, self.sure, fair)):
            self._change(self.sure, _larger(self.sure, fair))
        return refused

    def _change(self, sure: Share, wanted: Share | None) -> None:
        self.sure, self.wanted = sure, wanted
        self.turn += 1


def fair_share(limits: Limits, accounts: Sequence[Account], now: float) -> Share:
    """What each of so many shards may set aside: together, half of what is left."""
    used, out = together(accounts, now), sum(each.out for each in accounts)
    parts = 2 * len(accounts)
    visits = [
        limit - amount - out
        for limit, amount in ((limits.pages, used.pages), (limits.requests_per_day, used.today))
        if limit is not None
    ]
    return Share(
        max(0, min(visits)) // parts if visits else 0,
        0 if limits.bytes is None else max(0, limits.bytes - used.bytes) // parts,
        0.0 if limits.seconds is None else max(0.0, limits.seconds - used.seconds) / parts,
    )


def fits(limits: Limits, accounts: Sequence[Account], now: float) -> bool:
    """Whether what is used, in flight and set aside together is within the limits."""
    used, out = together(accounts, now), sum(each.out + each.share for each in accounts)
    return (
        (limits.pages is None or used.pages + out <= limits.pages)
        and (limits.requests_per_day is None or used.today + out <= limits.requests_per_day)
        and (limits.bytes is None or used.bytes + _bytes_aside(accounts) <= limits.bytes)
        and (limits.seconds is None or used.seconds + _seconds_aside(accounts) <= limits.seconds)
    )


def is_set_aside(limits: Limits, used: Used, others: Sequence[Account]) -> bool:
    """Whether the rest of the bytes or seconds is the share of others."""
    return (limits.bytes is not None and used.bytes + _bytes_aside(others) >= limits.bytes) or (
        limits.seconds is not None and used.seconds + _seconds_aside(others) >= limits.seconds
    )


def together(accounts: Sequence[Account], now: float) -> Used:
    """What all have used."""
    today = int(now // DAY)
    return Used(
        sum(each.pages for each in accounts),
        sum(each.bytes for each in accounts),
        sum(each.seconds for each in accounts),
        sum(each.requests for each in accounts if each.day == today),
    )


def _counts_visits(limits: Limits) -> bool:
    return limits.pages is not None or limits.requests_per_day is not None


def _bytes_aside(accounts: Sequence[Account]) -> int:
    return sum(each.share_bytes for each in accounts)


def _seconds_aside(accounts: Sequence[Account]) -> float:
    return sum(each.share_seconds for each in accounts)


def _less(one: Share, by: Share) -> Share:
    return Share(
        max(0, one.visits - by.visits), max(0, one.bytes - by.bytes), max(0.0, one.seconds - by.seconds)
    )


def _smaller(one: Share, other: Share) -> Share:
    return Share(min(one.visits, other.visits), min(one.bytes, other.bytes), min(one.seconds, other.seconds))


def _larger(one: Share, other: Share) -> Share:
    return Share(max(one.visits, other.visits), max(one.bytes, other.bytes), max(one.seconds, other.seconds))

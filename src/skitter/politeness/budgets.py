"""What a budget allows: pages, bytes, seconds, requests a day. Pure.

What is used and what is in flight together never pass a limit of pages or requests; bytes and seconds are known when an
answer is there, so answers in flight come on top.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from skitter import reasons
from skitter.model import Reason, Spent
from skitter.settings import BudgetSettings, GroupSettings, Settings

DAY = 86400.0
_MOMENT = 1.0  # seconds until what is in flight may have ended
_TOGETHER = "@"  # in no name of a host; a "*" may be, if a page says so


class Limits(NamedTuple):
    """A budget; None where there is no limit."""

    pages: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    requests_per_day: int | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in self)


class Subject(Struct, frozen=True):
    """Whose budget it is, and how that is written."""

    reason: Callable[[str], Reason]
    words: str  # "from this host"
    setting: str  # "budget.host_"


class Used(NamedTuple):
    """What was used of a budget."""

    pages: int
    bytes: int
    seconds: float
    today: int  # requests


def host_limits(budget: BudgetSettings) -> Limits:
    """What one host may get."""
    return Limits(budget.host_pages, budget.host_bytes, budget.host_seconds, budget.host_requests_per_day)


def domain_limits(budget: BudgetSettings) -> Limits:
    """What the hosts of one domain may get."""
    return Limits(
        budget.domain_pages, budget.domain_bytes, budget.domain_seconds, budget.domain_requests_per_day
    )


def group_limits(group: GroupSettings) -> Limits:
    """What the hosts of a group may get."""
    return Limits(group.pages, group.bytes, group.seconds, group.requests_per_day)


def limited_groups(settings: Settings) -> dict[str, Limits]:
    """The groups that have a budget."""
    return {group.name: limits for group in settings.group if (limits := group_limits(group))}


def judged(subject: Subject, limits: Limits, used: Used, out: int, now: float, *, page: bool) -> Spent | None:
    """Why a visit may not be made, or not now. `out` others are in flight; `page`: it may become a page."""
    for name, limit, amount, unit in (
        ("pages", limits.pages if page else None, used.pages, "pages are stored from"),
        ("bytes", limits.bytes, used.bytes, "bytes have come from"),
        ("seconds", limits.seconds, used.seconds, "seconds were spent on"),
    ):
        if limit is not None and amount >= limit:
            detail = f"{amount:,.0f} {unit} {subject.words} ({subject.setting}{name} is {limit:,.0f})"
            return Spent(subject.reason(detail))
    if limits.requests_per_day is not None:
        if used.today >= limits.requests_per_day:
            detail = (
                f"{used.today:,} requests were sent to {subject.words} today, by UTC "
                f"({subject.setting}requests_per_day is {limits.requests_per_day:,})"
            )
            return Spent(Reason(reasons.BUDGET_DAY, detail), (now // DAY + 1) * DAY)
        if used.today + out >= limits.requests_per_day:
            return used_up(f"{subject.setting}requests_per_day", now)
    if page and limits.pages is not None and used.pages + out >= limits.pages:
        return used_up(f"{subject.setting}pages", now)
    return None


def one_more(day: int, requests: int, began: int) -> tuple[int, int]:
    """The day of the last request and the requests on it, after one that began on the day `began`.

    An answer to a request of the evening may come after those of the next morning, and does not undo their count.
    """
    if began == day - 1:
        return day, requests
    return began, requests + 1 if began == day else 1


def used_up(setting: str, now: float) -> Spent:
    """What is in flight may take all that is left: what comes of it is known in a moment."""
    detail = f"what is in flight may use up the rest of {setting}"
    return Spent(Reason(reasons.BUDGET_WAIT, detail), now + _MOMENT)


# ------------------------------------------------------------------------------------------------ together


def tally_name(domain: str) -> str:
    """The name of the row, among the hosts of a shard, that counts for all hosts of a domain together."""
    return _TOGETHER + domain


def group_tally(group: str) -> str:
    """The same for the hosts of a group that are in this shard."""
    return f"{_TOGETHER}[{group}]"


def is_group_tally(name: str) -> bool:
    """Whether a row among the hosts counts for a group: every shard may have one."""
    return name.startswith(f"{_TOGETHER}[")


def counts_for(name: str) -> str:
    """The domain, or the group, that such a row counts for; a host is returned as it is."""
    return name.removeprefix(_TOGETHER)


def is_tally(name: str) -> bool:
    """Whether a row among the hosts is no host, but counts for several together."""
    return name.startswith(_TOGETHER)

"""Order of visits, retries, and when to give up. Pure: no clock and no randomness in here.

A scoring strategy turns a link into a score. `verdict` turns an outcome into what it means for the URL (done,
due again, given up) and for its host (free from when, set aside). Jitter is an argument, a number between -1
and 1.
"""

import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import politeness, reasons, urls
from skitter.model import (
    TRUST,
    Cash,
    Exchange,
    Failed,
    Fault,
    Fetched,
    Heard,
    Hints,
    NotModified,
    NotNow,
    Outcome,
    Purpose,
    Reason,
    Redirected,
    Refused,
    State,
    Verdict,
    Visit,
)
from skitter.plugins import is_own
from skitter.politeness import listening
from skitter.settings import ScheduleSettings, Settings, SettingsError

if TYPE_CHECKING:
    from skitter.schedule.orders import Order

# ------------------------------------------------------------------------------------------------ order

Strategy = Callable[[str, int, float, int], float]
"""(URL, depth, score of its parent, in-links counted so far) -> score: within its level, the higher the sooner."""


def bfs(_url: str, depth: int, _parent_score: float, _in_links: int) -> float:
    """Breadth first: fewer links from a seed, sooner."""
    return -float(depth)


def dfs(_url: str, depth: int, _parent_score: float, _in_links: int) -> float:
    """Depth first: more links from a seed, sooner."""
    return float(depth)


def depth(_url: str, depth: int, parent_score: float, in_links: int) -> float:
    """First pages near the seeds, below well-scored pages, often linked, and fresh (1 at discovery)."""
    freshness = 1.0
    return 100 * 0.8**depth + parent_score / 2 + 10 * math.log1p(in_links) + 20 * freshness


def number(pattern: str) -> Strategy:
    """Pages with larger numbers in their URL first; the pattern's first group captures the number."""
    search = re.compile(pattern).search

    def by_number(url: str, _depth: int, _parent_score: float, _in_links: int) -> float:
        match = search(url)
        digits = match[1] if match else ""
        # Digit strings longer than a float can distinguish all count as large.
        return float(digits[:300]) if digits.isascii() and digits.isdigit() else -1.0

    return by_number


STRATEGIES = ("bfs", "dfs", "depth", "number", "importance", "features", "opic", "larger-sites")
FLOWS = frozenset({"opic"})  # scores come from the pages that were fetched (see `frontier.flow`)
ORDERS = frozenset({"importance", "features"})  # they give levels too (see `orders`)
COUNTS_IN_LINKS = frozenset({"depth"})
BY_DEPTH_ALONE = frozenset({"bfs", "dfs", "larger-sites"})  # all links of a page have one score


def unscored(_url: str, _depth: int, _parent_score: float, _in_links: int) -> float:
    """Where something else gives the scores: a user's own scorer, an order, or pages that pass on what they have."""
    return 0.0


def strategy(settings: ScheduleSettings) -> Strategy:
    """The strategy named in the settings. One of the user's own (`module:function`) is asked by `links.scoring`."""
    if is_own(settings.strategy) or settings.strategy in ORDERS | FLOWS:
        return unscored
    if settings.strategy == "number":
        return number(settings.number_pattern)
    return {"bfs": bfs, "dfs": dfs, "depth": depth, "larger-sites": bfs}[settings.strategy]


def check(settings: ScheduleSettings) -> None:
    """Refuse a file of ranks that cannot be read, before anything is started."""
    try:
        if settings.rank_file:
            Path(settings.rank_file).open("rb").close()
    except OSError as problem:
        raise SettingsError(
            f"schedule.rank_file: {settings.rank_file} cannot be read: {problem.strerror or problem}"
        ) from None


def order(settings: ScheduleSettings, now: Callable[[], float] = time.time) -> "Order | None":
    """The strategy named in the settings, if it gives levels too; None for all others. Reads the file of ranks."""
    if settings.strategy not in ORDERS:
        return None
    from skitter.schedule.orders import order_of  # noqa: PLC0415  most crawls need none of it
    from skitter.schedule.ranks import read_ranks  # noqa: PLC0415

    return order_of(settings, read_ranks(settings.rank_file), now)


_USUAL_PRIORITY = 0.5  # what a sitemap means that gives none (sitemaps.org)


def by_priority(hints: Hints | None) -> float:
    """What the priority that a sitemap or seed file gives adds to a score."""
    return 0.0 if hints is None or hints.priority is None else hints.priority - _USUAL_PRIORITY


def terms(
    settings: ScheduleSettings,
    url: str,
    depth: int,
    score: float,
    hints: Hints | None,
    cash: Cash | None = None,
) -> list[tuple[float, str]]:
    """What a score is made of: numbers that add up to it, each with what it stands for."""
    if settings.strategy in FLOWS:
        return _of_cash(score, cash or Cash())
    if is_own(settings.strategy):
        return [(score, f"given by {settings.strategy}")]
    found: list[tuple[float, str]] = []
    if priority := by_priority(hints):
        found.append((priority, "its priority where it was found, beside the usual 0.5"))
    if (ordered := order(settings)) is not None:
        found += ordered.terms(url, urls.host(url), depth, score - priority)
    elif settings.strategy == "number":
        found.append((number(settings.number_pattern)(url, depth, 0.0, 0), "the number in its URL"))
    elif settings.strategy == "depth":
        found += [(100 * 0.8**depth, f"its depth, {depth}"), (20.0, "it was new")]
        found.append((score - sum(each for each, _ in found), "the score of its parent, and links to it"))
    else:
        found.append(
            (strategy(settings)(url, depth, 0.0, 0) + 0.0, f"its depth, {depth} ({settings.strategy})")
        )
    rest = score - sum(each for each, _ in found)
    return found if abs(rest) < 1e-9 else [*found, (rest, "other settings, under which it was found")]


def _of_cash(score: float, cash: Cash) -> list[tuple[float, str]]:
    given = dict(cash.given or {})
    found = [
        (given.pop(TRUST, 0.0), "given to it as a seed, or because a sitemap lists it"),
        (sum(given.values()), "passed on by pages of other shards that link to it"),
    ]
    found.append((cash.received - sum(each for each, _ in found), "passed on by pages that link to it"))
    rest = score - cash.received
    if abs(rest) >= 1e-9:
        found.append(
            (rest, "came after it was fetched" if rest < 0 else "other settings, under which it was found")
        )
    return [(points, what) for points, what in found if abs(points) >= 1e-12] or [
        (score, "nobody gave it anything yet")
    ]


# ------------------------------------------------------------------------------------------------ again

_LONGEST_WAIT = 1e9  # seconds, three decades: a finite time for "never"
_LONGEST_PRICE = 100  # characters
# Failures worth retrying. Oversized bodies, bombs and headers stay oversized; a parser failure is ours and
# repeats.
TRANSIENT = frozenset(
    {
        Fault.DNS,
        Fault.CONNECT,
        Fault.TLS,
        Fault.TIMEOUT,
        Fault.RESET,
        Fault.REUSE,
        Fault.PROTOCOL,
        Fault.BUSY,
        Fault.PROXY,
    }
)
# … and those of the host rather than of one page.
_FAILING = frozenset({Fault.DNS, Fault.CONNECT, Fault.TLS, Fault.TIMEOUT, Fault.RESET, Fault.PROTOCOL})


def back_off(attempt: int, settings: ScheduleSettings, jitter: float) -> float:
    """Seconds to wait after the given attempt failed: exponential, capped, with jitter."""
    wait = min(settings.retry_base * 2.0 ** min(attempt - 1, 60), settings.retry_max)
    return wait * (1 + settings.retry_jitter * jitter)


def verdict(
    visit: Visit, outcome: Outcome, owed: float, settings: Settings, now: float, jitter: float
) -> Verdict:
    """What the outcome of a page visit means for its URL and its host. `owed` is the host's delay in seconds."""
    match outcome:
        case Fetched(exchange, status, headers) if unwilling(status):
            failed = _unwilling(visit, exchange, status, headers, owed, settings, now, jitter)
            return replace(failed, heard=heard(visit, outcome, settings, now, jitter))
        case Fetched(exchange) | NotModified(exchange) | Redirected(exchange):
            asked = isinstance(outcome, Fetched) and outcome.status == 402
            return Verdict(
                state=State.CRAWLED,
                reason=_price(outcome.headers) if asked else None,
                host_free=host_free(visit, exchange, owed, settings),
                host_delay=owed,
                heard=heard(visit, outcome, settings, now, jitter),
            )
        case Refused(reason):
            return Verdict(state=State.REFUSED, reason=reason, attempted=False)
        case NotNow(reason, until, whole_host):
            # Nothing was sent, so the host's clock stays as it is.
            held = until if whole_host else None
            return Verdict(state=State.QUEUED, reason=reason, due=until, attempted=False, host_held=held)
        case Failed(Fault.REUSE, detail, exchange):
            # The server said nothing about the page, and the next request gets a new connection: retry as
            # soon as the host is free, without counting an attempt.
            return Verdict(
                state=State.QUEUED,
                reason=Reason(Fault.REUSE.value, detail),
                due=now,
                attempted=False,
                host_free=host_free(visit, exchange, owed, settings),
                host_delay=owed,
            )
        case Failed(fault, detail, exchange):
            free = host_free(visit, exchange, owed, settings)
            again = fault in TRANSIENT
            failed = _retry_or_fail(
                visit, Reason(fault.value, detail), again, free, owed, settings, now, jitter
            )
            return replace(failed, heard=heard(visit, outcome, settings, now, jitter))


def _price(headers: Sequence[tuple[str, str]]) -> Reason:
    """Pay per crawl: the price is recorded. It is never paid, and the page is not asked for again."""
    price = next((value for name, value in headers if name == "crawler-price"), "").strip()
    what = f"{price[:_LONGEST_PRICE]} for this page (crawler-price)" if price else "payment, without a price"
    return Reason(reasons.PAYMENT, f"the server asks for {what}; nothing is paid")


def heard(visit: Visit, outcome: Outcome, settings: Settings, now: float, jitter: float) -> Heard | None:
    """What the outcome tells about the health of the host; None if nothing, or if nobody listens."""
    if not settings.politeness.adaptive:
        return None
    exchange: Exchange | None
    sign = ""
    match outcome:
        case Fetched(exchange, status):
            if status >= 400:
                sign = str(status) if unwilling(status) else listening.NO_PAGE
        case Redirected(exchange) | NotModified(exchange):
            pass
        case Failed(Fault.PARSER, _, exchange):  # the answer was good
            pass
        case Failed(fault, _, exchange) if fault in _FAILING:
            sign = fault.value
        case Failed(Fault.SIZE | Fault.BOMB | Fault.HEADERS, _, exchange):
            sign = listening.NO_PAGE
        case _:  # nothing was sent, or the trouble is ours, or a kept connection was old
            return None
    robots = visit.link.purpose is Purpose.ROBOTS
    started, ended = (now, now) if exchange is None else (exchange.started, exchange.ended)
    return Heard(started, ended, sign, (1 + jitter) / 2, visit.attempt > 1 and not robots, not robots)


def unwilling(status: int) -> bool:
    """Whether a server says that it cannot or will not answer now; only then does its Retry-After count."""
    return status == 429 or status >= 500


def host_free(
    visit: Visit, exchange: Exchange | None, owed: float, settings: Settings, asked: float | None = None
) -> float | None:
    """When the host may be visited again: its delay after the end of the response, or later if it asked for that.

    None when nothing was sent.
    """
    if exchange is None:
        return None
    free = politeness.free_after(
        visit.host_free, exchange.started, exchange.ended, owed, settings.politeness.burst
    )
    return free if asked is None else max(free, exchange.ended + min(asked, _LONGEST_WAIT))


def _retry_or_fail(
    visit: Visit,
    reason: Reason,
    again: bool,  # noqa: FBT001  a private step of verdict
    free: float | None,
    owed: float,
    settings: Settings,
    now: float,
    jitter: float,
) -> Verdict:
    if not again or visit.attempt > settings.schedule.retries:
        return Verdict(state=State.FAILED, reason=reason, host_free=free, host_delay=owed)
    due = now + back_off(visit.attempt, settings.schedule, jitter)
    return Verdict(state=State.QUEUED, reason=reason, due=due, host_free=free, host_delay=owed)


def _unwilling(
    visit: Visit,
    exchange: Exchange,
    status: int,
    headers: Sequence[tuple[str, str]],
    owed: float,
    settings: Settings,
    now: float,
    jitter: float,
) -> Verdict:
    """429 and 5xx: the URL is retried, and Retry-After applies to the whole host."""
    reason = Reason(reasons.http(status), f"the server answered {status}")
    asked = politeness.retry_after(headers, now)
    free = host_free(visit, exchange, owed, settings, asked)
    if aside := politeness.too_late(asked, settings.politeness):
        return Verdict(state=State.FAILED, reason=reason, host_free=free, host_delay=owed, host_aside=aside)
    if asked is None and status == 429 and free is not None:
        free = max(free, exchange.ended + back_off(visit.attempt, settings.schedule, jitter))
    return _retry_or_fail(visit, reason, True, free, owed, settings, now, jitter)  # noqa: FBT003

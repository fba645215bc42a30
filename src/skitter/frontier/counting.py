"""The counts of a crawl: what every change of state, every answer and every page adds or subtracts."""

from typing import Protocol, TypeVar

from msgspec.structs import replace

from skitter import reasons
from skitter.model import Counts, Exchange, Page, Reason, Settlement, State
from skitter.politeness.budgets import is_tally as is_tally  # noqa: PLC0414  for stores, which see the frontier

K = TypeVar("K")
_QUEUED, _CRAWLED = State.QUEUED, State.CRAWLED  # looked up once, not with every visit
_FAILED, _REFUSED = State.FAILED, State.REFUSED


class Tally(Protocol):
    """What is counted per host."""

    pages: int
    requests: int
    errors: int
    bytes: int


def count_state(counts: Counts, state: State, reason: Reason | None, by: int) -> None:
    """`by` URLs enter a state, or leave it."""
    if state is _QUEUED:
        counts.queued += by
    elif state is _CRAWLED:
        counts.crawled += by
    elif state is _FAILED:
        counts.failed += by
        _bump(counts.failures, reason.code if reason else reasons.UNKNOWN, by)
    elif state is _REFUSED:
        _bump(counts.refused, reason.code if reason else reasons.UNKNOWN, by)


def count_waiting(counts: Counts, aside: Reason | None, by: int) -> None:
    """`by` URLs start or stop waiting on a host. On a host that is set aside they count as refused."""
    count_state(counts, _QUEUED if aside is None else _REFUSED, aside, by)


def count_sent(counts: Counts, host: Tally, exchange: Exchange) -> None:
    """A request and what came of it."""
    received = len(exchange.head) + len(exchange.body) + exchange.beyond
    counts.requests += 1
    counts.bytes += received
    host.requests += 1
    host.bytes += received


def count_answer(counts: Counts, host: Tally, settlement: Settlement) -> None:
    """What a settled visit cost, whatever its result."""
    if settlement.exchange is not None:
        count_sent(counts, host, settlement.exchange)
    verdict = settlement.verdict
    failed = verdict.state is _FAILED or (verdict.state is _QUEUED and verdict.due is not None)
    unheard = (
        settlement.robots is not None and settlement.robots.tries > 0
    )  # its robots.txt could not be fetched
    if (failed and verdict.attempted) or unheard:  # a postponed visit is not an error of the host
        host.errors += 1
    if settlement.status and settlement.visit.link.purpose.handling.counts:
        _bump(counts.statuses, settlement.status, 1)
        counts.not_found += settlement.status in (404, 410)


def count_page(counts: Counts, host: Tally, page: Page, by: int) -> None:
    """A stored page is added or removed."""
    if not page.purpose.handling.counts:
        _bump(counts.others, page.purpose.value, by)
        return
    if 200 <= page.status < 300:
        host.pages += by
        counts.pages += by
        counts.processed += 0 if page.ignored else by
        _bump(counts.depths, page.depth, by)
    counts.duplicates += by if page.duplicate_of else 0


def count_depth(counts: Counts, page: Page, depth: int) -> None:
    """A stored page turns out to be at this depth."""
    if 200 <= page.status < 300 and page.purpose.handling.counts:
        _bump(counts.depths, page.depth, -1)
        _bump(counts.depths, depth, 1)


def _bump(counts: dict[K, int], name: K, by: int) -> None:
    value = counts.get(name, 0) + by
    if value:
        counts[name] = value
    else:
        counts.pop(name, None)


def copied(counts: Counts) -> Counts:
    """A copy of the counts for the caller."""
    return replace(
        counts,
        refused=dict(counts.refused),
        failures=dict(counts.failures),
        statuses=dict(counts.statuses),
        depths=dict(counts.depths),
        levels=dict(counts.levels),
        others=dict(counts.others),
    )

"""The counts of a crawl: what every change of state, every answer and every page adds or subtracts."""

from typing import Protocol, TypeVar

from msgspec.structs import replace

from skitter import reasons
from skitter.model import Counts, Page, Reason, Settlement, State, handling

K = TypeVar("K")


class Tally(Protocol):
    """What is counted per host."""

    pages: int
    requests: int
    errors: int
    bytes: int


def count_state(counts: Counts, state: State, reason: Reason | None, by: int) -> None:
    """`by` URLs enter a state, or leave it."""
    if state is State.QUEUED:
        counts.queued += by
    elif state is State.CRAWLED:
        counts.crawled += by
    elif state is State.FAILED:
        counts.failed += by
        _bump(counts.failures, reason.code if reason else reasons.UNKNOWN, by)
    elif state is State.REFUSED:
        _bump(counts.refused, reason.code if reason else reasons.UNKNOWN, by)


def count_waiting(counts: Counts, aside: Reason | None, by: int) -> None:
    """`by` URLs start or stop waiting on a host. On a host that is set aside they count as refused."""
    count_state(counts, State.QUEUED if aside is None else State.REFUSED, aside, by)


def count_answer(counts: Counts, host: Tally, settlement: Settlement) -> None:
    """What a settled visit cost, whatever its result."""
    exchange = settlement.exchange
    if exchange is not None:
        received = len(exchange.head) + len(exchange.body)
        counts.requests += 1
        counts.bytes += received
        host.requests += 1
        host.bytes += received
    verdict = settlement.verdict
    failed = verdict.state is State.FAILED or (verdict.state is State.QUEUED and verdict.due is not None)
    unheard = (
        settlement.robots is not None and settlement.robots.tries > 0
    )  # its robots.txt could not be fetched
    if (failed and verdict.attempted) or unheard:  # a postponed visit is not an error of the host
        host.errors += 1
    if settlement.status and handling(settlement.visit.link.purpose).counts:
        _bump(counts.statuses, settlement.status, 1)
        counts.not_found += settlement.status in (404, 410)


def count_page(counts: Counts, host: Tally, page: Page, by: int) -> None:
    """A stored page is added or removed."""
    if not handling(page.purpose).counts:
        _bump(counts.others, page.purpose.value, by)
        return
    if 200 <= page.status < 300:
        host.pages += by
        counts.pages += by
        counts.processed += 0 if page.ignored else by
        _bump(counts.depths, page.depth, by)
    counts.duplicates += by if page.duplicate_of else 0


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
        others=dict(counts.others),
    )

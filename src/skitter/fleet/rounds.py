"""What the parent decides from the reports of its workers. Pure: reports in, decision out.

A round is one question to every worker and all the answers. Answers are not given at the same moment, and a link may be
on its way between two of them; so one round in which everybody is idle proves nothing, but two in a row, between which
no counter has changed and no link was under way, do.
"""

from collections.abc import Mapping

from msgspec import Struct

from skitter.fleet.messages import Account
from skitter.model import Counts
from skitter.reporting.report import total
from skitter.settings import TIME_FOR_THE_LAST, CrawlSettings


class Round(Struct, frozen=True):
    """The answers of all workers to one question, and the links that were carried until then."""

    accounts: Mapping[int, Account]
    sent: int
    accepted: int

    @property
    def counts(self) -> Counts:
        """The whole crawl in numbers."""
        return total([account.counts for account in self.accounts.values()])

    def quiet(self) -> bool:
        """Whether nobody has anything to do, and nothing is under way."""
        return self.sent == self.accepted and all(
            account.idle and not account.in_flight and not account.counts.outbox
            for account in self.accounts.values()
        )

    def hopeless(self) -> bool:
        """Whether some workers have nothing but hosts that failed, the others nothing at all, and nobody had an answer."""
        return (
            self.sent == self.accepted
            and not self.counts.bytes
            and any(account.hopeless for account in self.accounts.values())
            and all(
                (account.hopeless or account.idle) and not account.in_flight and not account.counts.outbox
                for account in self.accounts.values()
            )
        )

    def same_as(self, other: "Round") -> bool:
        """Whether no counter has changed."""
        return (self.sent, self.accepted) == (other.sent, other.accepted) and {
            worker: _counters(account.counts) for worker, account in self.accounts.items()
        } == {worker: _counters(account.counts) for worker, account in other.accounts.items()}


def _counters(counts: Counts) -> tuple[int, ...]:
    return counts.seen, counts.added, counts.queued, counts.requests, counts.crawled, counts.failed


def at_limit(limits: CrawlSettings, counts: Counts, elapsed: float) -> bool:
    """Whether nothing new may be begun."""
    return (
        (limits.max_pages is not None and counts.pages >= limits.max_pages)
        or (limits.max_bytes is not None and counts.bytes >= limits.max_bytes)
        or (limits.max_time is not None and elapsed >= limits.max_time)
    )


def overdue(limits: CrawlSettings, elapsed: float) -> bool:
    """Whether requests that were in flight when the time was over have had the time that is left to them."""
    return limits.max_time is not None and elapsed >= limits.max_time + TIME_FOR_THE_LAST


def finished(before: Round | None, now: Round) -> bool:
    """Whether the crawl is over."""
    return before is not None and before.quiet() and now.quiet() and now.same_as(before)


def hopeless(before: Round | None, now: Round) -> bool:
    """Whether nothing is left but hosts that have failed, and no host has ever answered anybody (see `trouble`)."""
    return before is not None and now.hopeless() and before.hopeless() and now.same_as(before)


def shares(limit: int, accounts: Mapping[int, Account]) -> dict[int, int]:
    """How many pages each worker may store in all, so that together they never store more than the limit.

    What a worker was allowed stays its own until it says otherwise: a share is raised by telling it, and lowered by asking.
    The account that answers names what is left, which is never less than what it has stored or in flight. So the sum of
    the shares is at most the limit at every moment, and whoever has work gets what others do not need.
    """
    held = {worker: account.max_pages or 0 for worker, account in accounts.items()}
    free = limit - sum(held.values())
    wanting = [worker for worker, account in accounts.items() if account.wants_pages]
    if not wanting:
        return held
    for worker, account in accounts.items():
        if not account.wants_pages:
            held[worker] = account.counts.pages + account.in_flight
    each, rest = divmod(max(0, free), len(wanting))
    for place, worker in enumerate(wanting):
        held[worker] += each + (place < rest)
    return held

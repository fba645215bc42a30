"""Is the crawl over, and why? Decided from what its parts report. Pure.

A part is a shard, or a worker with all of its shards. In one process, all parts are seen at one moment. The workers
of a fleet and the shards of a cluster answer one after the other, and a link may be in transit between two of them.
So one snapshot in which all are idle proves nothing; two in a row do, if no counter changed in between and no link
was in transit.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from msgspec import Struct

from skitter.model import Counts, Stop


class SeedsAre(Enum):
    """How far the seeds of this run are stored."""

    COMING = auto()  # more may be read
    BEING_STORED = auto()  # all are read; soon it is known that the last are stored
    STORED = auto()


class Activity(Struct, frozen=True):
    """What a part of the crawl reports."""

    counts: Counts
    idle: bool  # nothing waits, now or later
    in_flight: int = 0  # visits leased and not settled
    hopeless: bool = False  # only failed hosts are waiting, and none has ever answered

    @property
    def done(self) -> bool:
        """Whether it has nothing to do, and no links that others do not have yet."""
        return self.idle and not self.in_flight and not self.counts.outbox


class Snapshot(Struct, frozen=True):
    """The whole crawl: the reports of its parts, and the links between them."""

    parts: Mapping[int, Activity]
    under_way: int = 0  # links sent by one part that the other does not have yet
    delivered: int = 0  # links that have reached the other part so far
    seeds: SeedsAre = SeedsAre.STORED
    one_moment: bool = False  # all parts were seen at once, so no second snapshot is needed

    @property
    def quiet(self) -> bool:
        """Whether no part has work and nothing is in transit."""
        return not self.under_way and all(part.done for part in self.parts.values())

    @property
    def only_links_left(self) -> bool:
        """Whether only links in transit between parts may still bring work."""
        return not self.quiet and all(part.idle and not part.in_flight for part in self.parts.values())

    @property
    def hopeless(self) -> bool:
        """Whether only failed hosts are waiting anywhere, and no host has ever answered."""
        parts = self.parts.values()
        return (
            not self.under_way
            and not any(part.counts.bytes for part in parts)
            and any(part.hopeless for part in parts)
            and all(
                (part.hopeless or part.idle) and not part.in_flight and not part.counts.outbox
                for part in parts
            )
        )

    def same_as(self, other: "Snapshot") -> bool:
        """Whether nothing happened in between."""
        return (self.under_way, self.delivered) == (other.under_way, other.delivered) and {
            number: _counters(part.counts) for number, part in self.parts.items()
        } == {number: _counters(part.counts) for number, part in other.parts.items()}


def _counters(counts: Counts) -> tuple[int, ...]:
    """A number that changes with everything a shard does."""
    return (
        counts.seen,
        counts.added,
        counts.queued,
        counts.leased,
        counts.crawled,
        counts.failed,
        counts.pages,
        counts.requests,
        counts.bytes,
    )


def why_over(before: Snapshot | None, now: Snapshot, *, at_limit: bool = False) -> Stop | None:
    """Why the crawl ends now; None: it continues. `before` is the previous snapshot.

    At a limit, the crawl is done rather than stopped if the limit keeps nothing back. That is not known before the
    last seeds are stored, so it waits for them.
    """
    keeps_something_back = now.seeds is SeedsAre.COMING or not now.quiet
    if at_limit and now.seeds is not SeedsAre.BEING_STORED and keeps_something_back:
        return Stop.LIMIT
    if now.one_moment:
        before = now
    # Seeds stored after a part has answered show only in its next answer.
    if before is None or before.seeds is not SeedsAre.STORED or not now.same_as(before):
        return None
    if before.quiet and now.quiet:
        return Stop.DONE
    if before.hopeless and now.hopeless:
        return Stop.UNREACHABLE
    return None


def why_it_ended(asked: Stop | None, *, work_left: bool) -> Stop:
    """The reason to report: a limit reached with the very last page has kept nothing back."""
    return Stop.DONE if asked is None or (asked is Stop.LIMIT and not work_left) else asked


def hopeless(*, received: int, in_flight: int, waiting: Collection[str], failed: Collection[str]) -> bool:
    """Whether a part waits only for hosts that failed in this run, and no host has ever answered it.

    `received` counts bytes of all runs; `waiting` are the origins of waiting URLs, `failed` those that failed in this
    run. One answer from any host is enough to wait for all the others with the usual patience.
    """
    return not received and not in_flight and bool(failed) and all(origin in failed for origin in waiting)

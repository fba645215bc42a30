"""Is the crawl over, and why? Decided from what its parts say of themselves. Pure.

A part is a shard, or a worker with all of its shards. In one process all parts are seen in one moment. The workers of a fleet
and the shards of a cluster answer one after the other, and a link may be on its way between two of them; so one snapshot in
which everybody is idle proves nothing, but two in a row do, if no counter has changed in between and no link was under way.
"""

from collections.abc import Collection, Mapping
from enum import Enum, auto

from msgspec import Struct

from skitter.model import Counts, Stop


class SeedsAre(Enum):
    """How far the seeds of this run are taken in."""

    COMING = auto()  # more may be read
    BEING_STORED = auto()  # all are read; in a moment it is known that the last are stored
    STORED = auto()


class Activity(Struct, frozen=True):
    """What a part of the crawl says of itself."""

    counts: Counts
    idle: bool  # nothing waits, neither for now nor for later
    in_flight: int = 0  # visits that are leased and not settled
    hopeless: bool = False  # nothing waits but hosts that have failed, and none has ever answered

    @property
    def done(self) -> bool:
        """Whether there is nothing to do, and no link for others that they do not have yet."""
        return self.idle and not self.in_flight and not self.counts.outbox


class Snapshot(Struct, frozen=True):
    """The whole crawl: what its parts say, and the links between them."""

    parts: Mapping[int, Activity]
    under_way: int = 0  # links that one part has sent and the other does not have yet
    delivered: int = 0  # links that have reached the other part so far
    seeds: SeedsAre = SeedsAre.STORED
    one_moment: bool = False  # all parts were seen at once, so that no second snapshot is needed

    @property
    def quiet(self) -> bool:
        """Whether nobody has anything to do and nothing is under way."""
        return not self.under_way and all(part.done for part in self.parts.values())

    @property
    def only_links_left(self) -> bool:
        """Whether links on their way between parts are all that may still bring work."""
        return not self.quiet and all(part.idle and not part.in_flight for part in self.parts.values())

    @property
    def hopeless(self) -> bool:
        """Whether some parts wait for nothing but hosts that failed, the others for nothing, and no host ever answered."""
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
        """Whether nothing has happened in between."""
        return (self.under_way, self.delivered) == (other.under_way, other.delivered) and {
            number: _counters(part.counts) for number, part in self.parts.items()
        } == {number: _counters(part.counts) for number, part in other.parts.items()}


def _counters(counts: Counts) -> tuple[int, ...]:
    """What moves with everything that a shard does."""
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
    """Why the crawl ends now; None: it goes on. `before` is the snapshot before this one.

    At a limit, the crawl is done rather than stopped if the limit keeps nothing back. That is not known before the seeds are
    stored, so the last of them are waited for.
    """
    keeps_something_back = now.seeds is SeedsAre.COMING or not now.quiet
    if at_limit and now.seeds is not SeedsAre.BEING_STORED and keeps_something_back:
        return Stop.LIMIT
    if now.one_moment:
        before = now
    # Seeds that were stored after a part had answered show in its next answer only.
    if before is None or before.seeds is not SeedsAre.STORED or not now.same_as(before):
        return None
    if before.quiet and now.quiet:
        return Stop.DONE
    if before.hopeless and now.hopeless:
        return Stop.UNREACHABLE
    return None


def why_it_ended(asked: Stop | None, *, work_left: bool) -> Stop:
    """The reason to report: a limit that was reached with the very last page has kept nothing back."""
    return Stop.DONE if asked is None or (asked is Stop.LIMIT and not work_left) else asked


def hopeless(*, received: int, in_flight: int, waiting: Collection[str], failed: Collection[str]) -> bool:
    """Whether a part waits for nothing but hosts that have failed in this run, and no host has ever answered it.

    `received` counts bytes of all runs; `waiting` are the origins of URLs that wait, `failed` those that failed in this run.
    One answer from any host is enough to wait for all the others with the usual patience.
    """
    return not received and not in_flight and bool(failed) and all(origin in failed for origin in waiting)

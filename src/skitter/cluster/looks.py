"""When is a cluster's crawl done? Nobody sees all of it in one moment, so it is looked at twice."""

from collections.abc import Mapping

from msgspec import Struct

from skitter.model import Counts


class Look(Struct, frozen=True):
    """All shards and all mail, one after the other."""

    counts: Mapping[int, Counts]  # by shard
    unread: int  # links in the mail that no shard has taken in

    def quiet(self) -> bool:
        """Nothing waits, nothing is under way."""
        return not self.unread and not any(
            counts.queued or counts.leased or counts.outbox for counts in self.counts.values()
        )


def finished(before: Look | None, now: Look) -> bool:
    """Quiet twice, and nothing happened in between: what a shard sent after it was looked at would show in the counts."""
    return before is not None and before.quiet() and now.quiet() and before.counts == now.counts

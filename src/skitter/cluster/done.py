"""When is a cluster's crawl over? Nobody sees all of it in one moment, so it is looked at twice."""

from collections.abc import Mapping

from msgspec import Struct

from skitter.model import Counts


class Look(Struct, frozen=True):
    """All shards and all mail, one after the other."""

    counts: Mapping[int, Counts]  # by shard
    unread: int  # links in the mail that no shard has taken in
    limit: str = ""  # which one is reached
    workers: int = 0  # that give signs of life

    def quiet(self) -> bool:
        """Nothing waits, nothing is under way."""
        return not self.unread and not self._work()

    def only_mail(self) -> bool:
        """What is on its way between shards is all that may be left to do."""
        return bool(self.unread) and not self._work()

    def _work(self) -> bool:
        return any(counts.queued or counts.leased or counts.outbox for counts in self.counts.values())


def finished(before: Look | None, now: Look) -> bool:
    """Quiet twice, and nothing happened in between: what a shard sent after it was looked at would show in the counts."""
    return before is not None and before.quiet() and now.quiet() and before.counts == now.counts


def stopped(now: Look) -> bool:
    """A limit is reached, and everybody has finished what was in flight, or nobody is left to do so."""
    return bool(now.limit) and not now.workers

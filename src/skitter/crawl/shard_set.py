"""Some shards of one process, in numbers."""

from skitter.crawl.shard import Shard
from skitter.model import Counts
from skitter.reporting.report import total
from skitter.reporting.waiting import Waiting, together


class ShardSet:
    """Shards by their number, counted together."""

    def __init__(self) -> None:
        self.shards: dict[int, Shard] = {}

    @property
    def counts(self) -> Counts:
        """The counts of all shards together."""
        return total([shard.counts for shard in self.shards.values()])

    @property
    def in_flight(self) -> int:
        """Visits that are leased and not settled."""
        return sum(shard.in_flight for shard in self.shards.values())

    @property
    def failed(self) -> dict[str, str]:
        """Origins whose robots.txt could not be had since their shards were opened, and why."""
        return {origin: why for shard in self.shards.values() for origin, why in shard.failed.items()}

    def waiting(self) -> Waiting:
        """What is waited for at the moment."""
        return together([shard.waiting() for shard in self.shards.values()])

"""Grounds for the frontiers we ship: stores that can be opened, killed and opened again."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from skitter.backends.rocksdb import rocks_frontier
from skitter.frontier import ShardFrontier
from skitter.frontier.crashes import InHand
from skitter.model import Link
from skitter.ports import Frontier
from skitter.settings import Seconds, Settings
from skitter.testing.reference import MemoryRows, MemoryStore, memory_frontier


class _MemoryGround:
    """Rows in memory; every owner takes a new epoch, which is enough to kill the one before."""

    def __init__(self, in_hand: Path, settings: Settings | None = None) -> None:
        self.rows = MemoryRows(epoch=0)
        self.in_hand = in_hand
        self.settings = settings or with_ahead(small_settings(), 0.0)

    def settings_of(self, per_host: int, delay: float) -> Settings:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        return structs.replace(self.settings, politeness=politeness)

    async def kill(self, frontier: Frontier) -> None:
        self.rows.epoch += 1


class AtHandGround(_MemoryGround):
    """Rows are read one by one, when needed."""

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> ShardFrontier:
        self.rows.epoch += 1
        return memory_frontier(
            self.rows,
            self.settings_of(per_host, delay),
            shard=shard,
            shards=shards,
            in_hand=InHand(self.in_hand),
            epoch=self.rows.epoch,
        )


class Messages:
    """`skitter.frontier.store.Forwarding` that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Link] = []

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        self.sent += [link for some in links.values() for link in some]


class FarGround(_MemoryGround):
    """Rows are read in round trips, as if behind a network."""

    messages: Messages | None = None

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> ShardFrontier:
        self.rows.epoch += 1
        store = MemoryStore(self.rows, self.rows.epoch)
        settings = self.settings_of(per_host, delay)
        return ShardFrontier(
            store,
            settings,
            shard=shard,
            shards=shards,
            forwarding=self.messages,
            in_hand=InHand(self.in_hand),
        )


class MessagingGround(FarGround):
    """Links of other shards are sent as messages."""

    def __init__(self, in_hand: Path, settings: Settings | None = None) -> None:
        super().__init__(in_hand, settings)
        self.messages = Messages()
        self.sent = self.messages.sent


class RocksGround:
    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.path = path
        self.settings = settings or small_settings()

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> ShardFrontier:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = structs.replace(self.settings, politeness=politeness)
        return rocks_frontier(self.path, settings, shard=shard, shards=shards)

    async def kill(self, frontier: Frontier) -> None:
        assert isinstance(frontier, ShardFrontier)
        await frontier.abandon()


def with_ahead(settings: Settings, seconds: float) -> Settings:
    """Visits are leased this long ahead of time."""
    cluster = structs.replace(settings.cluster, lease_ahead=Seconds(seconds))
    return structs.replace(settings, cluster=cluster)


def small_settings(window: int = 4) -> Settings:
    """Small enough that a test reaches the bounds on memory."""
    settings = Settings()
    frontier = structs.replace(settings.frontier, window=window)
    return structs.replace(settings, frontier=frontier)

"""Stores that can be taken, killed and taken again, for the frontiers we ship."""

from pathlib import Path

from msgspec import structs

from skitter.backends.memory import MemoryFrontier, MemoryStore
from skitter.backends.rocksdb import RocksFrontier
from skitter.frontier import RemoteFrontier
from skitter.frontier.in_hand import Hand
from skitter.ports import Frontier
from skitter.settings import Seconds, Settings
from skitter.testing.reference import MemoryRows, MemoryRowStore


class MemoryGround:
    def __init__(self) -> None:
        self.store = MemoryStore()

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> MemoryFrontier:
        return MemoryFrontier(self.store, shard=shard, shards=shards, per_host=per_host, delay=delay)

    def kill(self, frontier: Frontier) -> None:
        """The store is all that is left of a frontier anyway."""


class RocksGround:
    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        self.path = path
        self.settings = settings or small_settings()

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> RocksFrontier:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = structs.replace(self.settings, politeness=politeness)
        return RocksFrontier(self.path, settings, shard=shard, shards=shards)

    def kill(self, frontier: Frontier) -> None:
        assert isinstance(frontier, RocksFrontier)
        frontier.abandon()


class RemoteGround:
    """The frontier of a cluster on the store in memory; every owner takes a new epoch."""

    def __init__(self, hand: Path, settings: Settings | None = None) -> None:
        self.rows = MemoryRows(epoch=0)
        self.hand = hand
        self.settings = settings or with_ahead(small_settings(), 0.0)

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> RemoteFrontier:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = structs.replace(self.settings, politeness=politeness)
        self.rows.epoch += 1
        store = MemoryRowStore(self.rows, self.rows.epoch)
        return RemoteFrontier(store, settings, shard=shard, shards=shards, hand=Hand(self.hand))

    def kill(self, frontier: Frontier) -> None:
        """Another epoch is all it takes."""
        self.rows.epoch += 1


def with_ahead(settings: Settings, seconds: float) -> Settings:
    """Visits are taken out so long before their time."""
    cluster = structs.replace(settings.cluster, lease_ahead=Seconds(seconds))
    return structs.replace(settings, cluster=cluster)


def small_settings(window: int = 4) -> Settings:
    """Small enough that the bounds on memory are met in a test."""
    settings = Settings()
    frontier = structs.replace(settings.frontier, window=window)
    return structs.replace(settings, frontier=frontier)

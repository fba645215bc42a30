"""Stores that can be taken, killed and taken again, for the frontiers we ship."""

import dataclasses
from pathlib import Path

from skitter.backends.memory import MemoryFrontier, MemoryStore
from skitter.backends.rocksdb import RocksFrontier
from skitter.ports import Frontier
from skitter.settings import Seconds, Settings


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
        politeness = dataclasses.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = dataclasses.replace(self.settings, politeness=politeness)
        return RocksFrontier(self.path, settings, shard=shard, shards=shards)

    def kill(self, frontier: Frontier) -> None:
        assert isinstance(frontier, RocksFrontier)
        frontier.abandon()


def small_settings(window: int = 4) -> Settings:
    """Small enough that the bounds on memory are met in a test."""
    settings = Settings()
    frontier = dataclasses.replace(settings.frontier, window=window)
    return dataclasses.replace(settings, frontier=frontier)

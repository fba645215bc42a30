"""The stores of the frontier keep the contract of their port."""

from pathlib import Path

import pytest

from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier.store import Store
from skitter.testing.contracts.store import (
    EpochContract,
    LateContract,
    OutboxContract,
    StoreContract,
    TripContract,
)
from skitter.testing.reference import MemoryRows, MemoryStore


class MemoryRowsGround:
    def __init__(self) -> None:
        self.rows = MemoryRows(epoch=0)

    async def claim(self) -> Store:
        self.rows.epoch += 1
        return MemoryStore(self.rows, self.rows.epoch)


class RocksStoreGround:
    def __init__(self, path: Path) -> None:
        self.path = path

    async def claim(self) -> Store:
        store = RocksStore(self.path, 1 << 20)
        await store.open()
        return store


class TestMemoryRows(StoreContract, EpochContract, LateContract, TripContract, OutboxContract):
    @pytest.fixture
    def ground(self) -> MemoryRowsGround:
        return MemoryRowsGround()


class TestRocks(StoreContract, OutboxContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> RocksStoreGround:
        return RocksStoreGround(tmp_path / "state")

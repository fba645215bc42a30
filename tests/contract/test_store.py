"""The stores that the frontier of a cluster can stand on keep the contract of their port."""

import pytest

from skitter.frontier.store import Store
from skitter.testing.contracts.store import LateContract, StoreContract
from skitter.testing.reference import MemoryRows, MemoryRowStore


class MemoryRowsGround:
    def __init__(self) -> None:
        self.rows = MemoryRows(epoch=0)

    async def claim(self) -> Store:
        self.rows.epoch += 1
        return MemoryRowStore(self.rows, self.rows.epoch)


class TestMemoryRows(StoreContract, LateContract):
    @pytest.fixture
    def ground(self) -> MemoryRowsGround:
        return MemoryRowsGround()

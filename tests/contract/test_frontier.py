"""The frontiers we ship keep the contract of the port."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from skitter.ports import Frontier
from skitter.testing.contracts.frontier import FrontierContract
from skitter.testing.contracts.frontier_model import FrontierModel
from tests.contract.grounds import MemoryGround, RocksGround


class TestMemoryFrontier(FrontierContract):
    @pytest.fixture
    def ground(self) -> MemoryGround:
        return MemoryGround()

    def test_it_is_a_frontier(self, ground: MemoryGround) -> None:
        frontier: Frontier = ground.frontier()
        assert frontier.statistics() == {}


class TestRocksFrontier(FrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> RocksGround:
        return RocksGround(tmp_path / "state")


class RocksModel(FrontierModel):
    def ground(self) -> RocksGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        return RocksGround(self._directory)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


RocksModel.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


class TestRocksFrontierAgainstTheReference(RocksModel.TestCase):  # type: ignore[misc]
    """Whatever happens, the frontier on disk answers as the reference does."""

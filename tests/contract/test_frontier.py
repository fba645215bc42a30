"""The frontiers we ship keep the contract of the port."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from skitter.ports import Frontier
from skitter.testing.contracts.frontier import FrontierContract
from skitter.testing.contracts.frontier_model import FrontierModel
from tests.contract.grounds import MemoryGround, RemoteGround, RocksGround


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


class TestRemoteFrontier(FrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> RemoteGround:
        return RemoteGround(tmp_path / "hand")


class RocksModel(FrontierModel):
    def ground(self) -> RocksGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        return RocksGround(self._directory)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


class RemoteModel(FrontierModel):
    def ground(self) -> RemoteGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        return RemoteGround(self._directory / "hand")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


def compare(model: type[FrontierModel], examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(model, settings=limits)


@pytest.mark.parametrize("model", [RocksModel, RemoteModel])
def test_whatever_happens_it_answers_as_the_reference_does(model: type[FrontierModel]) -> None:
    compare(model, examples=25, steps=30)


@pytest.mark.soak
@pytest.mark.parametrize("model", [RocksModel, RemoteModel])
def test_whatever_happens_for_longer_it_answers_as_the_reference_does(model: type[FrontierModel]) -> None:
    compare(model, examples=300, steps=60)

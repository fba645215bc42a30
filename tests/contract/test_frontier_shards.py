"""The frontiers we ship keep their promises between shards as well."""

import shutil
import tempfile
from pathlib import Path

import pytest

from skitter.testing.contracts.frontier_shards import SHARDS, ShardsModel
from skitter.testing.contracts.owner import Ground
from tests.contract.grounds import AtHandGround, FarGround, RocksGround
from tests.contract.test_frontier import compare


class _OnDisk(ShardsModel):
    def grounds(self) -> list[Ground]:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-shards-"))
        return [self.ground(self._directory / str(number)) for number in range(SHARDS)]

    def ground(self, path: Path) -> Ground:
        raise NotImplementedError

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


class AtHandShards(_OnDisk):
    def ground(self, path: Path) -> Ground:
        path.mkdir()
        return AtHandGround(path / "hand")


class RocksShards(_OnDisk):
    def ground(self, path: Path) -> Ground:
        return RocksGround(path)


class FarShards(_OnDisk):
    def ground(self, path: Path) -> Ground:
        path.mkdir()
        return FarGround(path / "hand")


@pytest.mark.parametrize("model", [AtHandShards, RocksShards, FarShards])
def test_three_shards_keep_every_promise(model: type[ShardsModel]) -> None:
    compare(model, examples=25, steps=30)


@pytest.mark.soak
@pytest.mark.parametrize("model", [AtHandShards, RocksShards, FarShards])
def test_three_shards_keep_every_promise_for_longer(model: type[ShardsModel]) -> None:
    compare(model, examples=400, steps=60)

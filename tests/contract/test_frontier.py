"""The frontiers we ship keep the contract of the port."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from skitter.model import State, Verdict
from skitter.ports import Frontier
from skitter.testing.contracts.frontier import FrontierContract, MessagingFrontierContract
from skitter.testing.contracts.frontier_model import FrontierModel
from skitter.testing.contracts.owner import START, Ground, Owner, asynchronous, link
from tests.contract.grounds import (
    AtHandGround,
    FarGround,
    MessagingGround,
    RocksGround,
    small_settings,
    with_ahead,
)

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


class TestAtHand(FrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> AtHandGround:
        return AtHandGround(tmp_path / "hand")

    def test_it_is_a_frontier(self, ground: AtHandGround) -> None:
        frontier: Frontier = ground.frontier()
        assert frontier is not None


class TestRocksFrontier(FrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> RocksGround:
        return RocksGround(tmp_path / "state")


class TestFar(FrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> FarGround:
        return FarGround(tmp_path / "hand")


class TestMessaging(MessagingFrontierContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> MessagingGround:
        return MessagingGround(tmp_path / "hand")


class TestFarAhead(FrontierContract):
    """Visits are leased a second ahead of time, and every promise holds except for the two cases below."""

    @pytest.fixture
    def ground(self, tmp_path: Path) -> FarGround:
        return FarGround(tmp_path / "hand", with_ahead(small_settings(), 1.0))

    @asynchronous
    async def test_a_host_is_left_alone_until_its_verdict_says_so(self, ground: Ground) -> None:
        """It is leased ahead of time, and not handed out."""
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        await owner.settle(await owner.lease_page(), Verdict(state=State.CRAWLED, host_free=owner.now + 10))
        assert await owner.frontier.next_due(owner.now) == owner.now + 9
        for step in (9.0, 0.5, 0.49):
            owner.now += step
            assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) == START + 10
        owner.now += 0.01
        assert [visit.link.url for visit in await owner.lease()] == [A + "2"]

    @asynchronous
    async def test_a_suspect_waits_until_nothing_is_in_flight_then_goes_alone(self, ground: Ground) -> None:
        """Visits leased ahead of it, and not handed out, wait until it is settled."""
        owner = await Owner.of(ground)
        await owner.add(B)
        await owner.crawl()
        await owner.add(link(A + "1", score=-9.0))
        owner.frontier.in_hand(await owner.lease_page())
        owner = await owner.killed()
        await owner.add(B + "1")
        innocent = await owner.lease_page()
        await owner.add(C)
        owner.now += 1
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        await owner.store(innocent)
        (suspect,) = await owner.lease()
        assert (suspect.link.url, suspect.alone) == (A + "1", True)
        assert await owner.lease() == []
        await owner.store(suspect)
        assert (await owner.lease_page()).link.url == C


class RocksModel(FrontierModel):
    def ground(self) -> RocksGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        return RocksGround(self._directory)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


class FarModel(FrontierModel):
    def ground(self) -> FarGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        return FarGround(self._directory / "hand")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._directory)


def compare(model: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(model, settings=limits)


@pytest.mark.parametrize("model", [RocksModel, FarModel])
def test_it_answers_like_the_reference(model: type[FrontierModel]) -> None:
    compare(model, examples=25, steps=30)


@pytest.mark.soak
@pytest.mark.parametrize("model", [RocksModel, FarModel])
def test_it_answers_like_the_reference_for_longer(model: type[FrontierModel]) -> None:
    compare(model, examples=300, steps=60)

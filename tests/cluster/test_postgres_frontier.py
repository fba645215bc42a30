"""The frontier of a cluster on PostgreSQL keeps the contract of the port."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as limits_of
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.store import PostgresStore
from skitter.frontier import ShardFrontier
from skitter.frontier.crashes import InHand
from skitter.frontier.rows import Opening
from skitter.ports import Frontier
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.frontier import MessagingFrontierContract
from skitter.testing.contracts.frontier_model import FrontierModel
from tests.cluster.postgres import empty, pool_of, schema, seize, settings_for
from tests.contract.grounds import Messages, small_settings, with_ahead
from tests.engines import engine


class ClaimedAtOpening:
    """A store that is taken when it is opened, whoever has it."""

    hash_key, domain_prefix = staticmethod(PostgresStore.hash_key), PostgresStore.domain_prefix
    secret = 0

    def __init__(self, ground: "PostgresGround", shard: int) -> None:
        self._ground, self._shard = ground, shard
        self._store: PostgresStore | None = None

    async def open(self) -> Opening:
        pool = await self._ground.pool()
        self._store = PostgresStore(pool, self._shard, await seize(pool, self._shard))
        return await self._store.open()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class PostgresGround:
    def __init__(self, settings: Settings, hand: Path) -> None:
        small = with_ahead(small_settings(), 0.0)
        cluster = structs.replace(small.cluster, name=settings.cluster.name)
        self.settings = structs.replace(small, postgres=settings.postgres, cluster=cluster)
        self.hand, self.messages = hand, Messages()
        self.sent = self.messages.sent
        self._pools: AsyncIterator[Pool] | None = None
        self._pool: Pool | None = None

    async def pool(self) -> Pool:
        """One for the whole test. The event loop ends the generator, and with it the pool, when it ends itself."""
        if self._pool is None:
            self._pools = self._opened()
            self._pool = await anext(self._pools)
        return self._pool

    async def _opened(self) -> AsyncIterator[Pool]:
        async with pool_of(self.settings) as pool:
            yield pool

    def frontier(
        self, *, shard: int = 0, shards: int = 1, per_host: int = 1, delay: float = 1.0
    ) -> ShardFrontier:
        politeness = structs.replace(self.settings.politeness, per_host=per_host, delay=Seconds(delay))
        settings = structs.replace(self.settings, politeness=politeness)
        store = ClaimedAtOpening(self, shard)
        return ShardFrontier(
            store,
            settings,
            shard=shard,
            shards=shards,
            forwarding=self.messages,
            in_hand=InHand(self.hand),
        )

    async def kill(self, frontier: Frontier) -> None:
        """Whoever opens the shard next has a new epoch: that is all it takes."""


@pytest.fixture(scope="module")
def crawl() -> Iterator[Settings]:
    with schema(settings_for(engine("postgres")), shards=4) as settings:
        yield settings


@pytest.fixture
def ground(crawl: Settings, tmp_path: Path) -> PostgresGround:
    empty(crawl)
    return PostgresGround(crawl, tmp_path / "hand")


class TestPostgresFrontier(MessagingFrontierContract):
    """One contract for all frontiers."""


def compare(crawl: Settings, tmp_path: Path, examples: int, steps: int) -> None:
    class PostgresModel(FrontierModel):
        def ground(self) -> PostgresGround:
            empty(crawl)
            hand = tmp_path / "hand"
            hand.unlink(missing_ok=True)
            return PostgresGround(crawl, hand)

    limits = limits_of(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(PostgresModel, settings=limits)


def test_it_answers_like_the_reference(crawl: Settings, tmp_path: Path) -> None:
    compare(crawl, tmp_path, examples=6, steps=25)


@pytest.mark.soak
def test_it_answers_like_the_reference_for_longer(crawl: Settings, tmp_path: Path) -> None:
    compare(crawl, tmp_path, examples=100, steps=50)

"""Redis keeps the contract of the store, and with it of the frontier, that a small cluster stands on."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test
from msgspec import structs

from skitter.backends.redis.client import connect
from skitter.backends.redis.store import tag
from skitter.frontier.rows import Batch, Meta, Wanted
from skitter.frontier.store import Store
from skitter.ports import EngineError
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.frontier import MessagingFrontierContract
from skitter.testing.contracts.frontier_model import FrontierModel
from skitter.testing.contracts.owner import asynchronous
from skitter.testing.contracts.store import (
    EpochContract,
    LateContract,
    StoreContract,
    TripContract,
    full_url,
)
from tests.cluster.redis import FrontierGround, claim, cleaned, server, settings_for
from tests.contract.grounds import small_settings, with_ahead
from tests.engines import engine


class StoreGround:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def claim(self) -> Store:
        return await claim(self.settings)


@pytest.fixture
def settings() -> Iterator[Settings]:
    with cleaned(settings_for(engine("redis"))) as mine:
        yield mine


class TestRedisStore(StoreContract, EpochContract, TripContract, LateContract):
    @pytest.fixture
    def ground(self, settings: Settings) -> StoreGround:
        return StoreGround(settings)

    @asynchronous
    async def test_shards_do_not_see_each_other(self, ground):
        first, second = await ground.claim(), await claim(ground.settings, shard=1)
        row = full_url(1)
        await first.write(Batch(Meta(seq=5), urls={row.id: row}))
        assert (await second.load(Wanted(urls=[row.id]))).urls == {}
        assert (await second.meta()).seq == 0
        await first.close()
        await second.close()

    @asynchronous
    async def test_scripts_that_the_server_forgot_are_told_again(self, ground):
        store = await ground.claim()
        await store.write(Batch(Meta()))
        await store._client.send(lambda: [("SCRIPT", "FLUSH")])
        await store.write(Batch(Meta(seq=7)))
        assert (await store.meta()).seq == 7
        await store.close()

    @asynchronous
    async def test_every_key_of_a_shard_has_its_hash_tag(self, ground):
        store = await ground.claim()
        row = full_url(1)
        await store.write(Batch(Meta(), urls={row.id: row}))
        name = ground.settings.cluster.name
        (keys,) = await store._client.send(lambda: [("KEYS", f"*{name}*")])
        assert keys
        assert all(key.startswith(tag(name, 0)) for key in keys)
        await store.close()


class TestRedisFrontier(MessagingFrontierContract):
    @pytest.fixture
    def ground(self, settings: Settings, tmp_path: Path) -> FrontierGround:
        small = with_ahead(small_settings(), 0.0)
        return FrontierGround(
            structs.replace(small, redis=settings.redis, cluster=_exact(settings)), tmp_path / "hand"
        )


def _exact(settings: Settings):
    return structs.replace(settings.cluster, lease_ahead=Seconds(0.0))


class RedisModel(FrontierModel):
    """Compared with the reference, step by step."""

    def ground(self) -> FrontierGround:
        self._directory = Path(tempfile.mkdtemp(prefix="skitter-model-"))
        settings = settings_for(engine("redis"))
        small = with_ahead(small_settings(), 0.0)
        self._settings = structs.replace(small, redis=settings.redis, cluster=_exact(settings))
        self._ground = FrontierGround(self._settings, self._directory / "hand")
        return self._ground

    def teardown(self) -> None:
        self._runner.run(self._ground.release())
        super().teardown()
        shutil.rmtree(self._directory)
        with cleaned(self._settings):
            pass


def compare(examples: int, steps: int) -> None:
    limits = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(RedisModel, settings=limits)


def test_whatever_happens_the_frontier_in_redis_answers_as_the_reference_does():
    engine("redis")
    compare(examples=8, steps=25)


@pytest.mark.soak
def test_whatever_happens_for_longer_the_frontier_in_redis_answers_as_the_reference_does():
    engine("redis")
    compare(examples=200, steps=50)


# ------------------------------------------------------------------------------------------------ the server


@pytest.mark.parametrize("sync", ["everysec", "always"])
def test_what_was_acknowledged_survives_kill_9_of_the_server(tmp_path, sync):
    async def write(settings: Settings, first: int) -> None:
        store = await claim(settings)
        for number in range(first, first + 50):
            row = full_url(number)
            await store.write(Batch(Meta(seq=number), urls={row.id: row}))
        await store.close()

    async def check(settings: Settings, last: int) -> None:
        store = await claim(settings)
        assert (await store.meta()).seq == last
        assert len([row async for row in store.urls()]) == last
        await store.close()

    with server(tmp_path, "--appendonly", "yes", "--appendfsync", sync) as mine:
        settings = settings_for(mine.engine)
        for round_ in range(3):
            asyncio.run(write(settings, 50 * round_ + 1))
            mine.kill()
            mine.start()
            asyncio.run(check(settings, 50 * (round_ + 1)))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--appendonly", "no"), "appendonly yes"),
        (
            ("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"),
            "maxmemory-policy noeviction",
        ),
        (("--appendonly", "yes", "--requirepass", "sesame"), "SKITTER_REDIS_PASSWORD"),
    ],
)
def test_a_server_that_will_not_do_is_refused_in_one_line(tmp_path, options, complaint):
    async def refused(settings: Settings) -> str:
        with pytest.raises(EngineError) as told:
            await connect(settings)
        return str(told.value)

    with server(tmp_path, *options) as mine:
        line = asyncio.run(refused(settings_for(mine.engine)))
    assert complaint in line
    assert "redis." in line
    assert "\n" not in line


def test_an_address_where_nobody_answers_is_named(tmp_path):
    async def refused(settings: Settings) -> str:
        with pytest.raises(EngineError) as told:
            await connect(settings)
        return str(told.value)

    with server(tmp_path, "--appendonly", "yes") as mine:
        settings = settings_for(mine.engine)
    line = asyncio.run(refused(settings))
    assert settings.redis.addresses[0] in line
    assert "redis.addresses" in line


def test_the_second_address_is_used_when_the_first_is_a_replica_or_dead(tmp_path):
    async def use(settings: Settings) -> None:
        client = await connect(settings)
        await client.send(lambda: [("SET", "x", "1")])
        await client.close()

    (tmp_path / "replica").mkdir()
    (tmp_path / "primary").mkdir()
    with server(tmp_path / "primary", "--appendonly", "yes") as primary:
        link = f"127.0.0.1 {primary.port}"
        with server(tmp_path / "replica", "--appendonly", "yes", "--replicaof", *link.split()) as replica:
            addresses = (f"127.0.0.1:{replica.port}", f"127.0.0.1:{primary.port}")
            asyncio.run(use(settings_for(primary.engine, addresses=addresses)))
            replica.kill()
            asyncio.run(use(settings_for(primary.engine, addresses=addresses)))

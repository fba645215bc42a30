"""PostgreSQL keeps the contract of the store that a cluster's frontier stands on."""

from collections.abc import Iterator

import msgspec
import pytest

from skitter.backends.postgres import columns
from skitter.backends.postgres import store as postgres_store
from skitter.frontier.rows import Batch, Meta, Wanted
from skitter.frontier.store import Store
from skitter.ports import Unstorable
from skitter.settings import Settings
from skitter.testing.contracts.owner import asynchronous
from skitter.testing.contracts.store import (
    EpochContract,
    LateContract,
    StoreContract,
    TripContract,
    a_page,
    full_url,
)
from tests.cluster.postgres import claim, empty, schema, settings_for
from tests.engines import engine


class PostgresGround:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def claim(self) -> Store:
        return await claim(self.settings)


@pytest.fixture(scope="module")
def crawl() -> Iterator[Settings]:
    with schema(settings_for(engine("postgres"))) as settings:
        yield settings


@pytest.fixture
def ground(crawl: Settings) -> PostgresGround:
    empty(crawl)
    return PostgresGround(crawl)


class TestPostgresStore(StoreContract, EpochContract, TripContract, LateContract):
    """One store, one contract."""

    @asynchronous
    async def test_a_title_with_a_character_that_text_cannot_hold_comes_back_as_it_was(self, ground):
        store = await ground.claim()
        odd = a_page(1)
        odd.page = msgspec.structs.replace(
            odd.page, title="a\x00b", language="\x00", content_type="text/\x00"
        )
        await store.write(Batch(Meta(), pages={odd.id: odd}))
        assert (await store.load(Wanted(pages=[odd.id]))).pages == {odd.id: odd}
        await store.close()

    @asynchronous
    async def test_every_id_is_told_whole_batches_at_a_time(self, ground, monkeypatch):
        monkeypatch.setattr(postgres_store, "_IDS_AT_ONCE", 7)
        store = await ground.claim()
        assert [some async for some in store.ids()] == []
        for count in (7, 20):
            rows = {(row := full_url(n)).id: row for n in range(count)}
            await store.write(Batch(Meta(), urls=rows))
            assert [id16 async for some in store.ids() for id16 in some] == sorted(rows)
        await store.close()

    @asynchronous
    async def test_a_value_that_no_column_holds_is_refused_and_is_no_engine_that_is_away(self, ground):
        store = await ground.claim()
        row = full_url(1)
        row.level = 10**6
        with pytest.raises(Unstorable, match="out of"):
            await store.write(Batch(Meta(), urls={row.id: row}))
        assert (await store.meta()).seq == 0
        await store.close()

    @asynchronous
    async def test_shards_do_not_see_each_other(self, ground):
        first, second = await ground.claim(), await claim(ground.settings, shard=1)
        row = full_url(1)
        await first.write(Batch(Meta(seq=5), urls={row.id: row}))
        assert (await second.load(Wanted(urls=[row.id]))).urls == {}
        assert (await second.meta()).seq == 0
        await first.close()
        await second.close()


def test_64_bits_survive_a_signed_column():
    for number in (None, 0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        assert columns.unsigned(columns.signed(number)) == number

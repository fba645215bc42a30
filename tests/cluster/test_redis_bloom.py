"""A filter in front of a store: it never hides a URL that is there, and spares most questions for those that are not."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.backends.redis.bloom import Bits, BloomStore
from skitter.backends.redis.client import Client
from skitter.backends.remote import RemoteFrontier
from skitter.backends.remote.memory import MemoryRows, MemoryRowStore
from skitter.backends.remote.names import key_id
from skitter.backends.remote.rows import Wanted
from skitter.backends.remote.store import Store
from skitter.settings import Settings
from skitter.testing.contracts.owner import asynchronous, link
from skitter.testing.contracts.store import StoreContract
from tests.cluster.redis import cleaned, server, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with cleaned(settings_for(engine("redis"))) as mine:
        yield mine


class Ground:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows = MemoryRows(epoch=0)
        self.clients: list[Client] = []

    async def claim(self) -> Store:
        return await self.store()

    async def store(self) -> BloomStore:
        self.rows.epoch += 1
        self.clients.append(Client(self.settings))
        return BloomStore(MemoryRowStore(self.rows, self.rows.epoch), self.clients[-1], 0, self.rows.epoch)

    async def release(self) -> None:
        for client in self.clients:
            await client.close()


@pytest.fixture
def ground(settings: Settings) -> Ground:
    return Ground(settings)


class TestBloomStore(StoreContract):
    """A filter takes nothing from a store, whether it was opened or not."""

    @pytest.fixture
    def ground(self, settings: Settings) -> Ground:
        return Ground(settings)

    # A new owner is told of a number of the filter's own besides.
    @asynchronous
    async def test_a_new_owner_is_told_all_that_is_open(self, ground: Ground) -> None:  # type: ignore[override]
        store = await ground.store()
        await RemoteFrontier(store).open(5.0)
        opening = await (await ground.store()).open()
        assert set(opening.meta.mail) == {"bloom"}


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=50))
def test_what_was_added_is_found(ids):
    bits = Bits(100)
    bits.add(ids)
    assert bits.has(ids).all()
    assert Bits.of(bits.octets.tobytes()).has(ids).all()


def test_one_in_a_hundred_that_was_not_added_is_looked_up_in_vain():
    bits = Bits(2 * 10**5)
    count = 8 * len(bits.octets) // 10
    bits.add([key_id(f"in {number}") for number in range(count)])
    wrong = bits.has([key_id(f"out {number}") for number in range(10_000)]).mean()
    assert 0.004 < wrong < 0.016


@asynchronous
async def test_new_links_are_not_asked_for_and_known_ones_are(ground):
    try:
        store = await ground.store()
        frontier = RemoteFrontier(store)
        await frontier.open(5.0)
        links = [link(f"https://h{n}.example/{n}") for n in range(500)]
        assert await frontier.add(links, [], 5.0) == 500
        assert store.statistics()["spared"] >= 490
        await frontier.close(6.0)

        store = await ground.store()
        frontier = RemoteFrontier(store)
        await frontier.open(7.0)
        assert store.statistics()["bloom_whole"] == 1
        assert await frontier.add(links, [], 7.0) == 0
        assert await frontier.add([link(f"https://h{n}.example/new") for n in range(500)], [], 7.0) == 500
        assert store.statistics()["spared"] >= 490
    finally:
        await ground.release()


@asynchronous
async def test_after_a_crash_the_filter_is_made_again_and_hides_nothing_meanwhile(ground):
    try:
        frontier = RemoteFrontier(await ground.store())
        await frontier.open(5.0)
        links = [link(f"https://h{n}.example/{n}") for n in range(3000)]
        await frontier.add(links[:1500], [], 5.0)
        await frontier.close(6.0)
        frontier = RemoteFrontier(await ground.store())
        await frontier.open(7.0)
        await frontier.add(links[1500:], [], 7.0)  # and dies

        store = await ground.store()
        frontier = RemoteFrontier(store)
        await frontier.open(8.0)
        assert await frontier.add(links[:100], [], 8.0) == 0
        for _ in range(1000):
            if store.statistics()["bloom_whole"]:
                break
            await asyncio.sleep(0.01)
        found = await store.load(Wanted(urls=[key_id(one.key) for one in links]))
        assert len(found.urls) == 3000
        assert await frontier.add([link("https://new.example/")], [], 8.0) == 1
    finally:
        await ground.release()


def test_without_redis_there_is_a_filter_all_the_same(tmp_path):
    async def use(settings: Settings) -> None:
        ground = Ground(settings)
        store = await ground.store()
        frontier = RemoteFrontier(store)
        await frontier.open(5.0)
        await frontier.add([link(f"https://a.example/{n}") for n in range(100)], [], 5.0)
        assert store.statistics()["spared"] >= 95
        await frontier.close(6.0)
        await ground.release()

    with server(tmp_path, "--appendonly", "yes") as mine:
        settings = settings_for(mine.engine)
    asyncio.run(use(settings))

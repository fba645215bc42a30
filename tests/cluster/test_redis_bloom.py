"""A filter in front of a store: it never hides a URL that is there, and spares most questions for those that are not."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.backends.redis import bloom
from skitter.backends.redis.bloom import Bits, BloomStore
from skitter.backends.redis.client import Client
from skitter.backends.redis.store import tag
from skitter.frontier import ShardFrontier
from skitter.frontier.names import hash16
from skitter.frontier.rows import Batch, Meta, Wanted
from skitter.frontier.store import Store
from skitter.model import Link
from skitter.settings import Settings
from skitter.testing.contracts.owner import asynchronous, link
from skitter.testing.contracts.store import EpochContract, StoreContract, TripContract, full_url
from skitter.testing.reference import MemoryRows, MemoryStore
from tests.cluster.redis import cleaned, server, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with cleaned(settings_for(engine("redis"))) as mine:
        yield mine


class NamedRows(MemoryStore):
    """Rows in memory whose ids are read as slowly as the test likes, and whose writes arrive when it likes."""

    def __init__(self, rows: MemoryRows, epoch: int) -> None:
        super().__init__(rows, epoch)
        self.held_up: set[bytes] = set()  # a write of one of these waits
        self.go_on = asyncio.Event()

    async def ids(self) -> AsyncIterator[Sequence[bytes]]:
        for id16 in sorted(self.rows.urls):
            await asyncio.sleep(0)
            yield [id16]

    async def write(self, batch: Batch) -> None:
        if self.held_up & batch.urls.keys():
            await self.go_on.wait()
        await super().write(batch)


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
        return BloomStore(NamedRows(self.rows, self.rows.epoch), self.clients[-1], 0, self.rows.epoch)

    async def release(self) -> None:
        for client in self.clients:
            await client.close()


@pytest.fixture
def ground(settings: Settings) -> Ground:
    return Ground(settings)


class TestBloomStore(StoreContract, EpochContract, TripContract):
    """A filter takes nothing from a store, whether it was opened or not."""

    @pytest.fixture
    def ground(self, settings: Settings) -> Ground:
        return Ground(settings)


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=50))
def test_what_was_added_is_found(ids):
    bits = Bits(100)
    bits.add(ids)
    assert bits.has(ids).all()
    assert Bits.of(bits.octets.tobytes()).has(ids).all()


def test_one_in_a_hundred_that_was_not_added_is_looked_up_in_vain():
    bits = Bits(2 * 10**5)
    count = 8 * len(bits.octets) // 10
    bits.add([hash16(b"in %d" % number) for number in range(count)])
    wrong = bits.has([hash16(b"out %d" % number) for number in range(10_000)]).mean()
    assert 0.004 < wrong < 0.016


@asynchronous
async def test_new_links_are_not_asked_for_and_known_ones_are(ground):
    try:
        store = await ground.store()
        frontier = ShardFrontier(store)
        await frontier.open(5.0)
        links = [link(f"https://h{n}.example/{n}") for n in range(500)]
        assert await frontier.add(links, [], 5.0) == 500
        assert store.metrics().spared >= 490
        await frontier.close(6.0)

        store = await ground.store()
        frontier = ShardFrontier(store)
        await frontier.open(7.0)
        assert store.metrics().bloom_whole == 1
        assert await frontier.add(links, [], 7.0) == 0
        assert await frontier.add([link(f"https://h{n}.example/new") for n in range(500)], [], 7.0) == 500
        assert store.metrics().spared >= 490
    finally:
        await ground.release()


@asynchronous
async def test_after_a_crash_the_filter_is_made_again_and_hides_nothing_meanwhile(ground):
    try:
        frontier = ShardFrontier(await ground.store())
        await frontier.open(5.0)
        links = [link(f"https://h{n}.example/{n}") for n in range(3000)]
        await frontier.add(links[:1500], [], 5.0)
        await frontier.close(6.0)
        frontier = ShardFrontier(await ground.store())
        await frontier.open(7.0)
        await frontier.add(links[1500:], [], 7.0)  # and dies

        store = await ground.store()
        frontier = ShardFrontier(store)
        await frontier.open(8.0)
        assert await frontier.add(links[:100], [], 8.0) == 0
        for _ in range(1000):
            if store.metrics().bloom_whole:
                break
            await asyncio.sleep(0.01)
        found = await store.load(Wanted(urls=[hash16(one.key.encode()) for one in links]))
        assert len(found.urls) == 3000
        assert await frontier.add([link("https://new.example/")], [], 8.0) == 1
    finally:
        await ground.release()


async def whole(store: BloomStore) -> None:
    for _ in range(1000):
        if store.metrics().bloom_whole:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the filter is not made")


async def opened(ground: Ground, now: float) -> tuple[BloomStore, ShardFrontier]:
    store = await ground.store()
    frontier = ShardFrontier(store)
    await frontier.open(now)
    return store, frontier


def some(name: str, count: int = 300) -> list[Link]:
    return [link(f"https://{name}{n}.example/{n}") for n in range(count)]


@asynchronous
async def test_a_filter_of_which_a_part_is_lost_is_made_again(ground, monkeypatch):
    monkeypatch.setattr(bloom, "_PART", 128)
    monkeypatch.setattr(bloom, "_GRAIN", 64)
    monkeypatch.setattr(bloom, "_LEAST", 400)
    try:
        _, frontier = await opened(ground, 5.0)
        await frontier.add(some("a"), [], 5.0)
        await frontier.close(6.0)
        client = ground.clients[-1]
        (keys,) = await client.send(lambda: [("KEYS", tag(client.name, 0) + b"bloom:*")])
        parts = sorted(key for key in keys if not key.endswith(b"size"))
        assert len(parts) > 1
        await client.send(lambda: [("DEL", parts[-1])])
        store, frontier = await opened(ground, 7.0)
        assert not store.metrics().bloom_whole
        assert await frontier.add(some("a"), [], 7.0) == 0
        await whole(store)
        assert await frontier.add(some("a") + some("b"), [], 7.0) == 300
    finally:
        await ground.release()


@asynchronous
async def test_the_filter_of_a_small_shard_is_small(ground):
    """A cluster may have thousands of shards, and each leaves its filter in Redis."""
    try:
        _, frontier = await opened(ground, 5.0)
        await frontier.add(some("a"), [], 5.0)
        await frontier.close(6.0)
        client = ground.clients[-1]
        (keys,) = await client.send(lambda: [("KEYS", tag(client.name, 0) + b"bloom:*")])
        sizes = await client.send(lambda: [("STRLEN", key) for key in keys])
        assert 0 < sum(sizes) < 40_000
        store, frontier = await opened(ground, 7.0)
        assert store.metrics().bloom_whole
        assert await frontier.add(some("a") + some("b"), [], 7.0) == 300
    finally:
        await ground.release()


@asynchronous
async def test_a_filter_of_a_store_that_is_not_this_one_any_more_is_not_used(ground, monkeypatch):
    """The store was restored from a backup, so its epochs come again, and so do the numbers of writes."""
    try:
        _, frontier = await opened(ground, 5.0)
        await frontier.close(6.0)
        backup = copy.deepcopy(ground.rows)
        _, frontier = await opened(ground, 7.0)
        await frontier.add(some("a"), [], 7.0)
        await frontier.close(8.0)  # leaves a filter that knows nothing of what comes next
        ground.rows = backup
        store, frontier = await opened(ground, 7.0)
        await frontier.add(some("b"), [], 7.0)
        monkeypatch.setattr(store, "_leave", lambda: asyncio.sleep(0))  # as if Redis were away
        await frontier.close(8.0)
        store, frontier = await opened(ground, 9.0)
        assert not store.metrics().bloom_whole
        assert await frontier.add(some("b"), [], 9.0) == 0
    finally:
        await ground.release()


@asynchronous
async def test_a_filter_grows_with_its_store(ground, monkeypatch):
    monkeypatch.setattr(bloom, "_PART", 128)
    monkeypatch.setattr(bloom, "_GRAIN", 64)
    monkeypatch.setattr(bloom, "_LEAST", 100)
    try:
        store, frontier = await opened(ground, 5.0)
        for name in "abcdefghij":
            assert await frontier.add(some(name), [], 5.0) == 300
            await asyncio.sleep(0.05)
            await whole(store)
        before = store.metrics().spared
        assert await frontier.add(some("k"), [], 5.0) == 300
        assert store.metrics().spared - before > 270
        every = [one for name in "abcdefghijk" for one in some(name)]
        found = await store.load(Wanted(urls=[hash16(one.key.encode()) for one in every]))
        assert len(found.urls) == len(every)
    finally:
        await ground.release()


@asynchronous
async def test_what_is_on_its_way_when_a_filter_is_made_is_in_it(ground, monkeypatch):
    monkeypatch.setattr(bloom, "_PART", 128)
    monkeypatch.setattr(bloom, "_GRAIN", 64)
    monkeypatch.setattr(bloom, "_LEAST", 100)
    try:
        store = await ground.store()
        await store.open()
        under = store._store
        late = full_url(1)
        under.held_up = {late.id}
        slow = asyncio.create_task(store.write(Batch(Meta(seq=1), urls={late.id: late})))
        await asyncio.sleep(0)
        many = {(row := full_url(n)).id: row for n in range(2, 400)}
        await store.write(Batch(Meta(seq=399), urls=many))  # now it is too small
        assert store._next is not None
        while store._next is not None:
            await asyncio.sleep(0.01)
        under.go_on.set()
        await slow
        assert list((await store.load(Wanted(urls=[late.id]))).urls) == [late.id]
    finally:
        await ground.release()


def test_without_redis_there_is_a_filter_all_the_same(tmp_path):
    async def use(settings: Settings) -> None:
        ground = Ground(settings)
        store = await ground.store()
        frontier = ShardFrontier(store)
        await frontier.open(5.0)
        await frontier.add([link(f"https://a.example/{n}") for n in range(100)], [], 5.0)
        assert store.metrics().spared >= 95
        await frontier.close(6.0)
        await ground.release()

    with server(tmp_path, "--appendonly", "yes") as mine:
        settings = settings_for(mine.engine)
    asyncio.run(use(settings))

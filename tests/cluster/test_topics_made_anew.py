"""Lost and recreated topics are read from their beginning: no link is skipped because of an old position."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.client import connection
from skitter.backends.kafka.lag import made_anew
from skitter.backends.postgres.claims import Claims
from skitter.compose.engines import make, opened
from skitter.frontier.rows import Batch, Meta
from skitter.ports import EngineAway, EngineError, Fenced
from skitter.settings import Settings
from tests.cluster import kafka, postgres
from tests.cluster.postgres import claim, pool_of, schema
from tests.cluster.test_flow import SHARDS, all_stored, link, send, urls_of, worker
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    truth, redis = postgres.settings_for(engine("postgres")), engine("redis")
    with kafka.crawl_on(engine("kafka")) as crawl:
        whole = structs.replace(
            crawl,
            postgres=truth.postgres,
            redis=structs.replace(crawl.redis, addresses=(f"{redis.host}:{redis.port}",)),
            crawl=structs.replace(crawl.crawl, shards=SHARDS),
        )
        with schema(whole, SHARDS):
            asyncio.run(make(whole))
            yield whole


async def take_in(settings: Settings, numbers: range, size: int) -> None:
    """Send links in messages of this size at most, and store them all."""
    async with worker(settings) as (only, sender):
        for shard in range(SHARDS):
            await only.own(shard)
        working = asyncio.create_task(only.work())
        await send(sender, settings, numbers, size)
        assert await all_stored(settings, only)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def stored(settings: Settings) -> list[str]:
    async with pool_of(settings) as pool:
        return await urls_of(pool)


async def positions(settings: Settings) -> dict[int, dict[str, str]]:
    async with pool_of(settings) as pool:
        return {each.shard: dict(each.positions) for each in await Claims(pool, "").standing()}


async def release(settings: Settings) -> None:
    """As if all workers had left."""
    async with pool_of(settings) as pool:
        await pool._pool.execute(f"UPDATE \"{pool.schema}\".shards SET owner = '', lease_until = 0")


async def lose_links(settings: Settings) -> Sequence[str]:
    """The topics of links are gone, as after the loss of all brokers' disks."""
    admin = AdminClient(connection(settings.kafka))
    names = topics.link_topics(settings.kafka)
    for future in admin.delete_topics(list(names), operation_timeout=30).values():
        await asyncio.wrap_future(future)
    for _ in range(600):
        if not set(names) & set((await asyncio.to_thread(admin.list_topics, timeout=10)).topics):
            return names
        await asyncio.sleep(0.1)
    raise AssertionError("the topics stay")


def urls_in(numbers: range) -> set[str]:
    return {link(number).url for number in numbers}


def test_init_resets_positions_before_it_creates_topics_so_no_link_is_skipped(settings):
    """The new topics get more messages than the old ones ever had, so that an old position would be a valid one."""

    async def scenario() -> None:
        await take_in(settings, range(40), 4)
        before = await positions(settings)
        await release(settings)
        lost = await lose_links(settings)
        assert await made_anew(settings.kafka, before) == list(lost)
        said = await make(settings)
        assert [line for line in said if "is read from its beginning" in line] == [
            f"Kafka: topic {topic} is read from its beginning; links that waited in the old one are lost, and come back when "
            "their pages are fetched again"
            for topic in lost
        ]
        assert await positions(settings) == {shard: {} for shard in range(SHARDS)}
        assert await make(settings) == [], "and it is safe to repeat"
        await take_in(settings, range(100, 400), 1)
        after = await positions(settings)
        assert all(
            int(after[shard][topic]) > int(position)
            for shard, by_topic in before.items()
            for topic, position in by_topic.items()
        ), "an old position would be a valid one"
        assert set(await stored(settings)) == urls_in(range(40)) | urls_in(range(100, 400))

    asyncio.run(scenario())


def test_no_worker_starts_on_topics_that_end_before_the_stored_position(settings):
    async def scenario() -> None:
        await take_in(settings, range(40), 4)
        await release(settings)
        async with opened(settings, "somebody"):
            pass
        await lose_links(settings)
        async with opened(settings, "", looking=True) as engines:
            with pytest.raises(EngineAway, match="has 0 of 4 partitions; run `skitter cluster init`"):
                await engines.unread()
        await topics.create(settings.kafka, SHARDS)  # by an operator, with Kafka's own tools
        with pytest.raises(
            EngineError, match=r"^Kafka: the topics .* are not those whose links were taken in .*init`"
        ) as no:
            async with opened(settings, "somebody"):
                pass
        assert "\n" not in str(no.value)
        async with opened(settings, "", looking=True) as engines:
            assert len(await engines.claims.standing()) == SHARDS, "one can look all the same"
        assert len(await make(settings)) == 3
        async with opened(settings, "somebody"):
            pass

    asyncio.run(scenario())


def test_init_changes_nothing_while_a_shard_is_owned(settings):
    async def scenario() -> None:
        await take_in(settings, range(40), 4)
        before = await positions(settings)
        lost = await lose_links(settings)
        with pytest.raises(EngineError, match=r"workers still own 4 shards; stop all workers and run") as no:
            await make(settings)
        assert "\n" not in str(no.value)
        assert await positions(settings) == before
        admin = AdminClient(connection(settings.kafka))
        assert not set(lost) & set(admin.list_topics(timeout=10).topics), "it makes no topics either"

    asyncio.run(scenario())


def test_an_owner_that_comes_back_cannot_write_down_its_old_position(settings):
    async def scenario() -> None:
        await take_in(settings, range(40), 4)
        old = await positions(settings)
        zombie = await claim(settings)
        async with pool_of(settings) as pool:
            await pool._pool.execute(
                f'UPDATE "{pool.schema}".shards SET lease_until = 1'
            )  # it is frozen for long
            names = topics.link_topics(settings.kafka)
            assert await Claims(pool, "").begin_again(names) == []
        with pytest.raises(Fenced):
            await zombie.write(Batch(Meta(positions=old[0])))
        assert (await positions(settings))[0] == {}
        await zombie.close()

    asyncio.run(scenario())

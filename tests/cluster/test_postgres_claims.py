"""A shard has one owner, by the database's clock; who lost it changes nothing more."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec import structs

from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.migrate import open_pool
from skitter.backends.postgres.statements import Texts
from skitter.backends.postgres.store import PostgresStore
from skitter.cluster.ports import Claim
from skitter.frontier.rows import Batch, Meta, Wanted
from skitter.ports import EngineAway, Fenced
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.store import full_url
from tests.cluster.ledgers import assert_commands, assert_ends, assert_swaps
from tests.cluster.postgres import SHARDS, empty, pool_of, schema, settings_for
from tests.engines import engine

ALL = range(SHARDS)


@pytest.fixture(scope="module")
def crawl() -> Iterator[Settings]:
    with schema(settings_for(engine("postgres"))) as settings:
        yield settings


@pytest.fixture
def settings(crawl: Settings) -> Settings:
    empty(crawl)
    return crawl


def short(settings: Settings, lease: float) -> Settings:
    return structs.replace(settings, cluster=structs.replace(settings.cluster, lease=Seconds(lease)))


def test_a_shard_is_taken_once_and_again_when_it_is_given_back(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            first, second = Claims(pool, "first"), Claims(pool, "second")
            [one] = await first.take(ALL, 1)
            assert [each.shard for each in await second.take(ALL, 9)] == [1]
            assert await first.take(ALL, 9) == []
            await first.release({one.shard: one.epoch})
            [again] = await second.take(ALL, 9)
            assert (again.shard, again.epoch, again.lapsed) == (one.shard, one.epoch + 1, None)

    asyncio.run(scenario())


def test_a_shard_whose_worker_is_silent_is_taken_and_the_silent_one_learns_it(settings):
    async def scenario():
        async with pool_of(short(settings, 0.2)) as pool:
            old, new = Claims(pool, "old"), Claims(pool, "new")
            [mine] = await old.take([0], 1)
            assert await new.take([0], 1) == []
            await asyncio.sleep(0.3)
            [theirs] = await new.take([0], 1)
            assert theirs.epoch == mine.epoch + 1
            assert theirs.lapsed == pytest.approx(mine.now + 0.2)
            assert (await old.renew({0: mine.epoch}, {})).held == frozenset()
            await old.release({0: mine.epoch})  # too late to give anything away
            assert (await new.renew({0: theirs.epoch}, {})).held == {0}

    asyncio.run(scenario())


def test_a_lease_that_is_renewed_stays(settings):
    async def scenario():
        async with pool_of(short(settings, 0.4)) as pool:
            owner, other = Claims(pool, "owner"), Claims(pool, "other")
            [mine] = await owner.take([0], 1)
            for _ in range(6):
                await asyncio.sleep(0.1)
                assert (await owner.renew({0: mine.epoch}, {})).held == {0}
                assert await other.take([0], 1) == []

    asyncio.run(scenario())


def test_a_renewal_that_is_not_answered_is_given_up_long_before_the_lease_ends_and_may_be_made_again(
    settings,
):
    async def scenario():
        async with pool_of(short(settings, 3.0)) as pool:
            owner = Claims(pool, "owner")
            [mine] = await owner.take([0], 1)
            async with pool._pool.acquire() as other, other.transaction():
                await other.execute(f'SELECT 1 FROM "{pool.schema}".shards WHERE shard = 0 FOR UPDATE')
                for _ in range(2):  # of 30 s that a statement may take
                    with pytest.raises(EngineAway, match=r"PostgreSQL: no answer within 1 s"):
                        await owner.renew({0: mine.epoch}, {})
            assert (await owner.renew({0: mine.epoch}, {})).held == {0}

    asyncio.run(scenario())


def test_many_who_take_at_once_get_each_shard_once(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            taken = await asyncio.gather(*(Claims(pool, f"w{n}").take(ALL, 9) for n in range(12)))
            assert sorted(claim.shard for claims in taken for claim in claims) == list(ALL)

    asyncio.run(scenario())


def test_a_renewal_tells_who_else_is_there_and_what_is_free(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            first, second = Claims(pool, "first"), Claims(pool, "second")
            [mine] = await first.take(ALL, 1)
            await second.renew({}, {})
            seen = await first.renew({mine.shard: mine.epoch}, {"host": "a", "pid": 1})
            assert (sorted(seen.workers), seen.owners, seen.held) == (["first", "second"], ["first", ""], {0})
            assert [(each.shard, each.owner) for each in await first.standing()] == [(0, "first"), (1, "")]
            about = {each.name: each.about for each in await first.workers()}
            assert about["first"] == {"host": "a", "pid": 1}
            await second.leave()
            assert (await first.renew({}, {})).workers == ["first"]

    asyncio.run(scenario())


def test_roots_that_one_names_are_everybodys_each_once(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            first, second = Claims(pool, "first"), Claims(pool, "second")
            await first.add_roots(["https://a.example/", "https://b.example/"])
            await second.add_roots(["https://b.example/", "https://c.example/"])
            seen = await second.renew({}, {})
            known, at = await second.roots(0, 100)
            assert sorted(known) == ["https://a.example/", "https://b.example/", "https://c.example/"]
            assert at == seen.roots
            assert seen.owners == ["", ""]
            await first.add_roots(["https://a.example/", "https://d.example/"])
            new, later = await second.roots(at, 100)
            assert new == ["https://d.example/"]
            assert later > at
            assert len((await second.roots(0, 2))[0]) == 2

    asyncio.run(scenario())


def test_no_shard_is_taken_by_settings_that_were_replaced(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            claims = Claims(pool, "first")
            version, _ = await claims.settings()
            assert await claims.settle_on(version, "[politeness]\ndelay = 1\n")
            assert not await claims.settle_on(version, "")
            assert await claims.settings() == (version + 1, "[politeness]\ndelay = 1\n")
            assert (await claims.renew({}, {})).settings == version + 1
            assert await claims.take([0, 1], 2, version) == []
            assert len(await claims.take([0, 1], 2, version + 1)) == 2

    asyncio.run(scenario())


def test_a_root_that_is_committed_late_is_not_passed_over(settings):
    """Its position would be lower than one that a worker has seen by then."""

    async def scenario():
        async with pool_of(settings) as pool:
            claims = Claims(pool, "first")
            begun = (await claims.renew({}, {})).roots
            statement = Texts(pool.schema).one("claims", "add_roots")
            values = {"roots": ["https://slow.example/"], "lock": f"skitter {pool.schema} roots"}
            async with pool._pool.acquire() as connection:
                transaction = connection.transaction()
                await transaction.start()
                await connection.execute(statement.text, *statement.arguments(values))
                quick = asyncio.create_task(claims.add_roots(["https://quick.example/"]))
                await asyncio.sleep(0.3)
                seen, at = await claims.roots(begun, 100)
                await transaction.commit()
            await quick
            more, _ = await claims.roots(at, 100)
            assert [*seen, *more] == ["https://slow.example/", "https://quick.example/"]

    asyncio.run(scenario())


def test_a_ledger_is_replaced_only_by_who_has_seen_the_last_one(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            await assert_swaps([Claims(pool, f"w{number}") for number in range(8)])

    asyncio.run(scenario())


def test_commands_are_kept_in_order_whoever_adds_them(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            await assert_commands([Claims(pool, f"w{number}") for number in range(8)])

    asyncio.run(scenario())


async def write_behind(gate: asyncio.Event, store: PostgresStore, batch: Batch) -> None:
    await gate.wait()
    await store.write(batch)


def test_a_write_that_meets_the_taking_of_its_shard_is_whole_or_nothing(settings):
    """Writes and takings race: after a taking, no write of the old epoch is seen; before it, all of one is."""

    async def scenario():
        async with pool_of(short(settings, 0.0)) as pool:
            seen = 0
            for number in range(30):
                [old] = await Claims(pool, f"old{number}").take([0], 1)
                store = PostgresStore(pool, 0, old.epoch)
                rows = {(row := full_url(1000 * number + n)).id: row for n in range(1, 50)}
                batch, gate = Batch(Meta(seq=number), urls=rows), asyncio.Event()
                writing = asyncio.create_task(write_behind(gate, store, batch))
                if number % 3:  # else the writer was frozen, and its shard was taken before it came back
                    gate.set()
                    await asyncio.sleep(0.0005 * (number % 10))
                taken: list[Claim] = []
                while not taken:  # a shard that is being written is left for the next try
                    taken = await Claims(pool, f"new{number}").take([0], 1)
                gate.set()
                [new] = taken
                reader = PostgresStore(pool, 0, new.epoch)
                there = len((await reader.load(Wanted(urls=list(rows)))).urls)
                outcome = await asyncio.gather(writing, return_exceptions=True)
                fenced = isinstance(outcome[0], Fenced)
                assert there == (0 if fenced else len(rows)), outcome
                assert len((await reader.load(Wanted(urls=list(rows)))).urls) == there
                seen |= 1 + fenced
            assert seen == 3, "the race always ended the same way"

    asyncio.run(scenario())


def test_where_files_of_former_owners_end_is_written_down(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            await assert_ends(Claims(pool, "w"))

    asyncio.run(scenario())


def test_who_takes_a_shard_knows_whether_its_last_owner_is_still_connected(settings):
    async def scenario():
        pools = {
            worker: await open_pool(short(settings, 0.3), None, worker) for worker in ("frozen", "killed")
        }
        for number, (worker, pool) in enumerate(pools.items()):
            one = Claims(pool, worker)
            await one.renew({}, {})
            assert len(await one.take([number], 1)) == 1
        await pools["killed"].close()
        await asyncio.sleep(0.5)
        async with pool_of(settings) as pool:
            taken = await Claims(pool, "heir").take([0, 1], 2)
        assert {claim.shard: claim.connected for claim in taken} == {0: True, 1: False}
        await pools["frozen"].close()

    asyncio.run(scenario())

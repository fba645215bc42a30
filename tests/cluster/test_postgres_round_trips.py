"""Shards of a worker that ask at the same time share a round trip, and each gets only its own answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.migrate import open_pool
from skitter.backends.postgres.pool import Pool, options
from skitter.backends.postgres.round_trips import RoundTrips
from skitter.backends.postgres.store import PostgresStore
from skitter.engines.retry import patiently
from skitter.frontier.crashes import Suspicion
from skitter.frontier.rows import RETRY, Batch, Found, Heads, Meta, Opening, Span, Times, Wanted
from skitter.frontier.store import Store
from skitter.model import Visit
from skitter.ports import EngineAway, Fenced
from skitter.settings import Settings
from skitter.testing.contracts.owner import allowed, asynchronous, link
from skitter.testing.contracts.store import (
    HOST,
    EpochContract,
    LateContract,
    StoreContract,
    TripContract,
    a_host,
    a_page,
    full_url,
    ident,
)
from tests.cluster.postgres import empty, pool_of, schema, seize, settings_for
from tests.engines import engine

SHARDS = 20  # more than one load names


@pytest.fixture(scope="module")
def crawl() -> Iterator[Settings]:
    with schema(settings_for(engine("postgres")), SHARDS) as settings:
        yield settings


@pytest.fixture
def settings(crawl: Settings) -> Settings:
    empty(crawl)
    return crawl


class Team:
    """Stores of one worker, open, that share round trips."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.round_trips = RoundTrips(pool)
        self.stores: list[PostgresStore] = []

    async def take(self, shard: int) -> PostgresStore:
        store = PostgresStore(self.pool, shard, await seize(self.pool, shard), self.round_trips)
        await store.open()
        self.stores.append(store)
        return store

    async def each(self, call) -> list[Any]:
        """The same of all of them at the same time."""
        return await asyncio.gather(*map(call, self.stores), return_exceptions=True)


@asynccontextmanager
async def team_of(settings: Settings, shards: int) -> AsyncIterator[Team]:
    async with pool_of(settings) as pool:
        team = Team(pool)
        for shard in range(shards):
            await team.take(shard)
        yield team


def everything(shard: int, batch_number: int = 1) -> Batch:
    """Something for every table; of each shard another thing under the same keys."""
    number, page = shard + 1, a_page(1, digest=f"sha1:{shard}", simhash=2**63 + shard)
    copy = allowed("https://a.example", 5.0 + shard)
    batch = Batch(Meta(seq=number, positions={"links": str(shard)}), batch_number)
    batch.urls = {ident(1): full_url(1, score=float(shard)), ident(2): full_url(2, due=float(number))}
    batch.hosts = {HOST: a_host(HOST, bytes((1, shard)))}
    batch.pages, batch.robots = {page.id: page}, {copy.origin: copy}
    batch.leases = {ident(3): Visit(link(f"https://{HOST}/{shard}"), number, 1.0)}
    batch.suspects = {ident(4): Suspicion(number, 0)}
    return batch


def nothing_of_it() -> Batch:
    """Takes all of it away again."""
    gone = Batch(Meta(seq=99), 2)
    for name in ("urls", "pages", "robots", "leases", "suspects"):
        getattr(gone, name).update(dict.fromkeys(getattr(everything(0), name)))
    return gone


def every_question() -> Wanted:
    return Wanted(
        urls=[ident(1), ident(2), ident(9)],
        hosts=[HOST, "no.example"],
        robots=["https://a.example"],
        pages=[ident(1)],
        heads=[Heads(HOST, 2, None, 9), Heads("no.example", 2, None, 9)],
        agenda=[Span(b"\x01", b"\x02", 9)],
        times=[Times(RETRY, None, 9)],
        parked=[HOST],
        digests=[(HOST, f"sha1:{shard}") for shard in range(3)],
        simhashes=[(HOST, 2**63 + shard) for shard in range(3)],
        domains=[(HOST, 9)],
    )


async def all_of(store: PostgresStore) -> tuple[Opening, Found]:
    """All that a shard has."""
    opening = await store.open()
    return opening, await store.load(every_question())


# ------------------------------------------------------------------------------------------------ together


@asynchronous
async def test_what_shards_write_and_load_at_the_same_time_is_one_round_trip_and_to_each_its_own(settings):
    async with team_of(settings, 3) as team:
        for _ in range(2):  # the second time the statements are known
            before = team.pool.trips
            found = await team.each(lambda store: store.load(every_question()))
            assert team.pool.trips == before + 1
            before = team.pool.trips
            assert await team.each(lambda store: store.write(everything(store._shard))) == [None] * 3
            assert team.pool.trips == before + 1
        for shard, store in enumerate(team.stores):
            opening, found = await all_of(store)
            batch = everything(shard)
            assert (opening.meta, opening.leases, opening.suspects) == (
                batch.meta,
                batch.leases,
                batch.suspects,
            )
            assert (found.urls, found.hosts, found.pages) == (batch.urls, batch.hosts, batch.pages)
            assert found.robots == batch.robots
            assert [[row.score for row in rows] for rows in found.heads] == [[float(shard)], []]
            assert [[row.due for row in rows] for rows in found.times] == [[shard + 1.0]]
            assert [[row.place for row in rows] for rows in found.agenda] == [[bytes((1, shard))]]
            assert list(found.digests) == [(HOST, f"sha1:{shard}")]
            assert list(found.simhashes) == [(HOST, 2**63 + shard)]
            assert found.domains == {HOST: [2**63 + shard]}


@asynchronous
async def test_different_questions_to_a_shard_share_a_round_trip_and_no_row(settings):
    async with team_of(settings, 2) as team:
        first, second = team.stores
        await team.each(lambda store: store.write(everything(store._shard)))
        before = team.pool.trips
        one, two, other, none = await asyncio.gather(
            first.load(Wanted(urls=[ident(1)], heads=[Heads("no.example", 2, None, 9)])),
            first.load(Wanted(urls=[ident(1), ident(2)], heads=[Heads(HOST, 2, None, 9)], parked=[HOST])),
            second.load(Wanted(hosts=[HOST], times=[Times(RETRY, None, 9)])),
            second.load(Wanted(urls=[ident(9)], times=[Times(RETRY, (2.0, ident(2)), 9)])),
        )
        assert team.pool.trips == before + 1
        assert (list(one.urls), one.heads, one.parked) == ([ident(1)], [[]], {})
        assert [row.seq for row in two.heads[0]] == [1]
        assert (list(two.urls), two.parked) == ([ident(1), ident(2)], {HOST: []})
        assert (list(other.hosts), [row.seq for row in other.times[0]]) == ([HOST], [2])
        assert (none.urls, none.times) == ({}, [[]])
        one.urls[ident(1)].score = 1e9
        assert two.urls[ident(1)].score == 0.0


@asynchronous
async def test_more_shards_than_a_statement_names_all_hear_their_own(settings):
    async with team_of(settings, SHARDS) as team:
        await team.each(lambda store: store.write(everything(store._shard)))
        before = team.pool.trips
        found = await team.each(lambda store: store.load(Wanted(urls=[ident(1)])))
        assert team.pool.trips == before + 2
        assert [each.urls[ident(1)].score for each in found] == [float(shard) for shard in range(SHARDS)]


@asynchronous
async def test_a_shard_that_has_loaded_is_waited_for_before_another_writes(settings):
    """Between the two it may have something to do; nobody waits for one that has only been read from."""
    async with team_of(settings, 2) as team:
        first, second = team.stores
        await team.each(lambda store: store.load(Wanted(urls=[ident(1)])))
        before = team.pool.trips
        writing = asyncio.create_task(first.write(everything(0)))
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.gather(writing, second.write(everything(1)))
        assert team.pool.trips == before + 1


@asynchronous
async def test_a_batch_that_is_large_enough_is_written_alone(settings):
    async with team_of(settings, 2) as team:
        large = {(row := full_url(number)).id: row for number in range(3000)}
        before = team.pool.trips
        assert await team.each(lambda store: store.write(Batch(Meta(seq=1), 1, urls=large))) == [None] * 2
        assert team.pool.trips == before + 2
        assert [(await store.meta()).seq for store in team.stores] == [1, 1]


# ------------------------------------------------------------------------------------------------ fencing


@asynchronous
async def test_of_shards_that_write_together_one_with_an_old_epoch_changes_nothing_and_the_others_all(
    settings,
):
    async with team_of(settings, 3) as team:
        await team.each(lambda store: store.write(everything(store._shard)))
        before = await all_of(team.stores[1])
        await seize(team.pool, 1)
        trips = team.pool.trips
        ends = await team.each(lambda store: store.write(nothing_of_it()))
        assert team.pool.trips == trips + 1
        assert [type(end) for end in ends] == [type(None), Fenced, type(None)]
        assert await all_of(team.stores[1]) == before
        for store in (team.stores[0], team.stores[2]):
            opening, found = await all_of(store)
            assert (opening.meta.seq, opening.leases, opening.suspects) == (99, {}, {})
            assert (found.urls, found.pages, found.robots) == ({}, {}, {})
        another = await team.each(lambda store: store.write(everything(store._shard + 5, 3)))
        assert [type(end) for end in another] == [type(None), Fenced, type(None)]
        assert await all_of(team.stores[1]) == before
        assert (await team.stores[2].load(Wanted(hosts=[HOST]))).hosts == everything(7).hosts


@asynchronous
async def test_two_owners_of_a_shard_that_write_at_the_same_time_are_not_taken_for_each_other(settings):
    async with team_of(settings, 1) as team:
        old = team.stores[0]
        new = await team.take(0)
        ends = await asyncio.gather(
            old.write(everything(1)), new.write(everything(2)), return_exceptions=True
        )
        assert [type(end) for end in ends] == [Fenced, type(None)]
        assert (await new.meta()).seq == 3


@asynchronous
async def test_a_late_try_changes_nothing_and_the_other_shards_writes_do(settings):
    async with team_of(settings, 2) as team:
        late, timely = team.stores
        await late.write(Batch(Meta(seq=5), 2, urls={ident(1): full_url(1, score=2.0)}))
        ends = await team.each(
            lambda store: store.write(Batch(Meta(seq=4), 1, urls={ident(1): full_url(1, score=1.0)}))
        )
        assert ends == [None, None]
        assert [(await store.meta()).seq for store in (late, timely)] == [5, 4]
        found = await team.each(lambda store: store.load(Wanted(urls=[ident(1)])))
        assert [each.urls[ident(1)].score for each in found] == [2.0, 1.0]


@asynchronous
async def test_writes_that_meet_the_taking_of_one_shard_are_whole_or_nothing_for_each(settings):
    async with team_of(settings, 3) as team:
        seen = 0
        for number in range(30):
            if number:
                team.stores[1] = PostgresStore(team.pool, 1, await seize(team.pool, 1), team.round_trips)
            rows = {(row := full_url(100 * number + n)).id: row for n in range(1, 50)}
            writing = asyncio.create_task(
                team.each(lambda store, rows=rows: store.write(Batch(Meta(seq=1), urls=rows)))
            )
            await asyncio.sleep(0.0007 * (number % 10))
            await seize(team.pool, 1)
            ends = await writing
            there = [
                len(each.urls) for each in await team.each(lambda s, r=rows: s.load(Wanted(urls=list(r))))
            ]
            fenced = isinstance(ends[1], Fenced)
            assert (ends[0], ends[2]) == (None, None)
            assert there == [49, 0 if fenced else 49, 49]
            seen |= 1 + fenced
        assert seen == 3, "the race always ended the same way"


# ------------------------------------------------------------------------------------------------ trouble


@asynccontextmanager
async def held_up(settings: Settings, shard: int) -> AsyncIterator[asyncpg.Connection]:
    """Whoever writes this shard meanwhile waits."""
    connection = await asyncpg.connect(**options(settings.postgres))
    try:
        async with connection.transaction():
            name = settings.cluster.name
            await connection.execute(f'SELECT 1 FROM "{name}".shards WHERE shard = {shard} FOR UPDATE')
            yield connection
    finally:
        await connection.close()


async def waiting_for_us(connection: asyncpg.Connection) -> list[int]:
    """The processes of the server that wait for what we hold."""
    text = "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
    for _ in range(1000):
        if found := [row["pid"] for row in await connection.fetch(text)]:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("nobody waits")


@asynchronous
async def test_when_the_connection_is_lost_on_the_way_each_learns_it_and_may_try_again(settings):
    async with team_of(settings, 3) as team:
        async with held_up(settings, 1) as connection:
            writing = asyncio.create_task(team.each(lambda store: store.write(everything(store._shard))))
            (pid,) = await waiting_for_us(connection)
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
            ends = await writing
        assert [type(end) for end in ends] == [EngineAway] * 3
        assert [(await store.meta()).seq for store in team.stores] == [0, 0, 0]
        again = await team.each(lambda store: patiently(lambda: store.write(everything(store._shard))))
        assert again == [None] * 3
        assert [(await store.meta()).seq for store in team.stores] == [1, 2, 3]


@asynchronous
async def test_who_goes_away_takes_nothing_from_the_others(settings):
    async with team_of(settings, 3) as team:
        async with held_up(settings, 1) as connection:
            writes = [asyncio.create_task(store.write(everything(store._shard))) for store in team.stores]
            await waiting_for_us(connection)
            writes[1].cancel()
            await asyncio.wait([writes[1]])
        ends = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(end) for end in ends] == [type(None), asyncio.CancelledError, type(None)]
        assert [(await store.meta()).seq for store in team.stores] == [1, 2, 3]


@asynchronous
async def test_when_all_have_gone_away_nobody_holds_a_connection_for_them(settings):
    async with team_of(settings, 3) as team:
        async with held_up(settings, 1) as connection:
            writes = [asyncio.create_task(store.write(everything(store._shard))) for store in team.stores]
            await waiting_for_us(connection)
            for one in writes:
                one.cancel()
            await asyncio.wait(writes)
            assert (await team.stores[0].meta()).seq == 0
            assert team.pool._pool.get_idle_size() == team.pool._pool.get_size()
        await team.each(lambda store: store.load(Wanted(urls=[ident(1)])))
        first = asyncio.create_task(team.stores[2].write(everything(2)))
        await asyncio.sleep(0)
        first.cancel()  # while it waits for the others
        assert await team.each(lambda store: store.write(everything(store._shard))) == [None] * 3


@asynchronous
async def test_signs_of_life_and_writes_of_many_shards_do_not_stand_in_each_others_way(settings):
    """They lock the same rows: in one order, else each might wait for the other."""
    async with pool_of(settings) as pool:
        claims, round_trips = Claims(pool, "worker"), RoundTrips(pool)
        taken = {claim.shard: claim.epoch for claim in await claims.take(range(8), 8)}
        backwards = dict(sorted(taken.items(), reverse=True))
        stores = [PostgresStore(pool, shard, epoch, round_trips) for shard, epoch in backwards.items()]

        async with held_up(settings, 4) as connection:  # each has the rows before this one, by its own order
            writing = asyncio.gather(*(store.write(Batch(Meta(seq=1))) for store in stores))
            await waiting_for_us(connection)
            renewing = asyncio.create_task(claims.renew(backwards, {}))
            await asyncio.sleep(0.2)
        await writing
        assert (await renewing).held == set(range(8))


# ------------------------------------------------------------------------------------------------ the contract, shared


class SharingStore(PostgresStore):
    """A store whose every load and write shares its round trip with the same of another shard."""

    other: PostgresStore

    async def load(self, wanted: Wanted) -> Found:
        found, _ = await asyncio.gather(super().load(wanted), self.other.load(wanted))
        return found

    async def write(self, batch: Batch) -> None:
        trips = self._pool.trips
        mine, theirs = await asyncio.gather(
            super().write(batch), self.other.write(batch), return_exceptions=True
        )
        assert theirs is None
        assert self._pool.trips == trips + 1 or len(batch.urls) > 1000
        if mine is not None:
            raise mine

    async def close(self) -> None:
        await self._pool.close()


class SharedGround:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._claims = 0

    async def claim(self) -> Store:
        self._claims += 1
        team = Team(await open_pool(self.settings))
        store = SharingStore(team.pool, 0, await seize(team.pool, 0), team.round_trips)
        store.other = await team.take(self._claims)
        await store.open()
        return store


class TestShared(StoreContract, EpochContract, TripContract, LateContract):
    """Sharing a round trip changes nothing."""

    @pytest.fixture
    def ground(self, settings: Settings) -> SharedGround:
        return SharedGround(settings)

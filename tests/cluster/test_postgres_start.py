"""The schema is made once, and what is wrong is said in one line with its setting before any crawling."""

import asyncio

import asyncpg
import pytest
from msgspec import structs
from msgspec.msgpack import encode

from skitter.backends.postgres import columns
from skitter.backends.postgres import migrate as migrating
from skitter.backends.postgres.migrate import drop, migrate, migrations, open_pool
from skitter.backends.postgres.store import PostgresStore
from skitter.frontier import ShardFrontier
from skitter.frontier.names import hash16
from skitter.frontier.rows import UrlRow, new_host
from skitter.model import State, Visit
from skitter.ports import EngineError
from skitter.settings import Settings
from skitter.testing.contracts.owner import link
from tests.cluster.postgres import pool_of, schema, seize, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Settings:
    return settings_for(engine("postgres"))


def altered(settings: Settings, **changes) -> Settings:
    return structs.replace(settings, postgres=structs.replace(settings.postgres, **changes))


def refusal(settings: Settings, shards: int | None = None) -> str:
    with pytest.raises(EngineError) as caught:
        asyncio.run(open_pool(settings, shards))
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_a_schema_is_made_once_and_migrating_is_safe_to_repeat(settings):
    with schema(settings, shards=3):
        assert asyncio.run(migrate(settings, 3)) == []

        async def look():
            async with pool_of(settings) as pool:
                return await pool._pool.fetchval(f'SELECT count(*) FROM "{pool.schema}".shards')

        assert asyncio.run(look()) == 3


def test_two_that_migrate_at_once_do_it_once(settings):
    async def both():
        return await asyncio.gather(*(migrate(settings, 2) for _ in range(3)))

    try:
        assert sorted(asyncio.run(both()), key=len) == [[], [], list(migrations())]
    finally:
        asyncio.run(drop(settings))


def test_a_migration_that_breaks_off_has_done_nothing(settings, monkeypatch):
    broken = {**migrations(), 9999: ("broken", "CREATE TABLE half (x int); SELECT nonsense")}
    monkeypatch.setattr(migrating, "migrations", lambda: broken)
    with pytest.raises(asyncpg.PostgresError):
        asyncio.run(migrate(settings, 2))
    monkeypatch.undo()
    assert "has no crawl" in refusal(settings)


def test_a_missing_schema_is_said_with_the_command_that_makes_it(settings):
    said = refusal(settings)
    assert said.startswith("PostgreSQL: cluster.name: ")
    assert "run `skitter cluster init`" in said


def test_another_number_of_shards_is_refused_by_both(settings):
    with schema(settings, shards=2):
        assert "has 2 shards, not 4" in refusal(settings, shards=4)
        with pytest.raises(EngineError, match="has 2 shards, not 4"):
            asyncio.run(migrate(settings, 4))


def test_a_schema_of_another_version_is_refused(settings, monkeypatch):
    with schema(settings):
        monkeypatch.setattr(migrating, "migrations", lambda: {**migrations(), 9999: ("next", "SELECT 1")})
        assert "lacks migration 9999" in refusal(settings)
        asyncio.run(migrate(settings, 2))
        monkeypatch.undo()
        assert "made by a newer Skitter (migration 9999)" in refusal(settings)


def test_a_crawl_of_skitter_0_1_goes_on_after_its_schema_is_brought_up_to_date(settings, monkeypatch):
    """There a URL that was out for a visit had a state of its own, and had left its queue."""

    async def a_visit_is_out():
        async with pool_of(settings) as pool:
            table = f'"{pool.schema}"'
            url = "https://a.example/1"
            visit = Visit(link(url), 1, 5.0)
            id16 = hash16(url.encode())
            row = columns._url_values(UrlRow(id16, url, url, "a.example", "a.example", seq=1))
            places = ", ".join(f"${number}" for number in range(2, len(row) + 2))
            await pool._pool.execute(f"INSERT INTO {table}.urls VALUES ($1, {places})", 0, *row)
            await pool._pool.execute(f"UPDATE {table}.urls SET state = 'crawling'")
            host = columns._host_values(new_host("a.example", "a.example"))[:-1]
            queues = encode(([0] * 5, [None] * 5, 0, 0, 0))
            places = ", ".join(f"${number}" for number in range(2, len(host) + 3))
            await pool._pool.execute(f"INSERT INTO {table}.hosts VALUES ($1, {places})", 0, *host, queues)
            await pool._pool.execute(f"INSERT INTO {table}.leases VALUES (0, $1, $2)", id16, encode(visit))

    async def goes_on():
        async with pool_of(settings) as pool:
            frontier = ShardFrontier(PostgresStore(pool, 0, await seize(pool, 0)), settings)
            opened = await frontier.open(10.0)
            states = {record.url: record.state async for record in frontier.urls()}
            (robots,) = await frontier.lease(9, 20.0)
            await frontier.close(20.0)
            return [visit.link.url for visit in opened.lost], states, robots.link.url

    of_then = {number: text for number, text in migrations().items() if number < 8}
    monkeypatch.setattr(migrating, "migrations", lambda: of_then)
    with schema(settings):
        asyncio.run(a_visit_is_out())
        monkeypatch.undo()
        assert "lacks migration 8" in refusal(settings)
        assert asyncio.run(migrate(settings, 2)) == [number for number in migrations() if number >= 8]
        lost, states, asked = asyncio.run(goes_on())
    assert lost == ["https://a.example/1"]
    assert states == {"https://a.example/1": State.QUEUED}
    assert asked == "https://a.example/robots.txt"


@pytest.mark.parametrize(
    ("changes", "setting", "words"),
    [
        (
            {"addresses": ("127.0.0.1:9",)},
            "postgres.addresses",
            "no server that takes writes answers at 127.0.0.1:9",
        ),
        ({"addresses": ("127.0.0.1:no",)}, "postgres.addresses", "is no host:port"),
        ({"database": "nowhere"}, "postgres.database", "nowhere"),
        ({"user": "nobody-here"}, "postgres.user", "nobody-here"),
        ({"tls": True}, "postgres.tls", "correct postgres.tls"),
        ({"tls": True, "ca_file": "/no/such/file"}, "postgres.ca_file", "name a readable file"),
    ],
)
def test_a_wrong_setting_is_named(settings, changes, setting, words):
    said = refusal(altered(settings, **changes))
    assert said.startswith(f"PostgreSQL: {setting}: ")
    assert words in said


def test_a_wrong_password_is_said_without_the_password(settings, monkeypatch):
    monkeypatch.setenv("SKITTER_POSTGRES_PASSWORD", "hunter2")
    problem = asyncpg.InvalidPasswordError('password authentication failed for user "skitter"')

    async def refuse(**_):
        raise problem

    monkeypatch.setattr(asyncpg, "create_pool", refuse)
    said = refusal(settings)
    assert said.startswith("PostgreSQL: postgres.user: password authentication failed")
    assert "hunter2" not in said


def test_the_first_address_that_takes_writes_is_used(settings):
    several = altered(settings, addresses=("127.0.0.1:9", *settings.postgres.addresses))
    with schema(settings):

        async def look():
            async with pool_of(several) as pool:
                return await pool._pool.fetchval("SELECT 1")

        assert asyncio.run(look()) == 1


def test_a_schema_may_be_called_anything(settings):
    odd = structs.replace(settings, cluster=structs.replace(settings.cluster, name='a "b" {c} :d'))
    with schema(odd):
        asyncio.run(open_pool_and_close(odd))


async def open_pool_and_close(settings: Settings) -> None:
    async with pool_of(settings):
        pass

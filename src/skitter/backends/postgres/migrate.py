"""The schema of a crawl: created and updated by `cluster init`, checked by everybody else.

Migrations are numbered `.sql` files, applied in order and recorded in the schema itself. All of it is one transaction
under a lock: of two that start at once, one does the work, and an interrupted one has done nothing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from typing import Any

import asyncpg

from skitter.backends.postgres.pool import Pool, connect, explained, options, unfit
from skitter.backends.postgres.pooler import end, refuse_pooler
from skitter.backends.postgres.statements import Texts, quoted
from skitter.cluster.ports import NoCrawl
from skitter.settings import Settings

_PARTITIONED = ("urls", "pages", "hosts", "robots")
# One partition per shard up to here; beyond that, shards share partitions. Each is some twenty relations: the
# transaction that creates them locks all of them (6,400 locks by default), and a session caches those it has
# seen.
_PARTITIONS = 256
# Every page updates its row and its host's: with the usual fifth of a large partition, dead rows would pile up.
_VACUUM = "autovacuum_vacuum_scale_factor = 0.05"
_JOBS = "migrations_jobs"  # the folder with those of the schema of jobs
_DROPPING = 3600.0  # seconds: large tables are many files
_OCCUPIED = """
    SELECT EXISTS (SELECT FROM pg_class c, pg_namespace n WHERE n.nspname = $1 AND c.relnamespace = n.oid)
        OR EXISTS (SELECT FROM pg_proc p, pg_namespace n WHERE n.nspname = $1 AND p.pronamespace = n.oid)
"""


@cache
def migrations(folder: str = "migrations") -> dict[int, tuple[str, str]]:
    """Name and text of every migration, by number."""
    found = {}
    for file in (resources.files(__package__) / folder).iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            found[int(number)] = (name, file.read_text("utf-8"))
    return dict(sorted(found.items()))


async def migrate(settings: Settings, shards: int) -> list[int]:
    """Create or update the schema of a crawl with this many shards; returns the migrations applied. Safe to repeat."""
    async with connected(settings) as connection, connection.transaction():
        return await _apply(connection, settings.cluster.name, shards)


async def migrate_jobs(settings: Settings, schema: str) -> None:
    """Create or update the schema of a cluster's jobs. Safe to repeat."""
    async with connected(settings) as connection, connection.transaction():
        await _lock(connection, schema)
        if not await _has(connection, schema, "migrations", "crawl_jobs"):
            if await connection.fetchval(_OCCUPIED, schema):
                raise unfit(
                    "cluster.name", f"the schema {schema} is there and holds no jobs; choose another name"
                )
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        await _migrated(connection, schema, migrations(_JOBS))


async def look(settings: Settings) -> bool:
    """Whether there is a crawl of this name. EngineError if it has other shards, or the schema is not a crawl's.

    Nothing is changed.
    """
    schema = settings.cluster.name
    async with connected(settings) as connection:
        if not await _check_free(connection, schema):
            return False
        there = await connection.fetchval(f"SELECT count(*) FROM {quoted(schema)}.shards")  # noqa: S608  a schema is no parameter
    _check_shards(there, settings.crawl.shards, schema)
    return True


async def _check_free(connection: Any, schema: str) -> bool:  # noqa: ANN401
    """Whether the schema is a crawl's; EngineError if it holds something else."""
    if await _is_crawl(connection, schema):
        return True
    if await connection.fetchval(_OCCUPIED, schema):
        fix = "another name is needed, since `skitter cluster remove` takes the whole schema"
        raise unfit("cluster.name", f"the schema {schema} is there and is no crawl's; {fix}")
    return False


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Any]:
    """One connection for changing the schema."""
    chosen = options(settings.postgres)
    try:
        connection = await asyncpg.connect(**chosen)
        try:
            await refuse_pooler(connection, chosen)
        except BaseException:
            connection.terminate()
            raise
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        raise explained(problem, settings.postgres) from None
    try:
        yield connection
    except asyncpg.InsufficientPrivilegeError as problem:
        raise explained(problem, settings.postgres) from None
    finally:
        await end(connection)


async def _apply(connection: Any, schema: str, shards: int) -> list[int]:  # noqa: ANN401
    await _lock(connection, schema)
    await _check_free(connection, schema)
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    missing = await _migrated(connection, schema, migrations())
    await _make_shards(connection, schema, shards)
    return missing


async def _lock(connection: Any, schema: str) -> None:  # noqa: ANN401
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"skitter {schema}")


async def _migrated(connection: Any, schema: str, wanted: dict[int, tuple[str, str]]) -> list[int]:  # noqa: ANN401
    """Apply what is missing, in the schema's own name space."""
    await connection.execute(f"SET LOCAL search_path TO {quoted(schema)}")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    known = {record["number"] for record in await connection.fetch("SELECT number FROM migrations")}
    _check_known(known, schema, wanted)
    missing = [number for number in wanted if number not in known]
    for number in missing:
        name, text = wanted[number]
        await connection.execute(text)
        await connection.execute("INSERT INTO migrations (number, name) VALUES ($1, $2)", number, name)
    return missing


async def _make_shards(connection: Any, schema: str, shards: int) -> None:  # noqa: ANN401
    """A row for each shard, and the partitions of the large tables. Their number never changes: hosts hash to it."""
    there = await connection.fetchval("SELECT count(*) FROM shards")
    if there:
        _check_shards(there, shards, schema)
        return
    if shards > _PARTITIONS:
        await connection.execute(
            (resources.files(__package__) / "sql" / "shared_partitions.sql").read_text("utf-8")
        )
    for first in range(min(shards, _PARTITIONS)):
        held = ", ".join(str(shard) for shard in range(first, shards, _PARTITIONS))
        for table in _PARTITIONED:
            await connection.execute(
                f"CREATE TABLE {table}_{first:04} PARTITION OF {table} FOR VALUES IN ({held}) WITH ({_VACUUM})"
            )
    # Epochs start at the current time: workers of an earlier, removed crawl of this name have lower ones.
    await connection.execute(
        "INSERT INTO shards (shard, epoch) SELECT generate_series(0, $1 - 1), extract(epoch FROM now())::bigint",
        shards,
    )


def _check_known(known: set[int], schema: str, ours: dict[int, tuple[str, str]]) -> None:
    if newer := known - set(ours):
        raise unfit(
            "cluster.name",
            f"the schema {schema} was made by a newer Skitter (migration {max(newer)}); upgrade this one",
        )


def _check_shards(there: int, shards: int, schema: str) -> None:
    if there != shards:
        raise unfit(
            "cluster.name",
            f"the schema {schema} has {there} shards, not {shards}, and keeps them; set crawl.shards to {there}, or name"
            " another cluster",
        )


async def open_pool(settings: Settings, shards: int | None = None, worker: str = "") -> Pool:
    """Connections to an up-to-date schema; EngineError if there is none."""
    pool = await connect(settings, name=worker)
    try:
        await _check(pool, shards)
    except BaseException:
        await pool.close()
        raise
    return pool


async def _check(pool: Pool, shards: int | None) -> None:
    try:
        row = await pool.row(Texts(pool.schema).one("read", "versions"), {})
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        database = pool.settings.postgres.database
        fix = "run `skitter cluster init`, or correct the name or postgres.database"
        missing = f"the database {database} has no crawl {pool.schema}; {fix}"
        raise NoCrawl(str(unfit("cluster.name", missing))) from None
    except asyncpg.InsufficientPrivilegeError as problem:
        raise explained(problem, pool.settings.postgres) from None
    known = set(row["known"])
    _check_known(known, pool.schema, migrations())
    if lacking := set(migrations()) - known:
        raise unfit(
            "cluster.name",
            f"the schema {pool.schema} lacks migration {min(lacking)}; stop the workers and run `skitter cluster init`",
        )
    if shards is not None:
        _check_shards(row["shards"], shards, pool.schema)


async def drop(settings: Settings) -> bool:
    """Remove a crawl from the database; returns whether it existed. A schema that is not a crawl's stays."""
    schema, patience = settings.cluster.name, settings.postgres.timeout
    async with connected(settings) as connection:
        if not await _is_crawl(connection, schema):
            return False
        await connection.execute(f"SET statement_timeout = 0; SET lock_timeout = '{patience * 1000:.0f}ms'")
        try:
            await connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE", timeout=_DROPPING)
        except asyncpg.LockNotAvailableError:
            fix = "wait until that is over, a backup perhaps, and try again"
            raise unfit("cluster.name", f"somebody else reads the schema {schema}; {fix}") from None
    return True


async def _is_crawl(connection: Any, schema: str) -> bool:  # noqa: ANN401
    return await _has(connection, schema, "migrations", "shards")


async def _has(connection: Any, schema: str, *tables: str) -> bool:  # noqa: ANN401
    ours = [f"{quoted(schema)}.{table}" for table in tables]
    return bool(
        await connection.fetchval(
            "SELECT bool_and(to_regclass(t) IS NOT NULL) FROM unnest($1::text[]) t", ours
        )
    )

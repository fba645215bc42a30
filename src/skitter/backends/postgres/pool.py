"""Connections to PostgreSQL: to whichever address accepts writes, a few per worker.

If the first contact fails, the operator gets one line with the setting to fix. Afterwards a server that is away is
`EngineAway`, and the caller may try again: statements are single and repeatable. All of them start at `Pool.rows`,
behind one breaker.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from skitter.backends.postgres.pooler import refuse_pooler, unusable
from skitter.backends.postgres.statements import Statement
from skitter.engines.breaker import Guard
from skitter.ports import EngineAway, EngineError, Unstorable
from skitter.runtime.aside import CLOSING
from skitter.settings import Settings
from skitter.settings.engines import PostgresSettings
from skitter.settings.secrets import secret

OLDEST = 13
# It logs a traceback, again and again, for what callers get as EngineAway.
logging.getLogger("asyncpg").setLevel(logging.CRITICAL)

_CONNECT = 10.0  # seconds for a new connection
_STATEMENTS = 500  # prepared statements cached per connection: a handful per shard and shape of a batch

# Temporary: the connection broke, or the server stops, starts, is full or no longer accepts writes.
_PASSING = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresIOError,
    # What asyncpg raises if the server's last message arrives just as a statement is sent.
    asyncpg.InternalClientError,
)


# Permanent: a value that the server, or asyncpg on its behalf, never accepts.
_REFUSED = (ValueError, asyncpg.DataError, asyncpg.ProgramLimitExceededError)


# asyncpg's pool logs a traceback for every attempt to reconnect; we log one line, once.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)


class Pool:
    """Connections, and statements run on them one at a time, behind a breaker."""

    def __init__(self, pool: Any, settings: Settings) -> None:  # noqa: ANN401  asyncpg has no types
        self._pool = pool
        self.settings = settings
        self.schema = settings.cluster.name
        self.guard = Guard("PostgreSQL", self.check)
        self.trips = 0

    async def row(self, statement: Statement, values: Mapping[str, Any], within: float | None = None) -> Any:  # noqa: ANN401
        """The one row that a statement returns, or None."""
        rows = await self.rows(statement, values, within)
        return rows[0] if rows else None

    async def rows(
        self, statement: Statement, values: Mapping[str, Any], within: float | None = None
    ) -> list[Any]:
        """Run a statement that may be repeated: one round trip, or EngineAway.

        It fails after `within` seconds, connecting included, if that is sooner than the limit for any statement
        (`postgres.timeout`).
        """
        arguments = statement.arguments(values)
        async with self.guard.guard():
            try:
                async with asyncio.timeout(within):
                    return await self._fetched(statement.text, arguments)
            except TimeoutError:
                raise away(TimeoutError(f"no answer within {within:g} s")) from None

    async def check(self) -> None:
        """EngineAway unless the server answers."""
        try:
            await self._fetched("SELECT 1", ())
        except asyncpg.PostgresError as problem:  # it answers, but rejects us
            raise away(problem) from None

    async def _fetched(self, text: str, arguments: Sequence[Any]) -> list[Any]:
        try:
            connection = await self._pool.acquire(timeout=_CONNECT)
        except _PASSING as problem:
            raise away(problem) from None
        try:
            self.trips += 1
            rows: list[Any] = await connection.fetch(text, *arguments)
        except _REFUSED as problem:  # first: asyncpg counts some of them among its InterfaceErrors
            await self._pool.release(connection)
            raise Unstorable(" ".join(f"PostgreSQL: {problem}".split())) from problem
        except _PASSING as problem:
            # Whatever it was, drop this connection: a demoted server would go on refusing writes.
            _drop(connection)
            raise away(problem) from None
        except asyncio.CancelledError:
            _drop(connection)  # it would wait for the server's answer
            raise
        except asyncpg.PostgresError:  # a bug of ours, or the schema is missing
            await self._pool.release(connection)
            raise
        with suppress(*_PASSING):  # we have our answer
            await self._pool.release(connection)
        return rows

    async def close(self) -> None:
        """Close every connection."""
        try:
            await asyncio.wait_for(self._pool.close(), CLOSING)
        except _PASSING:  # it does not answer; our ends are closed all the same
            self._pool.terminate()


def _drop(connection: Any) -> None:  # noqa: ANN401
    """End a connection at once. The pool notices."""
    with suppress(asyncpg.InterfaceError):  # it is gone already
        connection.terminate()


async def _nothing(_: Any) -> None:  # noqa: ANN401
    """Our statements leave nothing behind in a session, and resetting it would be another round trip."""


def unfit(setting: str, fix: str) -> EngineError:
    """What is wrong with the setting, and what to do, in one line."""
    return EngineError(" ".join(f"PostgreSQL: {setting}: {fix}".split()))


def away(problem: BaseException) -> EngineAway:
    """The server cannot do what it was asked right now."""
    return EngineAway(" ".join(f"PostgreSQL: {problem or type(problem).__name__}".split()))


async def connect(settings: Settings, size: int | None = None, name: str = "") -> Pool:
    """Connections to the server that accepts writes; EngineError if there is none. `name` identifies them."""
    postgres = settings.postgres
    # While the server is away the pool tries to keep its minimum of one connection, and logs a traceback for
    # each failure. Callers get the error, and log it once.
    logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)
    chosen = options(postgres, name)
    try:
        pool = await asyncpg.create_pool(
            **chosen,
            min_size=1,
            max_size=size or max(postgres.connections, 1),
            statement_cache_size=_STATEMENTS,
            max_cacheable_statement_size=64 * 2**10,
            max_cached_statement_lifetime=0,
            reset=_nothing,
        )
        try:
            async with pool.acquire() as connection:
                await refuse_pooler(connection, chosen)
        except BaseException:
            pool.terminate()
            raise
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        raise explained(problem, postgres) from None
    opened = Pool(pool, settings)
    version = (await opened.rows(Statement("SELECT current_setting('server_version_num')::int"), {}))[0][0]
    if version < OLDEST * 10_000:
        await opened.close()
        raise unfit(
            "postgres.addresses",
            f"the server is PostgreSQL {version // 10_000}; run {OLDEST} or newer",
        )
    return opened


def options(settings: PostgresSettings, name: str = "") -> dict[str, Any]:
    """How to reach the server, in asyncpg's terms."""
    places = [_place(address) for address in settings.addresses]
    return {
        "host": [host for host, _ in places],
        "port": [port for _, port in places],
        "database": settings.database,
        "user": settings.user,
        "password": secret("postgres.password_file", settings.password_file) or None,
        "ssl": _tls(settings) if settings.tls else False,
        "timeout": _CONNECT,
        "command_timeout": settings.timeout,
        "target_session_attrs": "read-write",
        "server_settings": {
            "application_name": name or "skitter",  # shows other workers that this one is connected
            "statement_timeout": str(int(settings.timeout * 1000)),
            "jit": "off",  # statements are short and many
            # A crawl outgrows the planner's statistics within minutes: the best plan for an empty table, to
            # read all of it, is ruinous for a full one. Every statement of ours has its index.
            "enable_seqscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            # So there is one plan, and no planning again for every thousand keys.
            "plan_cache_mode": "force_generic_plan",
        },
    }


def _place(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        return address, 5432
    if not port.isdigit():
        raise unfit("postgres.addresses", f"{address!r} is no host:port; write for example 127.0.0.1:5432")
    return host.strip("[]"), int(port)


def _tls(settings: PostgresSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except OSError as problem:
        raise unfit("postgres.ca_file", f"{settings.ca_file}: {problem}; name a readable file") from None


_CAUSES: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    (
        (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
        "postgres.user",
        "{said}; correct postgres.user or the password (SKITTER_POSTGRES_PASSWORD or postgres.password_file)",
    ),
    ((asyncpg.InvalidCatalogNameError,), "postgres.database", "{said}; create it, or name another"),
    ((asyncpg.InsufficientPrivilegeError,), "postgres.user", "{said}; give this user the right to do it"),
    ((ssl.SSLError,), "postgres.tls", "{said}; correct postgres.tls or postgres.ca_file"),
)


def explained(problem: BaseException, settings: PostgresSettings) -> EngineError:
    """The setting behind a failure to connect."""
    said = str(problem)
    if "unsupported startup parameter" in said:
        return unusable(options(settings), f"takes no settings of a session ({said})")
    if "no encryption" in said or "SSL off" in said:  # of a connection without TLS
        return unfit("postgres.tls", f"{said}; set postgres.tls, or let this host in without (pg_hba.conf)")
    for kinds, setting, fix in _CAUSES:
        if isinstance(problem, kinds):
            return unfit(setting, fix.format(said=problem))
    where = ", ".join(settings.addresses)
    if "SSL" in str(problem):  # asyncpg's message if the server does not speak TLS
        return unfit(
            "postgres.tls", f"{problem}; correct postgres.tls, or let the server at {where} speak it"
        )
    return unfit(
        "postgres.addresses",
        f"no server that takes writes answers at {where} ({problem or type(problem).__name__}); start it or correct the address",
    )

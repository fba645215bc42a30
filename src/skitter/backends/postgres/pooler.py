"""Detects a pooler between us and PostgreSQL, and refuses one that would break our statements.

Our statements are prepared once per session, and planned by that session's settings (`pool.options`). A pooler in
session mode that passes these settings on is as good as the server. One in transaction mode (PgBouncer's usual one)
gives every transaction to any free session: a statement prepared in another one is missing, now and then, under load.
So this is checked when a worker starts.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import asyncpg

from skitter.ports import EngineError
from skitter.runtime.aside import CLOSING

_LOOK = """
    SELECT current_setting('plan_cache_mode') AS plan_cache_mode, current_setting('enable_seqscan') AS enable_seqscan,
        inet_server_port() AS port
"""
_INSTEAD = (
    "name the server itself, or a pooler in session mode whose user has these settings (ALTER ROLE … SET)"
)


async def refuse_pooler(connection: Any, options: Mapping[str, Any]) -> None:  # noqa: ANN401  asyncpg has no types
    """EngineError if this session is shared, or lacks the settings in `options`, which made the connection."""
    row = await connection.fetchrow(_LOOK)
    wanted = options["server_settings"]
    for name in ("plan_cache_mode", "enable_seqscan"):
        if row[name] != wanted[name]:
            raise unusable(options, f"does not keep the settings of a session ({name} is {row[name]})")
    if row["port"] not in options["port"]:  # a pooler has another port, and so does a mapped server
        await _refuse_shared_sessions(options)


async def _refuse_shared_sessions(options: Mapping[str, Any]) -> None:
    """Prepare a statement, let another connection take the session if possible, and look for the statement."""
    first = await asyncpg.connect(**options, statement_cache_size=0)
    try:
        second = await asyncpg.connect(**options, statement_cache_size=0)
        try:
            await first.execute("PREPARE skitter_look AS SELECT 1")
            await second.execute("BEGIN; SELECT 1")  # from here on it has its own session
            await first.execute("EXECUTE skitter_look; DEALLOCATE skitter_look")
        except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
            with suppress(asyncpg.PostgresError):  # the next user of that session should not find it
                await second.execute("DEALLOCATE skitter_look")
            why = "gives every transaction another session, where our prepared statements are not (transaction mode)"
            raise unusable(options, why) from None
        finally:
            await end(second)
    finally:
        await end(first)


async def end(connection: Any) -> None:  # noqa: ANN401
    """Close a connection, whether or not the server answers."""
    with suppress(OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresError):
        await connection.close(timeout=CLOSING)


def unusable(options: Mapping[str, Any], why: str) -> EngineError:
    """One line with the reason and what to do."""
    where = ", ".join(f"{host}:{port}" for host, port in zip(options["host"], options["port"], strict=True))
    return EngineError(f"PostgreSQL: postgres.addresses: a pooler answers at {where} and {why}; {_INSTEAD}")

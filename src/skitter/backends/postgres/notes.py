"""Which topics a crawl uses, recorded where the other crawls of the same database can read it.

It is a comment on the crawl's table of shards: anybody may read it, even without rights in that schema, and one
statement finds those of all crawls.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from skitter.backends.postgres.migrate import connected
from skitter.backends.postgres.statements import quoted
from skitter.settings import Settings

_NOTES = """
    SELECT n.nspname AS crawl, obj_description(c.oid, 'pg_class') AS note
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'shards' AND c.relkind = 'r' AND obj_description(c.oid, 'pg_class') LIKE '{"skitter_topics"%'
"""


class Topics(Struct, frozen=True):
    """The topics of a crawl, and their Kafka cluster."""

    kafka: str
    names: frozenset[str]


async def noted(settings: Settings) -> dict[str, Topics]:
    """The recorded topics of every crawl in this database, by the crawl's name."""
    async with connected(settings) as connection:
        rows = await connection.fetch(_NOTES)
    found = {}
    for row in rows:
        kafka, *names = json.loads(row["note"])["skitter_topics"]
        found[row["crawl"]] = Topics(kafka, frozenset(names))
    return found


async def note(settings: Settings, kafka: str, names: Sequence[str]) -> None:
    """Record the topics of this crawl."""
    said = json.dumps({"skitter_topics": [kafka, *sorted(names)]})
    async with connected(settings) as connection:
        table = f"{quoted(settings.cluster.name)}.shards"
        await connection.execute(
            await connection.fetchval(
                "SELECT format($1, $2::text)", f"COMMENT ON TABLE {table.replace('%', '%%')} IS %L", said
            )
        )

"""Batches of several shards in one statement: its pieces, and its values, one array per column.

Every row names its shard, and the database skips rows whose writer no longer owns the shard (`sql/write.sql`). So the
answer to one shard never depends on the others in the statement.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from skitter.backends.postgres import columns
from skitter.backends.postgres.statements import Piece
from skitter.frontier.rows import Batch


class Entry(NamedTuple):
    """What the owner of a shard writes, under its epoch."""

    shard: int
    epoch: int
    batch: Batch

    def rows(self) -> int:
        """The number of rows."""
        return sum(len(getattr(self.batch, name)) for name in _TABLES)


def describe(entries: Sequence[Entry]) -> tuple[list[Piece], dict[str, Any]]:
    """The pieces of the statement, and its values. At most one entry per shard."""
    values: dict[str, Any] = columns.meta_arguments([entry.batch.meta for entry in entries])
    values |= {
        "shard": [entry.shard for entry in entries],
        "epoch": [entry.epoch for entry in entries],
        "batch": [entry.batch.number for entry in entries],
    }
    pieces = [Piece("owner")]
    for name, arguments in _TABLES.items():
        kept: list[tuple[int, Any, Any]] = []
        gone: list[tuple[int, Any]] = []
        for shard, _, batch in entries:
            for key, row in getattr(batch, name).items():
                if row is None:
                    gone.append((shard, key))
                else:
                    kept.append((shard, key, row))
        if kept:
            shards, keys, rows = map(list, zip(*kept, strict=True))
            pieces.append(Piece(name))
            values |= {f"{name}_shard": shards, **arguments(keys, rows)}
        if gone:
            pieces += _gone(name, gone, values)
    return pieces, values


def _gone(name: str, gone: Sequence[tuple[int, Any]], values: dict[str, Any]) -> list[Piece]:
    if name not in _PARTITIONED:
        values[f"gone_{name}_shard"], values[f"gone_{name}"] = map(list, zip(*gone, strict=True))
        return [Piece(f"{name}_gone")]
    shards = list(dict.fromkeys(shard for shard, _ in gone))
    for shard in shards:
        values[f"gone_{name}_{shard}"] = [key for of, key in gone if of == shard]
    return [Piece(f"{name}_gone", shard) for shard in shards]


_PARTITIONED = ("urls", "pages", "robots")
_Arguments = Callable[[list[Any], list[Any]], dict[str, Any]]
_TABLES: dict[str, _Arguments] = {  # by the field of a batch, which has the name of its table
    "urls": lambda _, rows: columns.url_arguments(rows),
    "hosts": lambda _, rows: columns.host_arguments(rows),
    "pages": lambda _, rows: columns.page_arguments(rows),
    "robots": lambda _, rows: columns.robots_arguments(rows),
    "learned": columns.learned_arguments,
    "leases": columns.lease_arguments,
    "suspects": columns.suspect_arguments,
}

"""Who owns which shard, by leases in the database and by its clock.

A lease is short and renewed often. Taking a shard raises its epoch, after which nothing that the last owner writes has any
effect; so a worker that was frozen learns of its loss from its next write, or its next renewal, whichever comes first.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from skitter.backends.postgres import columns
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.statements import Texts
from skitter.model import Counts


class Claim(Struct, frozen=True):
    """A shard that was taken. `lapsed`: when the lease of an owner that did not give it back ended; None when it did."""

    shard: int
    epoch: int
    now: float
    lapsed: float | None = None


class Renewal(Struct, frozen=True):
    """A sign of life, and what the database says meanwhile."""

    now: float
    held: frozenset[int]  # shards that are still ours, for another lease
    free: Sequence[int]  # shards that nobody owns
    others: int  # workers that gave a sign of life within the last lease
    shards: int


class Standing(Struct, frozen=True):
    """A shard as it stands."""

    shard: int
    owner: str  # empty: nobody's
    epoch: int
    lease_until: float
    counts: Counts
    mail: Mapping[str, str]
    now: float


class Worker(Struct, frozen=True):
    """A worker that has joined and not left."""

    name: str
    started_at: float
    seen_at: float
    about: Mapping[str, Any]
    now: float


class Claims:
    """The leases of one worker. Its name must be nobody else's, and no former one's."""

    def __init__(self, pool: Pool, worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._lease = float(pool.settings.cluster.lease)
        self._texts = Texts(pool.schema)

    async def renew(self, epochs: Mapping[int, int], about: Mapping[str, Any] | None = None) -> Renewal:
        """Extend the leases of shards, held under these epochs. `about` is for whoever asks how the cluster does."""
        values = {**self._who(epochs), "lease": self._lease, "about": json.dumps(about or {})}
        row = await self._pool.row(self._texts.one("claims", "renew"), values)
        return Renewal(row["now"], frozenset(row["held"]), row["free"], row["others"], row["shards"])

    async def take(self, shards: Sequence[int], most: int) -> list[Claim]:
        """Take at most so many of these shards, those that nobody owns now."""
        values = {"shards": list(shards), "most": most, "worker": self._worker, "lease": self._lease}
        rows = await self._pool.rows(self._texts.one("claims", "take"), values)
        return [
            Claim(row["shard"], row["epoch"], row["now"], row["lapsed"] if row["last_owner"] else None)
            for row in rows
        ]

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back: somebody else may take them at once."""
        values = self._who(epochs)
        await self._pool.rows(self._texts.one("claims", "release"), values)

    async def leave(self) -> None:
        """Be a worker no more."""
        await self._pool.rows(self._texts.one("claims", "leave"), {"worker": self._worker})

    def _who(self, epochs: Mapping[int, int]) -> dict[str, Any]:
        return {"worker": self._worker, "shards": list(epochs), "epochs": list(epochs.values())}


async def standing(pool: Pool) -> list[Standing]:
    """Every shard."""
    rows = await pool.rows(Texts(pool.schema).one("claims", "standing"), {})
    return [
        Standing(
            row["shard"],
            row["owner"],
            row["epoch"],
            row["lease_until"],
            columns.counts_of(row["counts"]),
            columns.positions_of(row["mail"]),
            row["now"],
        )
        for row in rows
    ]


async def workers(pool: Pool) -> list[Worker]:
    """Every worker that has joined."""
    rows = await pool.rows(Texts(pool.schema).one("claims", "workers"), {})
    return [
        Worker(row["worker"], row["started_at"], row["seen_at"], json.loads(row["about"]), row["now"])
        for row in rows
    ]

"""Who owns which shard: leases in the database, by its clock.

A lease is short and renewed often. Taking a shard raises its epoch; from then on, writes of the last owner have no
effect. So a worker that was frozen learns of its loss from its next write or its next renewal, whichever comes first.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skitter.backends.postgres import columns
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.statements import Texts
from skitter.cluster.ports import Claim, Colleague, End, Renewal, Standing
from skitter.ports import Mark

# The part of a lease to wait for one answer. Other statements may take longer than a lease
# (`postgres.timeout`); a heartbeat that waits so long on a dead connection would lose shards that another
# connection could keep. Started a fifth of a lease after the last one, two tries end before the lease is no
# longer trusted (see `cluster.lease`).
_PATIENCE = 0.25
_LEAST = 1.0  # seconds: a connection may have to be made first


class Claims:
    """The leases of one worker. Its name must be unique, also among former workers."""

    def __init__(self, pool: Pool, worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._lease = float(pool.settings.cluster.lease)
        self._patience = max(_PATIENCE * self._lease, _LEAST)
        self._texts = Texts(pool.schema)

    async def renew(self, epochs: Mapping[int, int], about: Mapping[str, Any]) -> Renewal:
        """Extend the leases of shards, held under these epochs. `about` is shown by `cluster status`."""
        values = {**self._who(epochs), "lease": self._lease, "about": json.dumps(about)}
        row = await self._pool.row(self._texts.one("claims", "renew"), values, self._patience)
        return Renewal(
            row["now"],
            frozenset(row["held"]),
            row["owners"],
            row["living"],
            row["settings"],
            row["roots"],
            row["commands"],
        )

    async def take(self, shards: Sequence[int], most: int, settings: int | None = None) -> list[Claim]:
        """Take at most `most` of these shards, if nobody owns them now."""
        values: dict[str, Any] = {"shards": list(shards), "most": most, "settings": settings}
        values |= {"worker": self._worker, "lease": self._lease}
        rows = await self._pool.rows(self._texts.one("claims", "take"), values, self._patience)
        return [
            Claim(row["shard"], row["epoch"], row["now"], row["lapsed"], row["connected"])
            if row["last_owner"]
            else Claim(row["shard"], row["epoch"], row["now"])
            for row in rows
        ]

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back: others may take them at once."""
        values = self._who(epochs)
        await self._pool.rows(self._texts.one("claims", "release"), values)

    async def leave(self) -> None:
        """Stop being a worker."""
        await self._pool.rows(self._texts.one("claims", "leave"), {"worker": self._worker})

    async def add_roots(self, roots: Sequence[str]) -> None:
        """Widen the scope of all workers, with their next heartbeat."""
        values = {"roots": list(roots), "lock": f"skitter {self._pool.schema} roots"}
        await self._pool.rows(self._texts.one("claims", "add_roots"), values)

    async def roots(self, after: int, limit: int) -> tuple[list[str], int]:
        """Roots after a position, and the position of the last one."""
        rows = await self._pool.rows(self._texts.one("claims", "roots"), {"after": after, "limit": limit})
        return [row["url"] for row in rows], rows[-1]["number"] if rows else after

    async def add_command(self, words: str) -> int:
        """Keep a command; returns its number."""
        values = {"words": words, "lock": f"skitter {self._pool.schema} commands"}
        row = await self._pool.row(self._texts.one("claims", "add_command"), values)
        return int(row["number"])

    async def commands(self, after: int, limit: int) -> list[tuple[int, str]]:
        """Commands after a number, in order."""
        rows = await self._pool.rows(self._texts.one("claims", "commands"), {"after": after, "limit": limit})
        return [(row["number"], row["words"]) for row in rows]

    async def intake(self, digest: str) -> int:
        """The line up to which a file of seeds is stored."""
        row = await self._pool.row(self._texts.one("claims", "intake"), {"digest": digest})
        return int(row["line"])

    async def took_in(self, digest: str, line: int | None) -> None:
        """A file of seeds is stored up to this line; None: all of it."""
        name = "took_all" if line is None else "took_in"
        await self._pool.rows(self._texts.one("claims", name), {"digest": digest, "line": line})

    async def add_end(self, end: End) -> None:
        """Record the mark that a new owner found."""
        mark = {"file": end.mark.file, "size": end.mark.end}
        values = {"shard": end.shard, "epoch": end.epoch, **mark, "directory": end.directory}
        await self._pool.rows(self._texts.one("claims", "add_end"), values)

    async def ends(self) -> list[End]:
        """All marks that new owners found."""
        rows = await self._pool.rows(self._texts.one("claims", "ends"), {})
        return [
            End(row["shard"], row["epoch"], Mark(row["file"], row["size"]), row["directory"]) for row in rows
        ]

    async def settings(self) -> tuple[int, str]:
        """The settings that all workers share, and their version."""
        row = await self._pool.row(self._texts.one("claims", "settings"), {})
        return row["version"], row["words"]

    async def settle_on(self, seen: int, words: str) -> bool:
        """Replace the settings, if their version is still the one seen."""
        values = {"seen": seen, "words": words}
        return await self._pool.row(self._texts.one("claims", "settle_on"), values) is not None

    async def swap(self, seen: str, new: str) -> str:
        """Replace the quota if it is still the one seen; returns the one that is stored afterwards."""
        row = await self._pool.row(self._texts.one("claims", "swap"), {"seen": seen, "new": new})
        return str(row["words"])

    async def begin_again(self, topics: Sequence[str]) -> list[int]:
        """Read these topics from the beginning. Returns the shards for which that failed because a worker owns them."""
        await self._pool.rows(self._texts.one("claims", "begin_again"), {"topics": list(topics)})
        return [
            each.shard for each in await self.standing() if any(topic in each.positions for topic in topics)
        ]

    async def standing(self) -> list[Standing]:
        """Every shard."""
        rows = await self._pool.rows(self._texts.one("claims", "standing"), {})
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

    async def workers(self) -> list[Colleague]:
        """Every worker that has joined and not left."""
        rows = await self._pool.rows(self._texts.one("claims", "workers"), {})
        return [
            Colleague(row["worker"], row["started_at"], row["seen_at"], json.loads(row["about"]), row["now"])
            for row in rows
        ]

    def _who(self, epochs: Mapping[int, int]) -> dict[str, Any]:
        # In the order in which a write locks them: no deadlock.
        shards = sorted(epochs)
        return {"worker": self._worker, "shards": shards, "epochs": [epochs[shard] for shard in shards]}

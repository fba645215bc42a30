"""The register of segments in PostgreSQL (`skitter.backends.s3.Segments`), beside the pages that refer to them.

Each verb is one statement, so one round trip and one transaction. A server that is away is `EngineAway`, and the verb
may be repeated. In addition to the port, operators can list the disks with segments that no bucket has, and give up a
lost one (`give_up`).
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.statements import Texts
from skitter.backends.s3 import names as naming
from skitter.backends.s3.segments import Segment, Stage
from skitter.cluster.ports import Disk
from skitter.ports import Mark

_AT_ONCE = 1000  # names an iterator holds


class PostgresSegments:
    """`skitter.backends.s3.Segments` on PostgreSQL. What the port calls a worker is a disk here."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lease = float(pool.settings.cluster.lease)
        self._texts = Texts(pool.schema)

    # -- the port ----------------------------------------------------------------------------------------------

    async def begun(self, name: str, shard: int, worker: str) -> None:
        """A worker starts a new segment."""
        values = {"name": name, "number": naming.number(name), "shard": shard, "disk": worker}
        if not await self._rows("begun", values):
            raise ValueError(f"the segment {name} was begun before")

    async def sealed(self, shard: int, mark: Mark, epoch: int) -> None:
        """A shard was taken under an epoch, and its archive is settled up to the mark."""
        below = naming.first_number(epoch)
        number = naming.number(mark.file)
        first = naming.first_of_owner(number)
        values = {"mark_file": mark.file, "mark_end": mark.end, "mark_number": number, "mark_first": first}
        await self._rows("sealed", {**values, "shard": shard, "below": below})

    async def finished(self, name: str, size: int, digest: str) -> bool:
        """A segment is complete. False: it was abandoned."""
        return await self._counts("finished", {"name": name, "size": size, "digest": digest})

    async def uploaded(self, name: str) -> bool:
        """A segment is in the bucket, verified. False: it was abandoned, and must not be there."""
        return await self._counts("uploaded", {"name": name})

    async def abandoned(self, names: Sequence[str]) -> list[str]:
        """The only copies are lost. Returns those that were not in the bucket."""
        return [row["name"] for row in await self._rows("abandoned", {"names": list(names)})]

    async def look_up(self, names: Sequence[str]) -> list[Segment]:
        """The known ones among these."""
        return _segments(await self._rows("look_up", {"names": list(names)}))

    async def pending(self, worker: str) -> list[Segment]:
        """Segments that only this worker has: neither uploaded nor abandoned."""
        return _segments(await self._rows("pending", {"disk": worker}))

    async def lost(self) -> list[Segment]:
        """Abandoned segments whose pages are not pending again yet."""
        return _segments(await self._rows("lost", {}))

    async def reopened(self, names: Sequence[str]) -> None:
        """The pages in abandoned segments are pending again."""
        await self._rows("reopened", {"names": list(names)})

    # -- for whoever looks on ----------------------------------------------------------------------------------

    async def stored(self) -> AsyncIterator[str]:
        """The names of all segments in the bucket, in order."""
        after = ""
        while found := [
            row["name"] for row in await self._rows("stored", {"after": after, "limit": _AT_ONCE})
        ]:
            for name in found:
                yield name
            after = found[-1]

    async def disks(self) -> list[Disk]:
        """Every disk with segments that exist only there."""
        rows = await self._rows("disks", {})
        return [
            Disk(row["disk"], row["worker"], row["segments"], max(0.0, row["now"] - row["oldest"]))
            for row in rows
        ]

    async def give_up(self, disk: str) -> list[str] | None:
        """A disk is lost with everything only it had. None: its worker still sends heartbeats, and nothing changed."""
        (row,) = await self._rows("give_up", {"disk": disk, "lease": self._lease})
        return None if row["alive"] else row["lost"]

    # -- round trips -------------------------------------------------------------------------------------------

    async def _counts(self, statement: str, values: dict[str, Any]) -> bool:
        (row,) = await self._rows(statement, values)
        return bool(row["counts"])

    async def _rows(self, statement: str, values: dict[str, Any]) -> list[Any]:
        return await self._pool.rows(self._texts.one("segments", statement), values)


def _segments(rows: Sequence[Any]) -> list[Segment]:
    return [Segment(name, shard, disk, Stage(stage), *rest) for name, shard, disk, stage, *rest in rows]

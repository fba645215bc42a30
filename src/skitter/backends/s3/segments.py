"""The register of segments: the stage of each, and who has it.

A cluster keeps it in the database of its pages (`backends.postgres.segments`), where everybody sees the same.
`LocalSegments` is for one machine and for tests: a dictionary, and a file if it has to survive the process.

1. A segment is `begun` before the first settlement that names it.
2. `sealed` is called by a worker that has just taken a shard, with the mark it found. From then on nobody
   settles anything in the segments of earlier epochs: the mark's own segment counts up to the mark, those
   that its owner wrote before it count as a whole, no others do. Segments of earlier owners were sealed when
   later ones came; what a frozen owner begins afterwards is never settled. Segments of this epoch and later
   ones are not affected, so an owner that comes too late does no harm.
3. `finished` and `uploaded` return False, and change nothing, for an abandoned segment.
4. An uploaded segment is never abandoned; an abandoned one stays so. A worker's segments are abandoned only
   when it owns no shard any more: what it settled afterwards would be in none of them.
5. Repeating a call changes nothing: after EngineAway the caller repeats it.
6. An abandoned segment is `lost` until its pages are pending again (`reopened`). A segment sealed at size
   zero has no pages, and never is.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from skitter.backends.s3 import names
from skitter.ports import Mark

WHOLE = -1
"""The size of a sealed segment all of which counts."""


class Stage(StrEnum):
    """The stage of a segment."""

    BEGUN = "begun"  # its worker writes to it
    SEALED = "sealed"  # its shard was taken; `size` says how much of it is settled
    FINISHED = "finished"  # size and digest are known
    UPLOADED = "uploaded"  # it is in the bucket
    ABANDONED = "abandoned"  # its only copy is lost


class Segment(msgspec.Struct, frozen=True):
    """One segment in the register."""

    name: str
    shard: int
    worker: str
    stage: Stage = Stage.BEGUN
    size: int = WHOLE
    digest: str = ""  # sha256:… of all of it
    reopened: bool = False  # abandoned, and its pages are pending again


class Segments(Protocol):
    """The register. The module docstring has its invariants."""

    async def begun(self, name: str, shard: int, worker: str) -> None:
        """A worker starts a new segment."""
        ...

    async def sealed(self, shard: int, mark: Mark, epoch: int) -> None:
        """A shard was taken under an epoch, and its archive is settled up to the mark.

        Affects segments of the shard that are only begun, and whose number is below
        `names.first_number(epoch)`; they become `sealed`, with the size that `settled_size` gives.
        """
        ...

    async def finished(self, name: str, size: int, digest: str) -> bool:
        """A segment will not change any more. False: it was abandoned."""
        ...

    async def uploaded(self, name: str) -> bool:
        """A segment is uploaded and verified. False: it was abandoned, and must not be in the bucket."""
        ...

    async def abandoned(self, names: Sequence[str]) -> list[str]:
        """The only copies are lost, and their pages must be fetched again. Returns those that were not uploaded."""
        ...

    async def look_up(self, names: Sequence[str]) -> list[Segment]:
        """Those of them that are known."""
        ...

    async def pending(self, worker: str) -> list[Segment]:
        """Segments that only this worker has: neither uploaded nor abandoned."""
        ...

    async def lost(self) -> list[Segment]:
        """Abandoned segments whose pages are not pending again yet, of all shards."""
        ...

    async def reopened(self, names: Sequence[str]) -> None:
        """The owner of their shard has made the pages of these abandoned segments pending again."""
        ...


class LocalSegments:
    """The register of one machine, in memory, and optionally in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        found = msgspec.json.decode(path.read_bytes(), type=list[Segment]) if path and path.exists() else []
        self._segments = {segment.name: segment for segment in found}

    async def begun(self, name: str, shard: int, worker: str) -> None:
        """A worker starts a new segment."""
        new = Segment(name, shard, worker)
        if self._segments.get(name, new) != new:
            raise ValueError(f"the segment {name} was begun before")
        self._keep([new])

    async def sealed(self, shard: int, mark: Mark, epoch: int) -> None:
        """A shard was taken under an epoch, and its archive is settled up to the mark."""
        below = names.first_number(epoch)
        open_ones = [s for s in self._segments.values() if s.shard == shard and s.stage is Stage.BEGUN]
        earlier = [s for s in open_ones if names.number(s.name) < below]
        self._keep(replace(s, stage=Stage.SEALED, size=settled_size(s.name, mark)) for s in earlier)

    async def finished(self, name: str, size: int, digest: str) -> bool:
        """A segment will not change any more. False: it was abandoned."""
        return self._advance(name, Stage.FINISHED, size, digest)

    async def uploaded(self, name: str) -> bool:
        """A segment is uploaded and verified. False: it was abandoned, and must not be in the bucket."""
        segment = self._segments[name]
        return self._advance(name, Stage.UPLOADED, segment.size, segment.digest)

    async def abandoned(self, names: Sequence[str]) -> list[str]:
        """The only copies are lost. Returns those that were not uploaded."""
        lost = [s for s in await self.look_up(names) if s.stage is not Stage.UPLOADED]
        self._keep(replace(s, stage=Stage.ABANDONED, reopened=s.reopened or _empty(s)) for s in lost)
        return [s.name for s in lost]

    async def look_up(self, names: Sequence[str]) -> list[Segment]:
        """Those of them that are known."""
        return [self._segments[name] for name in names if name in self._segments]

    async def pending(self, worker: str) -> list[Segment]:
        """Segments that only this worker has: neither uploaded nor abandoned."""
        done = (Stage.UPLOADED, Stage.ABANDONED)
        return [s for s in self._segments.values() if s.worker == worker and s.stage not in done]

    async def lost(self) -> list[Segment]:
        """Abandoned segments whose pages are not pending again yet."""
        return [s for s in self._segments.values() if s.stage is Stage.ABANDONED and not s.reopened]

    async def reopened(self, names: Sequence[str]) -> None:
        """The pages in abandoned segments are pending again."""
        gone = [s for s in await self.look_up(names) if s.stage is Stage.ABANDONED]
        self._keep(replace(s, reopened=True) for s in gone)

    def _advance(self, name: str, stage: Stage, size: int, digest: str) -> bool:
        segment = self._segments[name]
        if segment.stage is Stage.ABANDONED:
            return False
        if segment.stage is not Stage.UPLOADED:
            self._keep([replace(segment, stage=stage, size=size, digest=digest)])
        return True

    def _keep(self, segments: Iterable[Segment]) -> None:
        self._segments |= {segment.name: segment for segment in segments}
        if self._path is not None:
            new = self._path.with_name(self._path.name + ".new")
            new.write_bytes(msgspec.json.encode(list(self._segments.values())))
            new.replace(self._path)


def _empty(segment: Segment) -> bool:
    """Whether nothing was settled in it."""
    return segment.stage is Stage.SEALED and segment.size == 0


def settled_size(name: str, mark: Mark) -> int:
    """The settled size of a segment, if its shard is settled exactly up to the mark."""
    if name == mark.file:
        return mark.end
    number, last = names.number(name), names.number(mark.file)
    return WHOLE if names.first_of_owner(last) <= number < last else 0

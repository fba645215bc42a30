"""The frontier of a shard in a cluster: announces what is settled, and makes pages pending that were lost with a
disk.
"""

from collections.abc import Sequence
from typing import Protocol

from skitter.cluster.ports import Disks
from skitter.engines.retry import patiently
from skitter.frontier import ShardFrontier
from skitter.model import Settlement
from skitter.ports import Mark, Opened


class Announcing(Protocol):
    """What it needs from the engines."""

    @property
    def segments(self) -> Disks | None:
        """The register of segments; None if there is none."""
        ...

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Announce what is about to be settled; returns when that is safe."""
        ...


class AnnouncingFrontier(ShardFrontier):
    """Announces visits before they are settled: a crash in between announces them twice, which is harmless.

    Pages in segments that were lost with a worker's disk are pending again before anything is leased.
    """

    engines: Announcing
    number: int
    reopened = 0  # pages found lost when it was opened

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open, and what the archive has lost."""
        opened = await super().open(now)
        register = self.engines.segments
        if register is not None:
            lost = await patiently(register.lost)
            names = [segment.name for segment in lost if segment.shard == self.number]
            if names:
                self.reopened = await patiently(lambda: self.reopen_files(set(names), now))
                await patiently(lambda: register.reopened(names))
        return opened

    async def reopen(self, mark: Mark, now: float) -> int:
        """Make pages pending again that the archive has lost, however often the engine goes away meanwhile."""
        return await patiently(lambda: ShardFrontier.reopen(self, mark, now))

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Announce pages and errors."""
        await self.engines.announce(settlements)

"""The frontier of a shard in a cluster: tells others what is settled, and finds pages again that were lost with a disk."""

from collections.abc import Sequence
from typing import Protocol

from skitter.cluster.ports import Disks
from skitter.engines.retry import patiently
from skitter.frontier import ShardFrontier
from skitter.model import Settlement
from skitter.ports import Mark, Opened


class Announcing(Protocol):
    """What is needed of the engines."""

    @property
    def segments(self) -> Disks | None:
        """The register of segments; None where there is none."""
        ...

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Tell others what is about to be settled; returns when that is safe."""
        ...


class AnnouncingFrontier(ShardFrontier):
    """Announces what is settled before it is: a crash in between announces it twice, which is harmless.

    Pages in segments that were lost with somebody's disk are pending again before anything is leased.
    """

    engines: Announcing
    number: int
    reopened = 0  # pages that were found lost when it was opened

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
        """Pages that the archive has lost are pending again, however often the engine goes away meanwhile."""
        return await patiently(lambda: ShardFrontier.reopen(self, mark, now))

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Announce pages and errors."""
        await self.engines.announce(settlements)

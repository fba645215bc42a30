"""Sends the seeds from the crawl directory to the first worker, which judges them and brings each to its owner.

Several batches are sent at once: a busy worker confirms only about once a second that everything is on the disk. The
position in the directory moves in order, with the batches that are stored.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager

from skitter.crawl.done import SeedsAre
from skitter.fleet.messages import Seeds
from skitter.model import Link
from skitter.seeds import BadSeed
from skitter.seeds.intake import Batch, Intake

_UNDER_WAY = 16  # batches


class Seeding:
    """Hands the seeds of a crawl directory to the first worker, batch by batch, until all are stored."""

    def __init__(self, intake: Intake, say: Callable[[Seeds], None]) -> None:
        """`say` sends to the first worker, if it is there."""
        self._intake = intake
        self._say = say
        self._under_way: dict[int, tuple[Batch, Seeds]] = {}  # in order
        self._stored: set[int] = set()
        self._free = asyncio.Semaphore(_UNDER_WAY)
        self._number = 0
        self.state = SeedsAre.COMING
        self._expected = 0  # seeds that somebody is about to add
        self._more = asyncio.Event()
        # Seeds left by an earlier run are offered again, and failed ones get another chance. Nothing is
        # fetched before the first of them are stored: a page that kills its process would get that chance
        # with every start.
        self.held = not intake.is_empty

    async def run(self) -> None:
        """Send all seeds that are kept, those still being read, and those that are added meanwhile."""
        while True:
            await self._send()
            if self._expected or not self._intake.is_empty:
                await self._more.wait()
                self._more.clear()
            else:
                break
        self.state, self.held = SeedsAre.STORED, False

    async def more_come(self) -> None:
        """Wait until more seeds are added."""
        await self._more.wait()
        self._more.clear()

    @contextmanager
    def adding(self) -> Iterator[None]:
        """While seeds are added to the intake, the crawl is not over."""
        self._expected += 1
        self.state = SeedsAre.COMING
        try:
            yield
        finally:
            self._expected -= 1
            self._more.set()

    async def _send(self) -> None:
        async with aclosing(self._intake.batches()) as batches:
            async for batch in batches:
                await self._free.acquire()
                self._number += 1
                links = [seed for seed in batch.seeds if isinstance(seed, Link)]
                bad = [seed for seed in batch.seeds if isinstance(seed, BadSeed)]
                message = Seeds(self._number, links, bad)
                self._under_way[self._number] = (batch, message)
                self._say(message)
        self.state = SeedsAre.BEING_STORED
        for _ in range(_UNDER_WAY):
            await self._free.acquire()
        self._intake.finish()
        for _ in range(_UNDER_WAY):
            self._free.release()

    def seeded(self, number: int) -> bool:
        """A batch is stored. Returns whether fetching, held back until now, may start."""
        if number in self._under_way and number not in self._stored:
            self._stored.add(number)
            self._free.release()
        moved = False
        for first in list(self._under_way):
            if first not in self._stored:
                break
            self._stored.discard(first)
            self._intake.stored(self._under_way.pop(first)[0])
            moved = True
        let_go = moved and self.held
        self.held = self.held and not moved
        return let_go

    def again(self) -> None:
        """The first worker was replaced: it does not know the batches that were sent."""
        for number, (_, message) in self._under_way.items():
            if number not in self._stored:
                self._say(message)

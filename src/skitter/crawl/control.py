"""Control of a crawl that runs in one process."""

import asyncio
import time
from collections.abc import Sequence

from skitter.control.desk import PATIENCE, Told
from skitter.control.orders import Answer
from skitter.crawl.local_shards import LocalShards
from skitter.model import Link, Stop
from skitter.ports import Command
from skitter.reporting.progress import Progress, Rate
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import CrawlSettings


class LocalControl:
    """`skitter.control.desk.Running` on the shards of this process."""

    def __init__(self, shards: LocalShards, intake: Intake, limits: CrawlSettings) -> None:
        self._shards = shards
        self._intake = intake
        self._limits = limits
        self._began = time.monotonic()
        self._had = shards.counts.pages
        self._works: set[asyncio.Task[object]] = set()

    @property
    def ending(self) -> bool:
        """Whether it has begun to stop."""
        return self._shards.stopping

    @property
    def in_flight(self) -> int:
        """Visits leased and not settled."""
        return self._shards.in_flight

    async def tell(self, command: Command) -> Told:
        """Apply a command to every shard."""
        work = asyncio.ensure_future(self._shards.obey([command]))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        done, _ = await asyncio.wait([work], timeout=PATIENCE)
        return Told(work.result(), whole=True) if done else Told((), whole=False)

    async def add(self, some: Sequence[Link | BadSeed]) -> None:
        """Keep seeds, and add them."""
        await asyncio.to_thread(self._intake.keep_links, some)
        await self._shards.take_in(self._intake)

    def stop(self) -> None:
        """Finish what is in flight, save, and end."""
        self._shards.stop(Stop.INTERRUPTED)

    async def reload(self, settings: str) -> Answer:  # noqa: ARG002  the same for all
        """A program has chosen the settings, and the parts that it uses were made from them."""
        return Answer(error="a program runs this crawl; its settings can change when it starts the next time")

    def progress(self, rate: Rate) -> Progress:
        """Its progress now."""
        shards, now = self._shards, time.monotonic()
        counts = shards.counts
        return Progress(
            counts=counts,
            in_flight=shards.in_flight,
            rate=rate.of(counts.pages - self._had, now),
            elapsed=now - self._began,
            max_pages=self._limits.max_pages,
            max_time=self._limits.max_time,
            max_bytes=self._limits.max_bytes,
            waiting=shards.waiting(),
            paused=shards.paused,
        )

    async def close(self) -> None:
        """Commands that are still being applied are applied when the crawl is next opened."""
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

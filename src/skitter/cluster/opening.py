"""Opens the shards that a worker takes, and closes them when they are handed over."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from skitter.cluster.announce import AnnouncingFrontier
from skitter.cluster.ports import Claim, Delivery, Inbox
from skitter.crawl.shard import Shard
from skitter.events import Events, Warned
from skitter.ports import Clock, Fenced
from skitter.reporting.format import counted
from skitter.reporting.log import RequestLog

# Shards that a worker opens at once. With thousands, all together would wait for its few connections, with
# the renewal of its leases behind them.
OPENING = 32


@dataclass(frozen=True)
class WiredShard:
    """A shard that is not open yet, and the parts of it that its worker uses."""

    shard: Shard
    frontier: AnnouncingFrontier
    log: RequestLog


@dataclass(frozen=True)
class ShardOpener:
    """`cluster.incoming.WorkerParts` around a function that wires a shard under a claim."""

    inbox: Inbox
    wire: Callable[[Claim], WiredShard]
    events: Events
    clock: Clock
    frontiers: dict[int, AnnouncingFrontier] = field(default_factory=dict, init=False)
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(OPENING), init=False)

    @asynccontextmanager
    async def shard(self, claim: Claim) -> AsyncIterator[Shard]:
        """A shard, open under its epoch; closed at the end, unless it was lost."""
        number, wired = claim.shard, self.wire(claim)
        try:
            async with self.opening:
                await wired.shard.open()
            if wired.frontier.reopened:
                lost = counted(wired.frontier.reopened, "page")
                self.events.emit(
                    Warned(f"shard {number}: {lost} of segments that are lost are fetched again")
                )
            self.frontiers[number] = wired.frontier
            yield wired.shard
        finally:
            self.frontiers.pop(number, None)
            with suppress(Fenced):  # then its store rejects writes, and need not know
                await wired.shard.close()
            wired.log.close()

    def positions_of(self, shard: Shard) -> dict[str, str]:
        """The stored positions of a shard's forwarded links."""
        return dict(self.frontiers[shard.number].positions())

    async def take_in(self, shard: Shard, delivery: Delivery) -> None:
        """Add links and store their positions, in one write. Seeds among them are measured into the scope."""
        shard.take_into_scope([link for link in delivery.links if link.seed])
        async with shard.new_rules(delivery.links):
            await self.frontiers[shard.number].take_in(delivery.links, delivery.positions, self.clock.now())

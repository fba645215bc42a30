"""Receives links that other workers found for our shards, and stores them together with their positions."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Protocol

from skitter.cluster.held_shards import HeldShards
from skitter.cluster.lease import ShardLeases
from skitter.cluster.ports import Claim, Delivery, Inbox
from skitter.crawl.shard import Shard
from skitter.engines.retry import patiently
from skitter.ports import Clock, EngineAway, Fenced

_LINKS = 1000  # links that are worth a round trip
_EVERY = 1.0  # seconds between two polls if there are fewer: a polite host waits longer anyway


class WorkerParts(Protocol):
    """What a worker works with."""

    @property
    def inbox(self) -> Inbox:
        """Where links come from."""
        ...

    def shard(self, claim: Claim) -> AbstractAsyncContextManager[Shard]:
        """A shard, open under its epoch; closed at the end, unless it was lost."""
        ...

    def positions_of(self, shard: Shard) -> dict[str, str]:
        """The stored positions of a shard's forwarded links."""
        ...

    async def take_in(self, shard: Shard, delivery: Delivery) -> None:
        """Add links and store their positions, in one write."""
        ...


class IncomingLinks:
    """Receives links for the held shards."""

    def __init__(
        self, held: HeldShards, leases: ShardLeases, clock: Clock, lose: Callable[[int], None]
    ) -> None:
        """`lose` is called if a shard turns out to have another owner."""
        self._held = held
        self._leases = leases
        self._clock = clock
        self._lose = lose
        self._delivering: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # by shard

    async def begin(self, shard: Shard, parts: WorkerParts) -> None:
        """Start to receive links for this shard, after its stored positions."""
        await patiently(lambda: parts.inbox.own(shard.number, parts.positions_of(shard)))

    async def end(self, shard: int, parts: WorkerParts) -> None:
        """The shard is about to be closed: links being stored in it are finished first."""
        async with self._delivering[shard]:
            pass
        await patiently(lambda: parts.inbox.disown(shard))

    async def run(self, parts: WorkerParts) -> None:
        """Receive and store links while the worker lives. Ends by cancellation."""
        inbox = parts.inbox
        while True:
            before = dict(self._held.shards)
            received: list[Delivery] = []
            with suppress(EngineAway):
                received = await inbox.receive(_LINKS) if before else []
            async with asyncio.TaskGroup() as together:  # so that they are stored in one round trip
                for delivery in received:
                    shard = self._held.shards.get(delivery.shard)
                    if shard is None:
                        continue  # its next owner receives this
                    if before.get(delivery.shard, shard) is shard:
                        together.create_task(self._deliver(shard, delivery, parts))
                    else:  # given back and taken again meanwhile: the epoch of these links is unknown
                        await patiently(partial(inbox.own, delivery.shard, parts.positions_of(shard)))
            if sum(len(delivery.links) for delivery in received) < _LINKS:
                await asyncio.sleep(_EVERY)

    async def _deliver(self, shard: Shard, delivery: Delivery, parts: WorkerParts) -> None:
        try:
            await self._leases.held(shard.number)
            async with self._delivering[shard.number]:
                if self._held.shards.get(shard.number) is not shard:
                    return  # it is being handed over: its next owner receives this
                await parts.take_in(shard, delivery)
        except Fenced:
            self._lose(shard.number)
            return
        shard.wake()
        # The links are safe. If this raised, deliveries to other shards would be cancelled.
        with suppress(EngineAway):
            await parts.inbox.stored(delivery.shard, delivery.positions, self._clock.now())

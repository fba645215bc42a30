"""Forwards links from the shard that found them to the shard that owns them.

A link for another shard is in the outbox, durable with the page it was found on, until its owner has it and would
keep it through a power loss. If sender, owner or both die in between, links are sent twice at worst, and adding is
idempotent.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from skitter import urls
from skitter.model import Link
from skitter.ports import Frontier

Deliver = Callable[[int, Sequence[Link]], Awaitable[None]]
"""Bring links to a shard; returns when they are safe there."""

_COLLECT = 0.2  # seconds: links of many pages are sent together, and a polite host waits longer anyway
_BATCH = 1000  # links per delivery
_UNDERWAY = 16  # concurrent deliveries: bounds what is in memory twice while an owner is slow or away


def owner_of(host: str, shards: int) -> int:
    """The shard of a host."""
    return urls.shard(urls.registrable_domain(host), shards) if shards > 1 else 0


class Forwarding:
    """Empties the outbox of one shard."""

    def __init__(
        self, frontier: Frontier, shards: int, deliver: Deliver, arrived: Callable[[], None] = lambda: None
    ) -> None:
        """`arrived` is called whenever links have reached their owner and left the outbox."""
        self._frontier = frontier
        self._shards = shards
        self._deliver = deliver
        self._arrived = arrived
        self._something = asyncio.Event()
        self._hurried = asyncio.Event()
        self._free = asyncio.Semaphore(_UNDERWAY)
        self._something.set()  # an earlier run may have left some

    def wake(self) -> None:
        """There may be links in the outbox."""
        self._something.set()

    def hurry(self) -> None:
        """Nothing more will be found: the outbox need not wait for more links."""
        self._hurried.set()

    async def run(self) -> None:
        """Deliver links from the outbox until cancelled."""
        last = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._something.wait()
                await self._collect()
                self._something.clear()
                while found := await self._frontier.outbox(_BATCH, after=last):
                    last = found[-1][0]
                    for owner, sent in self._by_owner(found).items():
                        await self._free.acquire()
                        tasks.create_task(self._forward(owner, sent))

    async def _collect(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_COLLECT):
                await self._hurried.wait()
        self._hurried.clear()

    def _by_owner(self, found: Sequence[tuple[int, Link]]) -> dict[int, list[tuple[int, Link]]]:
        owners: dict[int, list[tuple[int, Link]]] = defaultdict(list)
        for number, link in found:
            owners[owner_of(link.host, self._shards)].append((number, link))
        return owners

    async def _forward(self, owner: int, sent: Sequence[tuple[int, Link]]) -> None:
        try:
            await self._deliver(owner, [link for _, link in sent])
            await self._frontier.forwarded([number for number, _ in sent])
            self._arrived()
        finally:
            self._free.release()

"""The shards that a cluster worker holds: they share its connections and its room for requests."""

import asyncio
from collections.abc import Awaitable, Callable

from skitter.crawl.limits import pages_left
from skitter.crawl.local_shards import ShardSet
from skitter.crawl.shard import Shard


class HeldShards(ShardSet):
    """`skitter.crawl.shard.ShardGroup` whose shards come and go."""

    def __init__(self, concurrency: int) -> None:
        super().__init__()
        self._concurrency = concurrency
        self._starved: set[Shard] = set()  # those that had no room when they asked
        self.closed = False  # nothing new is started
        self.paused = False  # the same, until a person says otherwise
        self.full: Callable[[], bool] = lambda: False  # whether the disk has no room for more
        # Pages that each shard may have in all; None: there is no limit.
        self.allowed: dict[Shard, int] | None = None
        self._completing: set[Shard] = set()  # those that lease nothing but assets
        self.short = asyncio.Event()  # a shard could go on with a larger allowance
        self._held_back = asyncio.Event()

    def room(self, shard: Shard) -> int:
        """How many visits a shard may lease now. Each may become a page, so a page limit counts it as one."""
        if self.full():
            self._held_back.set()
            return 0
        room = 0 if self.closed or self.paused else self._free(shard)
        if room <= 0:
            self._starved.add(shard)
            return room
        if self.allowed is None or shard in self._completing:
            return room
        left = pages_left(self.allowed.get(shard, 0), shard.counts.pages, shard.in_flight)
        if left <= 0 and shard.due is not None:
            self.short.set()
        return min(room, left)

    async def complete(self, now: float) -> bool:
        """There are enough pages: every shard leases nothing but assets from now on. Returns whether none has any left."""
        self._completing &= set(self.shards.values())
        for shard in set(self.shards.values()) - self._completing:
            await shard.frontier.lease_assets_only(now)
            self._completing.add(shard)
            shard.wake()
        return not self.in_flight and not any(
            [await shard.next_due() is not None for shard in list(self.shards.values())]
        )

    def pause(self, paused: bool) -> None:  # noqa: FBT001  a state that is set
        """Start nothing new, or go on."""
        self.paused = paused
        if not paused:
            self._wake_starved()

    def _free(self, shard: Shard | None = None) -> int:
        """Connections that no visit uses, and that no other shard is about to use."""
        taking = sum(other.taking for other in self.shards.values() if other is not shard)
        return self._concurrency - self.in_flight + self.put_off - taking

    def idle(self) -> None:
        """One worker cannot decide that all is done."""

    def took(self) -> None:
        """Wake shards that had no room, if some is left."""
        if self._starved and self._free() > 0:
            self._wake_starved()

    def committed(self, _shard: Shard) -> None:
        """Wake shards that had no room."""
        self._wake_starved()

    def _wake_starved(self) -> None:
        starved, self._starved = self._starved, set()
        for shard in starved:
            shard.wake()

    async def wake_when(self, ready: Callable[[], Awaitable[None]]) -> None:
        """After visits were held back by a full disk, continue when it has room. Ends by cancellation."""
        while True:
            await self._held_back.wait()
            self._held_back.clear()
            await ready()
            for shard in self.shards.values():
                shard.wake()

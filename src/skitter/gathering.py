"""When visits are settled where that is a journey: the shards of a worker wait for one another and go together.

The first visit that finishes opens a window of time for all shards; at its end each settles what it has, and what they
write travels in one round trip. Nobody waits in vain: all go at once when there are enough visits to be worth a
journey, and when no shard has a visit under way or a host that is about to be free. Without a window, whatever has finished
when the event loop comes round is a group.
"""

import asyncio
from typing import Protocol


class Gatherer(Protocol):
    """A shard, as those see it who gather with it."""

    def more_comes(self, within: float) -> bool:
        """Whether more visits may finish within so many seconds."""
        ...

    def commit(self) -> None:
        """Settle what has finished."""
        ...


class Gathering:
    """The shards that settle together."""

    def __init__(self, seconds: float = 0.0, enough: int = 1) -> None:
        """So long a visit that has finished waits for others, until there are enough."""
        self._seconds, self._enough = seconds, enough
        self._waiting = 0  # visits
        self._shards: list[Gatherer] = []
        self._window: asyncio.TimerHandle | None = None

    def join(self, shard: Gatherer) -> None:
        """It is at work."""
        self._shards.append(shard)

    def leave(self, shard: Gatherer) -> None:
        """Nobody waits for it any more."""
        self._shards.remove(shard)

    def finished(self, shard: Gatherer) -> None:
        """A visit of this shard has."""
        if not self._seconds:
            shard.commit()
            return
        self._waiting += 1
        loop = asyncio.get_running_loop()
        if self._window is None:
            self._window = loop.call_later(self._seconds, self._go)
        left = self._window.when() - loop.time()
        if self._waiting >= self._enough or not any(each.more_comes(left) for each in self._shards):
            self._go()

    def _go(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._waiting = 0
        for shard in self._shards:
            shard.commit()

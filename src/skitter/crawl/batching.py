"""When visits are settled: not one by one, for each of them costs less in company.

The first visit that finishes opens a window of time; at its end all that have finished meanwhile are settled. Where that
is a journey, the shards of a worker wait for one another, and what they write travels in one round trip. Nobody waits in
vain: all go at once when there are enough visits, and when no shard has a visit under way or a host that is about to be
free.
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

    def __init__(self, seconds: float, enough: int, *, can_hurry: bool = False) -> None:
        """So long a visit that has finished waits for others, until there are enough, or one is urgent."""
        self._seconds, self._enough, self._can_hurry = seconds, enough, can_hurry
        self._waiting = 0  # visits
        self._shards: list[Gatherer] = []
        self._window: asyncio.TimerHandle | None = None

    def join(self, shard: Gatherer) -> None:
        """It is at work."""
        self._shards.append(shard)

    def leave(self, shard: Gatherer) -> None:
        """Nobody waits for it any more."""
        self._shards.remove(shard)

    def finished(self, *, urgent: bool = False) -> None:
        """A visit has. It is urgent if something waits for it to be settled; a journey is too dear for that."""
        self._waiting += 1
        loop = asyncio.get_running_loop()
        if self._window is None:
            self._window = loop.call_later(self._seconds, self._go)
        left = self._window.when() - loop.time()
        worth_it = self._waiting >= self._enough or (urgent and self._can_hurry)
        if worth_it or not any(each.more_comes(left) for each in self._shards):
            self._go()

    def _go(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._waiting = 0
        for shard in self._shards:
            shard.commit()

"""Group commit: finished visits are settled in batches.

The first visit that finishes opens a window; at its end, all visits finished by then are settled. If a commit is a
network round trip, the shards of a worker share one window and one round trip. No visit waits in vain: the batch is
settled at once if it is large enough, or if no shard has a visit in flight or a host that is about to be free.
"""

import asyncio
from typing import Protocol


class Batched(Protocol):
    """A shard, as its batching sees it."""

    def more_comes(self, within: float) -> bool:
        """Whether more visits may finish within this many seconds."""
        ...

    def commit(self) -> None:
        """Settle what has finished."""
        ...


class Batching:
    """Decides when shards settle their finished visits."""

    def __init__(self, seconds: float, enough: int, *, can_hurry: bool = False) -> None:
        """A finished visit waits up to `seconds` for others, until there are enough or one is urgent (`can_hurry`)."""
        self._seconds, self._enough, self._can_hurry = seconds, enough, can_hurry
        self._waiting = 0  # visits
        self._shards: list[Batched] = []
        self._window: asyncio.TimerHandle | None = None

    def join(self, shard: Batched) -> None:
        """A shard starts to work."""
        self._shards.append(shard)

    def leave(self, shard: Batched) -> None:
        """A shard has stopped: nobody waits for its visits."""
        self._shards.remove(shard)

    def finished(self, *, urgent: bool = False) -> None:
        """A visit has finished. It is urgent if something waits for it; a round trip is too expensive for that."""
        self._waiting += 1
        loop = asyncio.get_running_loop()
        if self._window is None:
            self._window = loop.call_later(self._seconds, self._settle)
        left = self._window.when() - loop.time()
        worth_it = self._waiting >= self._enough or (urgent and self._can_hurry)
        if worth_it or not any(each.more_comes(left) for each in self._shards):
            self._settle()

    def _settle(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._waiting = 0
        for shard in self._shards:
            shard.commit()

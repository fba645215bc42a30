"""The queue of links: by host, level, score and age.

Each host's state holds the first link of each level, so a host out of memory needs no look into the queue before its next
lease, and the queue is never read from the host's beginning, where the tombstones of all its earlier links lie.
"""

from skitter.backends import rules
from skitter.backends.rocksdb.bounded import Bounded
from skitter.backends.rocksdb.layout import SPOT, after
from skitter.backends.rocksdb.records import HostState
from skitter.backends.rocksdb.store import Batch
from skitter.backends.rocksdb.window import Window
from skitter.model import Level

_READ_AHEAD = 16  # links per host and level; one read of 16 costs little more than one of 1


class Queue:
    """All waiting links of the shard."""

    def __init__(self, batch: Batch, hosts: int) -> None:
        self._batch = batch
        self._ahead: Bounded[bytes, Window] = Bounded(hosts)  # behind the head of (host, level)

    def push(self, host8: bytes, state: HostState, level: int, spot: bytes) -> None:
        """A link waits."""
        prefix = host8 + bytes((level,))
        self._batch.changes["queue"][prefix + spot] = b""
        head = state.heads[level]
        state.levels[level] += 1
        if not head or spot < head:
            state.heads[level], spot = spot, head
        ahead = self._ahead.get(prefix) if spot else None
        if ahead is not None:
            ahead.push(prefix + spot)

    def remove(self, host8: bytes, state: HostState, level: int, spot: bytes) -> None:
        """A link waits no more."""
        prefix = host8 + bytes((level,))
        self._batch.delete("queue", prefix + spot)
        state.levels[level] -= 1
        ahead = self._ahead.get(prefix)
        if spot != state.heads[level]:
            if ahead is not None:
                ahead.discard(prefix + spot)
            return
        if not state.levels[level]:
            state.heads[level] = b""
            self._ahead.pop(prefix, None)
            return
        if ahead is None:
            ahead = Window("queue", prefix + spot, after(prefix), _READ_AHEAD)
            self._ahead[prefix] = ahead
        following = ahead.first(self._batch, state.levels[level])
        if following is None:
            raise AssertionError(f"the queue of {state.name} has lost {state.levels[level]} links")
        ahead.discard(following)
        state.heads[level] = following[-SPOT:]

    def trim(self) -> None:
        """Forget the read-ahead of hosts that were not visited lately."""
        self._ahead.trim()

    def statistics(self) -> dict[str, float]:
        """How much is in memory."""
        return {"windows": len(self._ahead)}


def drawn(state: HostState) -> tuple[int, int]:
    """The level of the host's next link, and its turn afterwards. A robots.txt, and its hops, come before any page."""
    if state.hops:
        return Level.CRITICAL, state.turn
    first, second, third, fourth, fifth = state.levels
    mask = (first > 0) | (second > 0) << 1 | (third > 0) << 2 | (fourth > 0) << 3 | (fifth > 0) << 4
    return rules.DRAW[mask][state.turn]

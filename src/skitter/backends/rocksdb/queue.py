"""The queue of links: by host, level, score and age, each with its record.

Each host's state names the first link of each level, so a host out of memory needs no look into the queue before its next
lease, and the queue is never read from the host's beginning, where the tombstones of all its earlier links lie. The
record stands in the queue itself: what is read ahead, in order, is all that a lease needs.
"""

from skitter.backends.rocksdb.layout import LEVEL, SPOT, after
from skitter.backends.rocksdb.records import HostState
from skitter.backends.rocksdb.store import Batch
from skitter.backends.rocksdb.window import Window
from skitter.frontier import rules
from skitter.frontier.bounded import Bounded
from skitter.model import Level

# Links per host and level that are read at once: few when many hosts are at work, so that all of them together stay in
# some 10 MB, more when few are.
_READ_AHEAD_ALL = 40_000
_READ_AHEAD = (4, 32)


class Queue:
    """All waiting links of the shard."""

    def __init__(self, batch: Batch, hosts: int) -> None:
        self._batch = batch
        self._ahead: Bounded[bytes, Window] = Bounded(hosts)  # from the head of (host, level) on

    def push(self, host8: bytes, state: HostState, level: int, spot: bytes, record: bytes) -> bytes:
        """A link waits; says in which row."""
        prefix = host8 + LEVEL[level]
        row = prefix + spot
        self._batch.changes["queue"][row] = record
        head = state.heads[level]
        state.levels[level] += 1
        if not head or spot < head:
            state.heads[level] = spot
        ahead = self._ahead.get(prefix)
        if ahead is not None:
            ahead.push(row, record)
        return row

    def head(self, host8: bytes, state: HostState, level: int) -> bytes:
        """The record of the first link."""
        prefix, spot = host8 + LEVEL[level], state.heads[level]
        row = prefix + spot
        ahead = self._ahead.get(prefix)
        if ahead is None and state.levels[level] > 1:
            ahead = self._read(prefix, spot)
            ahead.first(self._batch, state.levels[level])
        record = ahead.value(row) if ahead is not None else None
        if record is None:
            record = self._batch.get("queue", row)
        if record is None:
            raise AssertionError(f"the queue of {state.name} has lost its head")
        return record

    def remove(self, host8: bytes, state: HostState, level: int, spot: bytes) -> None:
        """A link waits no more."""
        prefix = host8 + LEVEL[level]
        row = prefix + spot
        self._batch.delete("queue", row)
        state.levels[level] -= 1
        ahead = self._ahead.get(prefix)
        if ahead is not None:
            ahead.discard(row)
        if spot != state.heads[level]:
            return
        if not state.levels[level]:
            state.heads[level] = b""
            self._ahead.pop(prefix, None)
            return
        following = (ahead or self._read(prefix, spot)).first(self._batch, state.levels[level])
        if following is None:
            raise AssertionError(f"the queue of {state.name} has lost {state.levels[level]} links")
        state.heads[level] = following[-SPOT:]

    def _read(self, prefix: bytes, spot: bytes) -> Window:
        """A window that begins with this spot. What is one byte shorter comes right before it."""
        least, most = _READ_AHEAD
        size = min(max(_READ_AHEAD_ALL // (len(self._ahead) + 1), least), most)
        window = self._ahead[prefix] = Window("queue", prefix + spot[:-1], after(prefix), size)
        return window

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

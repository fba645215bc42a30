"""Which host is next: those that are free by the level and score of their first link, the others by time.

Politeness is this data structure. A host stands in one place of it at most, and in none while it has nothing to give or no
room for another visit. What is not due stands behind the time it is due and cannot be reached.
"""

from skitter.backends.rocksdb.layout import LATER, after
from skitter.backends.rocksdb.queue import drawn
from skitter.backends.rocksdb.records import HostState
from skitter.backends.rocksdb.store import Batch
from skitter.backends.rocksdb.window import Window
from skitter.frontier import rules
from skitter.frontier.sortable import time8, time_of
from skitter.model import Level

_WINDOW = 1024  # hosts read at once; keeps the cost of keeping them sorted below a microsecond


class Agenda:
    """Every host that has something to give."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._ready = [Window("agenda", bytes((level,)), after(bytes((level,))), _WINDOW) for level in Level]
        self._later = Window("agenda", LATER, after(LATER), _WINDOW)
        self.turn = 0

    def place(self, host8: bytes, state: HostState, *, room: bool, now: float) -> bool:
        """Put a host where it belongs. True when that is not where it was."""
        where = self._place(host8, state, now) if room and state.aside is None else b""
        if where == state.place:
            return False
        # A key that comes and goes between two commits need not be written at all.
        changes = self._batch.changes["agenda"]
        if state.place:
            if changes.get(state.place) is None:
                changes[state.place] = None
            else:
                del changes[state.place]
            self._window(state.place).discard(state.place)
        if where:
            if where in changes:
                del changes[where]
            else:
                changes[where] = b""
            self._window(where).push(where)
        state.place = where
        return True

    def _place(self, host8: bytes, state: HostState, now: float) -> bytes:
        level, _ = drawn(state)
        if level < 0:
            return b""
        ready_at = state.ready_at()
        if ready_at > now:
            return LATER + time8(ready_at) + host8
        return bytes((level,)) + state.heads[level] + host8

    def _window(self, place: bytes) -> Window:
        return self._later if place[0] == LATER[0] else self._ready[place[0]]

    def next_ready(self) -> tuple[bytes, int] | None:
        """The host8 that is next and the turn after it, by the draw of levels, then by score and age."""
        heads = [window.first(self._batch) for window in self._ready]
        mask = sum(1 << level for level, head in enumerate(heads) if head is not None)
        level, turn = rules.DRAW[mask][self.turn]
        head = heads[level] if level >= 0 else None
        return None if head is None else (head[-8:], turn)

    def next_later(self) -> tuple[bytes, float] | None:
        """The host8 whose clock is the earliest, and that clock."""
        head = self._later.first(self._batch)
        return None if head is None else (head[-8:], time_of(head))

    def statistics(self) -> dict[str, float]:
        """How much is in memory."""
        return {"ready": sum(map(len, self._ready)), "later": len(self._later)}

"""Visits that were taken out ahead: leased to the engine, and not handed out yet.

They wait in memory for their host to be free and to have room. A host with visits here stands in no agenda. Each host that
might be served stands in a heap by a time that is never later than the true one; whoever looks corrects it.
"""

from collections import deque
from heapq import heappop, heappush


class Reserve:
    """Ids of visits by host, in the order in which they are to be made."""

    def __init__(self) -> None:
        self.hosts: dict[str, deque[bytes]] = {}
        self.size = 0
        self._times: list[tuple[float, int, str]] = []
        self._number = 0  # of equals the one that came first comes first

    def put(self, name: str, id16: bytes, ready_at: float) -> None:
        """One more visit for a host."""
        waiting = self.hosts.get(name)
        if waiting is None:
            waiting = self.hosts[name] = deque()
            self._push(ready_at, name)
        waiting.append(id16)
        self.size += 1

    def look_at(self, name: str, ready_at: float) -> None:
        """A host may be served from then on."""
        if name in self.hosts:
            self._push(ready_at, name)

    def _push(self, ready_at: float, name: str) -> None:
        self._number += 1
        heappush(self._times, (ready_at, self._number, name))

    def next(self, now: float) -> str | None:
        """A host whose time has come, out of the heap until somebody puts it back with `look_at`."""
        while self._times and self._times[0][0] <= now:
            _, _, name = heappop(self._times)
            if name in self.hosts:
                return name
        return None

    def next_time(self) -> float | None:
        """When a host may be served, at the earliest."""
        while self._times and self._times[0][2] not in self.hosts:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def remove(self, name: str, id16: bytes) -> None:
        """A visit is handed out, or put back."""
        waiting = self.hosts[name]
        waiting.remove(id16)
        self.size -= 1
        if not waiting:
            del self.hosts[name]

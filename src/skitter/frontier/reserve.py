"""Visits leased ahead: leased in the store, and not handed out yet.

They wait in memory until their host is free and has room. A host with visits here is not in the agenda. Each host
that may be served is in a heap under a time that is never later than the true one; readers correct it.
"""

from collections import deque
from heapq import heappop, heappush


class Reserve:
    """Visit ids by host, in the order in which they are to run."""

    def __init__(self) -> None:
        self.hosts: dict[str, deque[bytes]] = {}
        self.size = 0
        self._times: list[tuple[float, int, str]] = []
        self._number = 0  # among equals, first come, first served

    def put(self, name: str, id16: bytes, ready_at: float) -> None:
        """Add a visit for a host."""
        waiting = self.hosts.get(name)
        if waiting is None:
            waiting = self.hosts[name] = deque()
            self._push(ready_at, name)
        waiting.append(id16)
        self.size += 1

    def look_at(self, name: str, ready_at: float) -> None:
        """A host may be served from this time on."""
        if name in self.hosts:
            self._push(ready_at, name)

    def _push(self, ready_at: float, name: str) -> None:
        self._number += 1
        heappush(self._times, (ready_at, self._number, name))

    def next(self, now: float) -> str | None:
        """Take a host whose time has come out of the heap; put it back with `look_at`."""
        while self._times and self._times[0][0] <= now:
            _, _, name = heappop(self._times)
            if name in self.hosts:
                return name
        return None

    def next_time(self) -> float | None:
        """When the first host may be served, at the earliest."""
        while self._times and self._times[0][2] not in self.hosts:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    def remove(self, name: str, id16: bytes) -> None:
        """Remove a visit that is handed out, or put back."""
        waiting = self.hosts[name]
        waiting.remove(id16)
        self.size -= 1
        if not waiting:
            del self.hosts[name]

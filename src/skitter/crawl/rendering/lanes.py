"""How the requests of rendered pages follow each other at one host, and what the host is owed afterwards.

Within a page, two may be in flight and their starts are a gap apart. Then the host is left alone for its delay, once for each
of them. For the host of the page itself, and all others in its shard, the frontier keeps that clock; this one is for hosts of
other shards, which only this process knows that it has visited.
"""

import asyncio
from collections import OrderedDict

IN_FLIGHT = 2
_MOST = 10_000  # hosts remembered


class Lane:
    """One host."""

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(IN_FLIGHT)
        self.next = 0.0  # monotonic: when the next request may start
        self.free_at = 0.0  # monotonic: when a page may use the host that has not used it before


class Lanes:
    """All hosts that rendered pages have requested something of."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[str, Lane] = OrderedDict()

    def of(self, host: str) -> Lane:
        """The lane of a host."""
        lane = self._lanes.get(host)
        if lane is None:
            lane = self._lanes[host] = Lane()
            if len(self._lanes) > _MOST:
                self._lanes.popitem(last=False)
        else:
            self._lanes.move_to_end(host)
        return lane

"""URLs offered recently, for a store that would need a round trip to tell.

A store at hand may have its own set of every URL (see `store.Seen`).
"""

from skitter.frontier.bounded import Bounded
from skitter.frontier.store import KNOWN, LOOK
from skitter.model import Level
from skitter.runtime.metrics import SeenMetrics

_Rank = tuple[int, float]  # level and -score; smaller is sooner
_ENDED: _Rank = (-1, 0.0)  # sooner than everything: cannot become more urgent
_REFUSED = len(Level)  # later than every level; the second number is the depth at which it was refused


class LatelySeen:
    """`store.Seen` for a bounded number of URLs; for any other, the row must be looked up."""

    def __init__(self, capacity: int) -> None:
        self._ranks: Bounded[bytes, _Rank] = Bounded(capacity)

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """KNOWN if it waits at least as urgently, or is done. Never NEW: this set cannot be certain."""
        rank = self._ranks.get(id16)
        return KNOWN if rank is not None and (level, -score) >= rank else LOOK

    def refuse(self, id16: bytes, depth: int) -> int:
        """KNOWN if it is wanted, done, or refused at no greater depth."""
        rank = self._ranks.get(id16)
        if rank is None or (rank[0] == _REFUSED and depth < rank[1]):
            return LOOK
        return KNOWN

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """It waits. If it waited at a sooner rank, or was done, links that changed nothing before may now."""
        old, new = self._ranks.get(id16), (level, -score)
        self._ranks[id16] = new
        return old is None or old < new

    def refused(self, id16: bytes, depth: int) -> None:
        """It is refused."""
        self._ranks[id16] = _REFUSED, float(depth)

    def ended(self, id16: bytes) -> None:
        """It is done."""
        self._ranks[id16] = _ENDED

    def trim(self) -> None:
        """Drop the oldest entries."""
        self._ranks.trim()

    def metrics(self) -> SeenMetrics:
        """How much is in memory."""
        return SeenMetrics(items=len(self._ranks), capacity=self._ranks.capacity)

    @property
    def is_full(self) -> bool:
        """Whether there are too many entries."""
        return len(self._ranks) > self._ranks.capacity

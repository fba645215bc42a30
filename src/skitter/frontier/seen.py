"""URLs that were offered lately, for a store that cannot tell without a round trip.

A store at hand may have a set of its own that knows every URL (see `store.Seen`).
"""

from skitter.frontier.bounded import Bounded
from skitter.frontier.store import KNOWN, LOOK
from skitter.model import Level

_Rank = tuple[int, float]  # level and -score, the smaller is sooner
_ENDED: _Rank = (-1, 0.0)  # sooner than everything: nothing would move it forward
_REFUSED = len(Level)  # later than every level; the second number is the depth at which it was refused


class LatelySeen:
    """`store.Seen` of a bounded number of URLs: of any other, the row has to be looked at."""

    def __init__(self, capacity: int) -> None:
        self._ranks: Bounded[bytes, _Rank] = Bounded(capacity)

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """KNOWN when it waits at least as urgently, or is over; it is never NEW for certain."""
        rank = self._ranks.get(id16)
        return KNOWN if rank is not None and (level, -score) >= rank else LOOK

    def refuse(self, id16: bytes, depth: int) -> int:
        """KNOWN when it is wanted, over, or refused at no greater depth."""
        rank = self._ranks.get(id16)
        if rank is None or (rank[0] == _REFUSED and depth < rank[1]):
            return LOOK
        return KNOWN

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """It waits. If it waited at a sooner rank, or was over, links that were no better may be better now."""
        old, new = self._ranks.get(id16), (level, -score)
        self._ranks[id16] = new
        return old is None or old < new

    def refused(self, id16: bytes, depth: int) -> None:
        """It is refused."""
        self._ranks[id16] = _REFUSED, float(depth)

    def ended(self, id16: bytes) -> None:
        """It is over."""
        self._ranks[id16] = _ENDED

    def trim(self) -> None:
        """Forget those that were met first."""
        self._ranks.trim()

    def statistics(self) -> dict[str, float]:
        """How much is remembered."""
        return {"items": len(self._ranks), "capacity": self._ranks.capacity}

    @property
    def is_full(self) -> bool:
        """Whether some are to be forgotten."""
        return len(self._ranks) > self._ranks.capacity

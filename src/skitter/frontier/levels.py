"""Which level is next: levels are drawn by weight, so that none starves.

Hosts, and the links of a host, are drawn with the same function. A host has for each level a queue for untried links,
and one for retries. A retry is drawn only if nothing untried waits, so a page that hangs never keeps others waiting. Two
more queues have no level: one for pages that are due again, and one for links whose pattern is parked, which wait there
until it is tried again.
"""

from collections.abc import Sequence

from skitter.model import Level

LEVELS = tuple(Level)
DUE_AGAIN = 2 * len(LEVELS)  # behind the queues by level, and those of retries by level
OF_PARKED = DUE_AGAIN + 1
QUEUES = OF_PARKED + 1  # of a host

# The ruler sequence: the number of trailing zeros of 1..31 is 0 sixteen times, 1 eight times, … 4 once. Read as levels it
# is a draw by the weights 16:8:4:2:1 that spreads every level evenly and needs one small number as its whole state.
RULER = tuple((n & -n).bit_length() - 1 for n in range(1, 32))


def _next(turn: int, mask: int) -> tuple[int, int]:
    for step in range(len(RULER)):
        slot = (turn + step) % len(RULER)
        if mask >> RULER[slot] & 1:
            return RULER[slot], (slot + 1) % len(RULER)
    return -1, turn


DRAW = tuple(tuple(_next(turn, mask) for turn in range(len(RULER))) for mask in range(1 << len(Level)))
"""DRAW[mask][turn] is (level drawn, next turn); bit n of the mask is set if level n has something waiting."""


def draw_retry(retries: Sequence[int], turn: int) -> tuple[int, int]:
    """The next retry queue and the next turn, given how many wait in each."""
    mask = sum((count > 0) << level for level, count in enumerate(retries))
    level, turn = DRAW[mask][turn]
    return level + len(LEVELS), turn


def retried(queue: int) -> int:
    """The retry queue for a link from this queue."""
    return queue % len(LEVELS) + len(LEVELS)


def better(level: int, score: float, than_level: int, than_score: float) -> bool:
    """Whether one place in the queue comes before another."""
    return level < than_level or (level == than_level and score > than_score)

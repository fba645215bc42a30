"""Which level is next: levels are drawn by weight, so that none starves.

Hosts, and links inside a host, are drawn with the same function. Inside a host there are twice as many queues as levels:
one for the links of each level that were not tried yet, and one for those that failed and are to be tried again. A retry
comes only when nothing untried waits, so a page that hangs never keeps others waiting.
"""

from collections.abc import Sequence

from skitter.model import Level

LEVELS = tuple(Level)
QUEUES = 2 * len(LEVELS)  # of a host: by level, then retries by level

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
"""DRAW[mask][turn] is (level drawn, turn afterwards); bit n of the mask says that level n has something to give."""


def draw_retry(retries: Sequence[int], turn: int) -> tuple[int, int]:
    """The queue of retries that is next, and the turn afterwards, where so many wait in each."""
    mask = sum((count > 0) << level for level, count in enumerate(retries))
    level, turn = DRAW[mask][turn]
    return level + len(LEVELS), turn


def retried(queue: int) -> int:
    """The queue for another try of a link from this one."""
    return queue % len(LEVELS) + len(LEVELS)


def better(level: int, score: float, than_level: int, than_score: float) -> bool:
    """Whether one place in the queue is before another."""
    return level < than_level or (level == than_level and score > than_score)

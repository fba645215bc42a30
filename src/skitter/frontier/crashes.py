"""Which visit kills the process? How often it died with one tells, and what follows from that.

A visit that is suspected is made alone, so that the next crash shows whether it was the cause; one that keeps killing is
given up, with the reason.
"""

from msgspec import Struct

from skitter.model import Reason

CRASHES = 3  # a visit found open this often is handed out alone from then on
CRASHES_IN_HAND = 3  # a visit in hand this often is given up
CRASHES_ALONE = (
    10  # … and one that was merely alone in flight this often, for it may be somebody outside who kills us
)


class Suspicion(Struct, array_like=True, gc=False):
    """How often the process died while a visit was open, and how often while it was in hand."""

    crashes: int = 0
    in_hand: int = 0

    def once_more(self, *, in_hand: bool) -> "Suspicion":
        """After the next death."""
        return Suspicion(self.crashes + 1, self.in_hand + in_hand)


def suspected(crashes: int, in_hand: int) -> bool:
    """Whether a visit must be made alone, so that the next crash tells whether it was the cause."""
    return crashes >= CRASHES or in_hand >= 1


def crash_reason(crashes: int, in_hand: int) -> Reason | None:
    """Why a visit is given up for good; None: it is not."""
    if in_hand >= CRASHES_IN_HAND:
        return Reason("crash", f"the process died {in_hand} times while it worked on this answer")
    if crashes >= CRASHES + CRASHES_ALONE:
        return Reason("crash", f"the process died {crashes} times while this was fetched")
    return None

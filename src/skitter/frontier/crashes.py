"""Which visit kills the process? Decided from how often it died during each.

A suspected visit runs alone, so that the next crash shows whether it was the cause; one that keeps killing is given
up, with the reason. The visit whose bytes are being processed is in hand: its id is in sixteen bytes of shared memory
backed by a file. Writing them costs no system call, and the kernel keeps them however the process dies.
"""

import mmap
from pathlib import Path

from msgspec import Struct

from skitter import reasons
from skitter.model import Reason

CRASHES = 3  # a visit found open this often runs alone from then on
CRASHES_IN_HAND = 3  # a visit in hand this often is given up
CRASHES_ALONE = (
    10  # … and one that was merely alone in flight this often: something outside may be killing us
)


class Suspicion(Struct, array_like=True, gc=False):
    """How often the process died while a visit was open, and how often while it was in hand."""

    crashes: int = 0
    in_hand: int = 0

    def once_more(self, *, in_hand: bool) -> "Suspicion":
        """The counts after one more death."""
        return Suspicion(self.crashes + 1, self.in_hand + in_hand)


def suspected(crashes: int, in_hand: int) -> bool:
    """Whether a visit must run alone, so that the next crash shows whether it was the cause."""
    return crashes >= CRASHES or in_hand >= 1


def crash_reason(crashes: int, in_hand: int) -> Reason | None:
    """Why a visit is given up for good; None if it is not."""
    if in_hand >= CRASHES_IN_HAND:
        return Reason(reasons.CRASH, f"the process died {in_hand} times while it worked on this answer")
    if crashes >= CRASHES + CRASHES_ALONE:
        return Reason(reasons.CRASH, f"the process died {crashes} times while this was fetched")
    return None


# ------------------------------------------------------------------------------------------------ in hand

_SIZE = 16
NOTHING = bytes(_SIZE)


class InHand:
    """The crash mark: a file that holds the id of the visit in hand, or zeros."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: mmap.mmap | None = None

    def open(self) -> mmap.mmap:
        """Its bytes, to read and to write to."""
        if self._opened is None:
            with self._path.open("a+b") as file:
                # Written, not only extended: a hole in a file on a full disk would end the process with
                # SIGBUS.
                file.write(bytes(max(0, _SIZE - file.tell())))
                file.flush()
                self._opened = mmap.mmap(file.fileno(), _SIZE)
        return self._opened

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()

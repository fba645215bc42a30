"""The engine's time, so that no two workers disagree about when a host is free."""

from skitter.ports import Clock


class EngineClock:
    """`skitter.ports.Clock` by an engine's clock: what it said last, and how long ago that was.

    From then on it never goes back. Before the engine has said anything, it is our own.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = local.now() - local.monotonic()
        self._latest = 0.0
        self._heard = False

    def heard(self, said: float, asked_at: float, answered_at: float) -> None:
        """The engine said its time between two monotonic moments.

        A slow answer tells little, and what is still possible is kept: a clock that jumped ahead would free hosts too
        soon. What is not possible any more is moved no further than it must be: two clocks that go apart by a hair show
        it first when an answer takes long, and then everything between a moment ago and now is possible.
        """
        self._ahead = min(max(self._ahead, said - answered_at), said - asked_at)
        if not self._heard:
            self._heard, self._latest = True, 0.0

    def now(self) -> float:
        """The engine's seconds since the epoch."""
        self._latest = max(self._latest, self._local.monotonic() + self._ahead)
        return self._latest

    def monotonic(self) -> float:
        """Our own seconds that never go back."""
        return self._local.monotonic()

"""The engine's clock, so that all workers agree about when a host is free."""

from skitter.ports import Clock


class EngineClock:
    """`skitter.ports.Clock` by an engine's clock: its last time, plus the time since then.

    From then on it never goes back. Before the engine's first answer, it is our own.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = local.now() - local.monotonic()
        self._latest = 0.0
        self._heard = False

    def heard(self, said: float, asked_at: float, answered_at: float) -> None:
        """The engine reported its time between two monotonic moments.

        A slow answer tells little, so the old estimate is kept while it is possible: a clock that jumped ahead would
        free hosts too soon. An impossible estimate is moved no further than necessary: two clocks that drift apart by
        a hair show it first when an answer takes long, and then everything between a moment ago and now is possible.
        """
        self._ahead = min(max(self._ahead, said - answered_at), said - asked_at)
        if not self._heard:
            self._heard, self._latest = True, 0.0

    def now(self) -> float:
        """The engine's seconds since the epoch."""
        self._latest = max(self._latest, self._local.monotonic() + self._ahead)
        return self._latest

    def monotonic(self) -> float:
        """Our own monotonic seconds."""
        return self._local.monotonic()

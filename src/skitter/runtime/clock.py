"""The real clock, passed to everything that needs time; tests pass a virtual one."""

import time


class SystemClock:
    """Wall-clock time that never goes backwards while the process lives, because it advances with the monotonic clock.

    So setting the system clock back never shortens a delay, and setting it forward does not make every host
    due at once.
    """

    # Seconds that never go backwards. The function itself, without a wrapper: it is called several times per visit.
    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + time.monotonic()

"""The real clock, passed to everything that needs time; tests pass a virtual one."""

import time


class SystemClock:
    """Wall-clock time that never goes backwards while the process lives, because it advances with the monotonic clock.

    So setting the system clock back never shortens a delay, and setting it forward does not make every host
    due at once.
    """

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + time.monotonic()

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()

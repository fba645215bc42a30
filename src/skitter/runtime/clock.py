"""The real time. Everything that asks for it is handed this, or a virtual one in tests."""

import time


class SystemClock:
    """Wall-clock time that never goes back while the process lives, because it advances with the monotonic clock.

    A clock that is set back under a running crawl therefore never shortens a delay, and one that is set forward does not
    make every host due at once.
    """

    # Seconds that never go back. The function itself: it is asked for several times a visit.
    monotonic = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + time.monotonic()

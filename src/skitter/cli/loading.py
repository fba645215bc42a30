"""Tells how many rows of a crawl's tables are loaded."""

import time

from skitter.cli.progress import Screen, Transfer


class Loading:
    """Shows the number of rows on a screen."""

    def __init__(self, shown: Screen) -> None:
        self._shown = shown
        self._done = 0
        self._began = time.monotonic()

    def loaded(self, rows: int) -> None:
        """So many more."""
        self._done += rows
        now = time.monotonic()
        elapsed = now - self._began
        self._shown.show(
            Transfer(done=self._done, total=None, one="row", many="rows", written=0, elapsed=elapsed), now
        )

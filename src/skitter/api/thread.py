"""A crawl for a plain `for` loop: an event loop in its own thread.

So it works where a loop is already running, as in Jupyter, and the crawl continues while the loop body is
busy.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import (
    ThreadPoolExecutor,
)  # imported first: it registers its exit handler before ours, and handlers run in reverse order
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
Ending = Callable[[], Coroutine[Any, Any, None]]

_POOL = 4  # threads for what would block the loop, mostly files
_running: set["LoopThread"] = set()


def _close_all() -> None:
    for thread in list(_running):
        thread.close()


# Not `atexit`: by then Python has shut down the thread pools that saving a crawl needs.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # noqa: SLF001


class LoopThread:
    """Runs coroutines in its own thread for callers in others. Must be closed; the end of the program closes it too."""

    def __init__(self, drain: Ending, stop_at_once: Ending) -> None:
        """`drain` ends the work cleanly, `stop_at_once` if the caller will not wait for that."""
        self._drain = drain
        self._stop_at_once = stop_at_once
        self._loop = uvloop.new_event_loop()
        self._pool = _full_pool()
        self._loop.set_default_executor(self._pool)
        # A daemon, because Python waits for other threads before it runs exit handlers.
        self._thread = threading.Thread(target=self._serve, name="skitter", daemon=True)
        self._thread.start()
        self.closed = False
        _running.add(self)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine; returns its result or raises what it raised."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the work and the thread. An interrupt meanwhile ends it at once; what is stored is safe either way."""
        if self.closed:
            return
        self.closed = True
        _running.discard(self)
        try:
            self.call(self._drain())
        except KeyboardInterrupt:
            self.call(self._stop_at_once())
            raise
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            self._pool.shutdown()


def _full_pool() -> ThreadPoolExecutor:
    """A pool that starts all its threads now: at exit Python starts no new ones, and a crawl may still have to
    be saved.
    """
    pool = ThreadPoolExecutor(_POOL, "skitter-pool")
    all_there = threading.Barrier(_POOL)
    for _ in range(_POOL):
        pool.submit(all_there.wait)
    return pool

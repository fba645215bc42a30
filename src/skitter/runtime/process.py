"""Set once for the whole process: memory, garbage collection, open files, the event loop."""

import asyncio
import ctypes
import gc
import resource
import sys
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# From <malloc.h>. Pages are parsed into short-lived trees of a few hundred KB: with glibc's defaults each one
# is returned to the kernel and faulted in again. Keeping them takes parsing from 126 to 82 µs and a whole
# visit down by 18 %.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 64 * 2**20


def tune_allocator() -> bool:
    """Keep freed memory in the process. Returns whether the C library supports it (glibc does)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEEP)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))


def raise_open_files(wanted: int) -> int:
    """Raise the limit of open files to this many, or as far as the system allows; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else soft


# A visit leaves no cycles behind, so there is little to collect and much to scan: the modules, the memos, the
# pages in flight. With Python's thresholds (700 new objects, 10 and 10 rounds) that is 4 % of a crawl. The
# few cycles there are (failed requests create some) are collected after this many new objects: about 10 MB of
# them.
_COLLECT_AFTER = (100_000, 20, 20)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Exclude everything loaded from garbage collection, and collect the rest less often."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the program on the fast event loop."""
    import uvloop  # noqa: PLC0415  a parent of workers does without

    tune_allocator()
    with collecting_rarely(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def unwrapped(work: Awaitable[T]) -> T:
    """The first error: tasks fail in groups, but messages and exit codes are for single errors."""
    try:
        return await work
    except BaseExceptionGroup as group:
        raise _first(group) from group


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner

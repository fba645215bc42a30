"""A look at the shards of one process, and what every look has in common: the disk, and the clock."""

import shutil
import time
from pathlib import Path

from skitter.crawl.local_shards import LocalShards
from skitter.ports import Clock
from skitter.reporting.observation import Observation, WorkerSeen
from skitter.reporting.waiting import Waiting
from skitter.settings import Settings


def disk_of(path: Path) -> tuple[int, int]:
    """Free bytes and size of the disk of a directory; zeros if it cannot be looked at."""
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return 0, 0
    return usage.free, usage.total


def offset_of(clock: Clock) -> float:
    """By how much the clock that decides is ahead of this machine's, which somebody may have set."""
    return clock.now() - time.time()


def is_held(waiting: Waiting) -> bool:
    """Whether the whole crawl pauses, for a window mostly."""
    return any(not pause.host for pause in waiting.pauses)


def observed(
    shards: LocalShards, settings: Settings, path: Path, clock: Clock, *, finished: bool
) -> Observation:
    """A crawl that runs in this process alone."""
    measured = shards.metrics()
    free, size = disk_of(path)
    return Observation(
        at=clock.now(),
        counts=shards.counts,
        metrics=measured,
        workers=[WorkerSeen("0", up=True, cpu=measured.process.cpu, resident=measured.process.resident)],
        disk_free=free,
        disk_size=size,
        clock_offset=offset_of(clock),
        paused=shards.paused or is_held(shards.waiting()),
        finished=finished,
        expected_pages=settings.alerts.expected_pages,
    )

"""A look at a fleet: what its workers have last said, as one crawl."""

import time
from collections.abc import Sequence
from pathlib import Path

from skitter.crawl.observing import disk_of, is_held, offset_of
from skitter.fleet.messages import Account
from skitter.fleet.processes import WorkerProcess
from skitter.model import Counts
from skitter.ports import Clock
from skitter.reporting.observation import Lasting, Observation, WorkerSeen
from skitter.settings import Settings


class FleetObserver:
    """Remembers what dead workers had counted, so that no counter of the fleet ever falls."""

    def __init__(self, workers: Sequence[WorkerProcess], path: Path, clock: Clock) -> None:
        self._workers = workers
        self._path = path
        self._clock = clock
        self._lasting = Lasting()
        self._heard: dict[int, float] = {}  # by worker, in monotonic time
        self.deaths = 0

    def heard(self, worker: WorkerProcess, account: Account) -> None:
        """A worker has said how it is."""
        self._heard[worker.number] = time.monotonic()
        self._lasting.note(worker.number, worker.life, account.metrics)

    def observe(self, settings: Settings, counts: Counts, *, paused: bool, finished: bool) -> Observation:
        """The fleet now."""
        free, size = disk_of(self._path)
        accounts = [worker.account for worker in self._workers if worker.account is not None]
        return Observation(
            at=self._clock.now(),
            counts=counts,
            metrics=self._lasting.metrics(),
            workers=[self._seen(worker) for worker in self._workers],
            deaths=self.deaths,
            disk_free=free,
            disk_size=size,
            clock_offset=offset_of(self._clock),
            paused=paused or any(is_held(account.waiting) for account in accounts),
            finished=finished,
            expected_pages=settings.alerts.expected_pages,
        )

    def _seen(self, worker: WorkerProcess) -> WorkerSeen:
        now = time.monotonic()
        process = None if worker.account is None else worker.account.metrics.process
        return WorkerSeen(
            str(worker.number),
            up=worker.ready or worker.ended is not None,
            cpu=process.cpu if process else 0.0,
            resident=process.resident if process else 0,
            silent=0.0 if worker.ended is not None else now - self._heard.get(worker.number, now),
        )

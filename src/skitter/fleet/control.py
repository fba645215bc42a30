"""Control of a fleet: commands go to every worker, and their answers are gathered."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from skitter.control.desk import PATIENCE, Told
from skitter.control.log import CommandLog
from skitter.control.orders import Answer
from skitter.fleet.messages import Account, Applied, Commands, Ready
from skitter.fleet.processes import WorkerProcess
from skitter.fleet.seeding import Seeding
from skitter.model import Counts, Link
from skitter.ports import Command, Obeyed, StateError
from skitter.reporting.progress import Progress, Rate
from skitter.reporting.waiting import together
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings, SettingsError


class Shown(Protocol):
    """A fleet, as its progress is made from it."""

    settings: Settings

    @property
    def counts(self) -> Counts:
        """The counts of the crawl."""
        ...

    @property
    def pages_of_this_run(self) -> int:
        """Pages stored in this run."""
        ...

    @property
    def accounts(self) -> list[Account]:
        """The last answers of the workers."""
        ...

    @property
    def paused(self) -> bool:
        """Whether a person has paused it."""
        ...

    def stop(self) -> None:
        """Finish what is in flight, save, and end."""
        ...

    async def reload(self, words: str) -> Answer:
        """Take over other settings, given as TOML. SettingsError if they cannot be used."""
        ...


def snapshot(fleet: Shown, rate: Rate, began: float, now: float) -> Progress:
    """The progress of a fleet at a monotonic time."""
    accounts, limits = fleet.accounts, fleet.settings.crawl
    return Progress(
        counts=fleet.counts,
        in_flight=sum(account.in_flight for account in accounts),
        hosts_ready=sum(account.metrics.agenda.ready for account in accounts) if accounts else None,
        rate=rate.of(fleet.pages_of_this_run, now),
        elapsed=now - began,
        max_pages=limits.max_pages,
        max_time=limits.max_time,
        max_bytes=limits.max_bytes,
        waiting=together([account.waiting for account in accounts]),
        paused=fleet.paused,
    )


class FleetControl:
    """`skitter.control.desk.Running` on the workers of a fleet."""

    def __init__(
        self,
        fleet: Shown,
        workers: Sequence[WorkerProcess],
        log: CommandLog,
        seeding: Seeding,
        intake: Intake,
        stopping: Callable[[], bool],
    ) -> None:
        self._fleet = fleet
        self._workers = workers
        self._log = log
        self._seeding = seeding
        self._intake = intake
        self._stopping = stopping
        self._began = time.monotonic()
        self._applied = dict.fromkeys((worker.number for worker in workers), 0)  # how far each has come
        self._results: list[Obeyed] = []
        self._asked = 0  # commands whose results somebody waits for
        self._changed = asyncio.Event()

    @property
    def ending(self) -> bool:
        """Whether it has begun to stop."""
        return self._stopping()

    @property
    def in_flight(self) -> int:
        """Visits leased and not settled, as last reported."""
        return sum(account.in_flight for account in self._fleet.accounts)

    async def tell(self, command: Command) -> Told:
        """Bring a command to all workers, and gather what they say."""
        self._asked += 1
        for worker in self._workers:
            worker.say(Commands([command]))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while not self._all_have(command.number):
                        self._changed.clear()
                        await self._changed.wait()
            results = [each for each in self._results if each.number == command.number]
            return Told(results, whole=self._all_have(command.number))
        finally:
            self._asked -= 1
            if not self._asked:
                self._results.clear()

    def _all_have(self, number: int) -> bool:
        return all(self._applied[worker.number] >= number for worker in self._workers)

    def applied(self, worker: WorkerProcess, message: Applied) -> None:
        """A worker has applied commands."""
        self._applied[worker.number] = max(self._applied[worker.number], message.number)
        if self._asked:
            self._results += message.results
        self._changed.set()

    def welcome(self, worker: WorkerProcess, message: Ready) -> None:
        """A worker is ready. It has read the log itself, up to some number."""
        self.applied(worker, Applied(message.applied, message.results))
        if newer := self._log.after(message.applied):
            worker.say(Commands(newer))

    async def add(self, some: Sequence[Link | BadSeed]) -> None:
        """Keep seeds, and send them to the workers."""
        with self._seeding.adding():
            await asyncio.to_thread(self._intake.keep_links, some)

    def stop(self) -> None:
        """Finish what is in flight, save, and end."""
        self._fleet.stop()

    async def reload(self, settings: str) -> Answer:
        """Take over other settings."""
        try:
            return await self._fleet.reload(settings)
        except (SettingsError, StateError) as problem:
            return Answer(error=str(problem), wrong=isinstance(problem, SettingsError))

    def progress(self, rate: Rate) -> Progress:
        """Its progress now."""
        return snapshot(self._fleet, rate, self._began, time.monotonic())

"""Other settings for a running fleet: they are kept, and every worker is replaced by one that reads them.

A worker finishes what is in flight and hands its shards over, as when the crawl is stopped; its successor judges what
waits, and what was refused, by the new settings when it opens them. The parent, its display and its socket stay. If
anything dies meanwhile, the next start reads the same file.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from skitter import plugins
from skitter.control.orders import Answer
from skitter.crawl.directory import CrawlDirectory
from skitter.fetch.check import check
from skitter.fleet.messages import Halt, Ready
from skitter.fleet.processes import WorkerProcess
from skitter.model import Stop
from skitter.reporting.format import counted
from skitter.settings import Settings
from skitter.settings.changes import differences
from skitter.settings.file import build, from_toml

_PATIENCE = 50.0  # seconds to wait for the workers before answering; a request may take 30


class Reloading:
    """Replaces the workers of a fleet, and knows which of them are being replaced."""

    def __init__(self, directory: CrawlDirectory, workers: Sequence[WorkerProcess]) -> None:
        self._directory = directory
        self._workers = workers
        self._leaving: set[int] = set()  # workers that were told to make room for their successors
        self._awaited: set[int] = set()  # workers whose successors have not opened their shards yet
        self._outdated: set[int] = (
            set()
        )  # workers that may have read the settings before, and have not opened their shards yet
        self._went = self._came = 0
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def is_leaving(self, worker: WorkerProcess) -> bool:
        """Whether a worker ends only to be replaced."""
        return worker.number in self._leaving

    def left(self, worker: WorkerProcess) -> bool:
        """A worker has ended; whether it had been told to."""
        told = worker.number in self._leaving
        self._leaving.discard(worker.number)
        self._outdated.discard(worker.number)  # its successor reads the settings of now
        return told

    def welcome(self, worker: WorkerProcess, message: Ready) -> None:
        """A worker has opened its shards. If it did so by settings of before, it makes room at once."""
        if worker.number in self._outdated:
            self._outdated.discard(worker.number)
            self._dismiss(worker)
        elif worker.number in self._awaited and worker.number not in self._leaving:
            self._awaited.discard(worker.number)
            self._went += message.went
            self._came += message.came
            self._changed.set()

    async def judged(self, words: str, old: Settings) -> tuple[Settings, list[str]]:
        """The new settings, checked like those of a new crawl, and what they change. SettingsError if they cannot be used."""
        settings = build(from_toml(words))
        changes = differences(old, settings)
        check(settings)
        await asyncio.to_thread(plugins.check, settings)
        return self._directory.fitted(settings, len(self._workers)), changes

    async def replace(self, changes: Sequence[str]) -> Answer:
        """Replace all workers: other settings are kept. Waits for them, but not for ever."""
        async with self._one_at_a_time:
            self._went = self._came = 0
            self._directory.forget_accounts()
            self._awaited = {worker.number for worker in self._workers}
            self._outdated = {worker.number for worker in self._workers if not worker.ready}
            for worker in self._workers:
                if worker.ready:
                    self._dismiss(worker)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    while self._awaited:
                        self._changed.clear()
                        await self._changed.wait()
            return Answer(said="\n".join([*changes, self._outcome()]), changed=len(changes))

    def _dismiss(self, worker: WorkerProcess) -> None:
        self._leaving.add(worker.number)
        worker.say(Halt(Stop.INTERRUPTED, at_once=False))

    def _outcome(self) -> str:
        if self._awaited:
            return f"kept; {counted(len(self._awaited), 'worker')} still finishing what is in flight under the old settings"
        moved = [
            words
            for number, words in (
                (self._went, f"{counted(self._went, 'URL')} left the queue"),
                (self._came, f"{counted(self._came, 'URL')} came back"),
            )
            if number
        ]
        return ", ".join(["in force", *moved])

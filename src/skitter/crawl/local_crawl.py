"""A crawl directory at work in this process, for programs."""

import asyncio
import time
from collections.abc import Iterable

from skitter.control.desk import Desk, paused_words
from skitter.control.log import CommandLog
from skitter.control.server import ControlServer
from skitter.control.watching import Watch, watched
from skitter.crawl.control import LocalControl
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_shards import LocalShards
from skitter.crawl.observing import observed
from skitter.events import Event, Events, Warned
from skitter.model import Link, Stop
from skitter.reporting.log import WARNING, warnings
from skitter.reporting.observation import Observation
from skitter.reporting.report import WARNINGS, Report, Run
from skitter.runtime.clock import SystemClock
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings


class Warnings:
    """The first warnings of a run, for its report."""

    def __init__(self, events: Events) -> None:
        self.texts: list[str] = []
        events.subscribe(self._note, *WARNING)

    def _note(self, event: Event) -> None:
        self.texts += warnings(event)[: WARNINGS - len(self.texts)]


class Crawl:
    """A crawl: offer seeds, run it, read the report."""

    def __init__(
        self,
        local_shards: LocalShards,
        settings: Settings,
        events: Events,
        directory: CrawlDirectory,
        intake: Intake,
        warned: Warnings,
        server: ControlServer,
    ) -> None:
        self.local_shards = local_shards
        self.settings = settings
        self.directory = directory
        self.events = events
        self._intake = intake
        self._warned = warned
        self._server = server
        self._clock = SystemClock()
        self._finished = False

    async def seed(self, seeds: Iterable[Link | BadSeed] = ()) -> int:
        """Offer seeds, and those that an earlier run has left; returns how many were new."""
        await asyncio.to_thread(self._intake.keep_links, seeds)
        return await self.local_shards.take_in(self._intake)

    async def run(self) -> Report:
        """Crawl until done or told to stop."""
        run = Run(time.time(), time.monotonic(), self.local_shards.counts.pages)
        if not self._intake.is_empty:
            await self.local_shards.take_in(self._intake)
        stop = await self._run()
        return run.report(
            stop,
            self.local_shards.counts,
            (time.time(), time.monotonic()),
            directory=str(self.directory.path),
            hosts=await self.local_shards.top_hosts(),
            warnings=self._warned.texts,
            metrics=self.local_shards.metrics(),
            limits=self.settings.crawl,
            failed=self.local_shards.failed,
        )

    async def _run(self) -> Stop:
        """Crawl, and let others control it meanwhile."""
        control = LocalControl(self.local_shards, self._intake, self.settings.crawl)
        desk = Desk(CommandLog(self.directory.commands_file), self.settings.urls, control)
        if desk.log.paused:
            self.events.emit(Warned(paused_words(self.directory.path)))
        async with self._server.serving(self.directory.control_socket, desk):
            try:
                async with watched(self._watched()):
                    stop = await self.local_shards.run()
                    self._finished = stop is Stop.DONE
                    return stop
            finally:
                await control.close()

    def observe(self) -> Observation:
        """The crawl as it is now, for its metrics and alerts."""
        path, finished = self.directory.path, self._finished
        return observed(self.local_shards, self.settings, path, self._clock, finished=finished)

    def _watched(self) -> Watch:
        return Watch(
            settings=self.settings,
            clock=self._clock,
            observe=self.observe,
            warn=lambda text: self.events.emit(Warned(text)),
            name={"crawl": self.directory.path.absolute().name},
            alerts_file=self.directory.alerts_file,
            url_file=self.directory.metrics_file,
        )

    def stop(self, why: Stop = Stop.INTERRUPTED) -> None:
        """Finish what is in flight, save, and let `run` return."""
        self.local_shards.stop(why)

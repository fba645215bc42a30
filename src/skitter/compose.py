"""Settings in, a wired crawl out. The only importer of back ends, and the only place that knows which one is used."""

import dataclasses
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from heapq import heappush, heappushpop
from pathlib import Path

from skitter import __version__
from skitter.backends.memory import MemoryCache
from skitter.backends.rocksdb import RocksFrontier
from skitter.backends.rocksdb import open_reader as open_state
from skitter.backends.warc import Reader as ArchiveReader
from skitter.backends.warc import WarcArchive
from skitter.clock import SystemClock
from skitter.dedup import Duplicates
from skitter.directory import CrawlDirectory
from skitter.events import Event, Events, Warned
from skitter.fetch.http import HttpFetcher
from skitter.fetch.request import user_agent
from skitter.links import LinkJudge
from skitter.log import RequestLog
from skitter.model import HostRecord, Link
from skitter.permission import Permissions
from skitter.ports import Clock, Records
from skitter.process import raise_open_files
from skitter.report import Report
from skitter.robots import product_token
from skitter.scope import Scope
from skitter.seeds import BadSeed
from skitter.settings import Settings, SettingsError
from skitter.shard import Shard, Stop
from skitter.visit import Stations

_TOP_HOSTS = 20
_WARNINGS = 100  # repeated in the report; all of them are in the log
_RULES_CACHED = 10_000  # parsed robots.txt files
_FILES_BESIDES_SOCKETS = 256  # the store's tables, the archive, logs
_EXIT_CODES = {Stop.DONE: 0, Stop.LIMIT: 3, Stop.DISK: 4, Stop.INTERRUPTED: 130}


class Crawl:
    """A crawl directory at work: offer it seeds, run it, read the report."""

    def __init__(self, shard: Shard, stations: Stations, events: Events, directory: CrawlDirectory) -> None:
        self.shard = shard
        self.settings = stations.settings
        self.directory = directory
        self.stations = stations
        self.events = events
        self._warnings: list[str] = []
        events.subscribe(self._remember)

    async def seed(self, seeds: Iterable[Link | BadSeed]) -> int:
        """Offer seeds; says how many were new."""
        return await self.shard.add_seeds(seeds)

    async def run(self) -> Report:
        """Crawl until it is done or told to stop."""
        clock = self.stations.clock
        started, began, had = clock.now(), clock.monotonic(), self.shard.counts.pages
        stop = await self.shard.run()
        elapsed = clock.monotonic() - began
        counts = self.shard.counts
        exit_code = 1 if stop is Stop.DONE and not counts.pages else _EXIT_CODES[stop]
        return Report(
            outcome=stop.value,
            exit_code=exit_code,
            started=started,
            ended=clock.now(),
            elapsed=elapsed,
            pages_per_second=(counts.pages - had) / elapsed if elapsed else 0.0,
            counts=counts,
            directory=str(self.directory.path),
            hosts=await top_hosts(self.stations.frontier),
            warnings=self._warnings,
            caches=self.stations.statistics(),
        )

    def stop(self, why: Stop = Stop.INTERRUPTED) -> None:
        """Finish what is in flight, save, and let `run` return."""
        self.shard.stop(why)

    def _remember(self, event: Event) -> None:
        if isinstance(event, Warned) and len(self._warnings) < _WARNINGS:
            self._warnings.append(event.text)


@asynccontextmanager
async def opened(path: Path, settings: Settings, events: Events) -> AsyncIterator[Crawl]:
    """Take a crawl directory, new or old, and give it back at the end, whatever happens."""
    directory = CrawlDirectory(path)
    if directory.exists and (section := directory.changed_for_good(settings)):
        raise SettingsError(
            f"the settings in [{section}] differ from those {path} was made with, and would no longer find its URLs; "
            f"leave them as they are in {directory.settings_file}, or start another crawl with -o"
        )
    directory.prepare()
    with directory.locked():
        directory.write_settings(settings)
        settings = _fitted(settings, events)
        request_log = RequestLog(directory.request_log(0))
        events.subscribe(request_log)
        try:
            if request_log.repaired:
                events.emit(Warned(request_log.repaired))
            stations = wire(directory, settings, SystemClock())
            shard = Shard(stations, events, directory)
            crawl = Crawl(shard, stations, events, directory)
            try:
                await shard.open()
                yield crawl
            finally:
                await shard.close()
        finally:
            request_log.close()


def wire(directory: CrawlDirectory, settings: Settings, clock: Clock) -> Stations:
    """The stations of shard 0 of 1."""
    agent = user_agent(settings.fetch)
    frontier = RocksFrontier(directory.state(0), settings)
    scope = Scope(settings.scope, directory.roots())
    names = MemoryCache(settings.fetch.dns_cache, clock)
    archive = WarcArchive(
        directory.archive,
        0,
        settings.archive,
        clock,
        software=f"Skitter/{__version__}",
        user_agent=agent,
        contact=settings.fetch.contact,
    )
    return Stations(
        settings=settings,
        frontier=frontier,
        fetcher=HttpFetcher(settings.fetch, names, clock),
        archive=archive,
        scope=scope,
        permissions=Permissions(frontier, MemoryCache(_RULES_CACHED, clock), clock, product_token(agent)),
        links=LinkJudge(settings, scope),
        duplicates=Duplicates(frontier, settings.dedup),
        clock=clock,
        dice=random.Random(),  # noqa: S311  jitter is no secret
    )


def _fitted(settings: Settings, events: Events) -> Settings:
    """Settings that this machine can keep: no more requests at once than there can be sockets."""
    wanted = settings.crawl.concurrency + settings.fetch.keep_connections + _FILES_BESIDES_SOCKETS
    allowed = raise_open_files(wanted)
    if allowed >= wanted:
        return settings
    keep = max(1, (allowed - _FILES_BESIDES_SOCKETS) // 2)
    concurrency = max(1, min(settings.crawl.concurrency, keep))
    events.emit(
        Warned(
            f"only {allowed} files may be open at once (ulimit -n), so at most {concurrency} requests are made at once"
        )
    )
    return dataclasses.replace(
        settings,
        crawl=dataclasses.replace(settings.crawl, concurrency=concurrency),
        fetch=dataclasses.replace(
            settings.fetch, keep_connections=min(settings.fetch.keep_connections, keep)
        ),
    )


async def top_hosts(frontier: Records) -> list[HostRecord]:
    """The hosts with the most pages."""
    top: list[tuple[int, int, str, HostRecord]] = []
    async for host in frontier.hosts():
        (heappush if len(top) < _TOP_HOSTS else heappushpop)(
            top, (host.pages, host.requests, host.host, host)
        )
    return [host for *_, host in sorted(top, reverse=True)]


# ------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class Reader:
    """A crawl directory to read from, also while a crawl runs in it."""

    settings: Settings
    directory: CrawlDirectory
    frontier: Records
    archive: ArchiveReader

    async def close(self) -> None:
        """Let go of the store."""
        await self.frontier.close()


def open_reader(path: Path) -> Reader:
    """Read what a crawl has so far."""
    directory = CrawlDirectory(path)
    settings = directory.read_settings()
    return Reader(settings, directory, open_state(directory.state(0)), ArchiveReader(directory.archive))

"""Settings in, a wired crawl out. The only importer of back ends, and the only place that knows which one is used."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import __version__
from skitter.backends.memory import MemoryCache
from skitter.backends.rocksdb import RocksFrontier
from skitter.backends.rocksdb import open_reader as open_state
from skitter.backends.warc import Reader as ArchiveReader
from skitter.backends.warc import WarcArchive
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_shards import Team
from skitter.crawl.records import ShardedRecords
from skitter.crawl.shard import Shard
from skitter.dedup.twins import Duplicates
from skitter.events import Event, Events, Warned
from skitter.fetch.check import check
from skitter.fetch.http import HttpFetcher
from skitter.fetch.request import user_agent
from skitter.links import LinkJudge
from skitter.links.filter import LinkFilter, Wanted
from skitter.model import Link, Stop
from skitter.ports import Archive, Cache, Clock, Fetcher, Frontier, Records, StateError
from skitter.reporting.format import counted
from skitter.reporting.log import WARNING, RequestLog, warnings
from skitter.reporting.report import WARNINGS, Report, Run
from skitter.robots import product_token
from skitter.robots.in_force import Permissions
from skitter.runtime.clock import SystemClock
from skitter.runtime.process import raise_open_files
from skitter.scope import Scope
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings, SettingsError
from skitter.visit import Shared, Stations

if TYPE_CHECKING:
    from skitter.compose.reading import ClusterReader

_RULES_CACHED = 10_000  # parsed robots.txt files
_FILES_BESIDES_SOCKETS = 256  # the store's tables, the archive, logs
_FILES_PER_SHARD = 3  # its request log, the mark of the visit in hand, the segment that it writes


class Crawl:
    """A crawl directory at work in this process: offer it seeds, run it, read the report."""

    def __init__(
        self,
        team: Team,
        settings: Settings,
        events: Events,
        directory: CrawlDirectory,
        intake: Intake,
        warned: list[str],
    ) -> None:
        """`warned`: warnings so far; whoever fills it goes on doing so."""
        self.team = team
        self.settings = settings
        self.directory = directory
        self.events = events
        self._intake = intake
        self._warnings = warned

    async def seed(self, seeds: Iterable[Link | BadSeed] = ()) -> int:
        """Offer seeds, and those that an earlier run has left; says how many were new."""
        await asyncio.to_thread(self._intake.keep_links, seeds)
        return await self.team.take_in(self._intake)

    async def run(self) -> Report:
        """Crawl until it is done or told to stop."""
        run = Run(time.time(), time.monotonic(), self.team.counts.pages)
        if not self._intake.is_empty:
            await self.team.take_in(self._intake)
        stop = await self.team.run()
        return run.report(
            stop,
            self.team.counts,
            (time.time(), time.monotonic()),
            directory=str(self.directory.path),
            hosts=await self.team.top_hosts(),
            warnings=self._warnings,
            caches=self.team.statistics(),
            limits=self.settings.crawl,
            failed=self.team.failed,
        )

    def stop(self, why: Stop = Stop.INTERRUPTED) -> None:
        """Finish what is in flight, save, and let `run` return."""
        self.team.stop(why)


@asynccontextmanager
async def opened(
    path: Path,
    settings: Settings,
    events: Events,
    links: Wanted | None = None,
    *,
    seeds: Iterable[Link | BadSeed] = (),
) -> AsyncIterator[Crawl]:
    """Take a crawl directory, new or old, with all its shards, and give it back at the end, whatever happens.

    `links` says which links a program wants to follow. `seeds` are kept before there is a crawl to go on with, and taken in
    by `Crawl.seed`.
    """
    check(settings.fetch)
    directory = CrawlDirectory(path)
    settings = directory.fitted(settings, workers=1)
    directory.prepare()
    with directory.locked():
        directory.begin()
        intake = Intake(directory.seeds, settings.urls)
        intake.keep_links(seeds)
        directory.make(settings)
        shards = range(settings.crawl.shards)
        warned: list[str] = []
        # Before the shards are made: each of them tells those who listen by then.
        events.subscribe(lambda event: _remember(event, warned), *WARNING)
        link_filter = None if links is None else LinkFilter(links, settings, events)
        async with manned(directory, shards, settings, events, link_filter) as team:
            yield Crawl(team, settings, events, directory, intake, warned)


def _remember(event: Event, warned: list[str]) -> None:
    warned += warnings(event)[: WARNINGS - len(warned)]


@asynccontextmanager
async def manned(
    directory: CrawlDirectory,
    shards: Sequence[int],
    settings: Settings,
    events: Events,
    link_filter: LinkFilter | None = None,
) -> AsyncIterator[Team]:
    """Some shards of a crawl, open and ready to run in this process."""
    settings = fitted_to_machine(settings, events)
    clock = SystemClock()
    names = MemoryCache(settings.fetch.dns_cache, clock)
    at = replace(
        shared(directory, settings, clock, names),
        link_filter=link_filter,
        judge_again=directory.scope_changed,
    )
    async with AsyncExitStack() as stack:
        members, archives = [], {}
        for number in shards:
            request_log = RequestLog(directory.request_log(number))
            stack.callback(request_log.close)
            own_events = events.branch()
            own_events.subscribe(request_log, *request_log.KINDS)
            if request_log.repaired:
                events.emit(Warned(request_log.repaired))
            frontier = RocksFrontier(
                directory.state(number), settings, shard=number, shards=settings.crawl.shards
            )
            archives[number] = archive_of(directory, number, at)
            own = stations(at, frontier, archives[number], at.fetcher)
            members.append(Shard(own, own_events, directory, number))
        team = Team(members, at, events, directory)
        stack.push_async_callback(team.close)
        await team.open()
        if team.counts.added and not directory.roots():
            raise StateError(
                f"{directory.roots_file} is empty or gone, and without it every further link would be out of scope; bring it "
                "back (one URL a line: the seeds), or start another crawl with -o"
            )
        for number, archive in archives.items():
            if gaps := archive.gaps():
                events.emit(Warned(_gone(directory, number, gaps)))
        yield team


def _gone(directory: CrawlDirectory, shard: int, gaps: Sequence[int]) -> str:
    """What is said of files that the archive has lost. Somebody may have moved them away, so the crawl goes on."""
    named = ", ".join(f"{shard:02d}-*-{gap:05d}.warc.gz" for gap in gaps[:3]) + (
        ", …" if len(gaps) > 3 else ""
    )
    return (
        f"{counted(len(gaps), 'file')} of the archive cannot be found ({named}), so the pages in it cannot be read; unless "
        f"you moved it away, see: skitter check {directory.path}"
    )


def shared(directory: CrawlDirectory, settings: Settings, clock: Clock, names: Cache) -> Shared:
    """The stations that all shards of a process have in common."""
    scope = Scope(settings.scope, directory.roots())
    fetcher = HttpFetcher(settings.fetch, names, clock)
    return Shared(
        settings=settings, fetcher=fetcher, scope=scope, links=LinkJudge(settings, scope), clock=clock
    )


def archive_of(directory: CrawlDirectory, shard: int, at: Shared) -> WarcArchive:
    """The files that a shard writes its answers to."""
    settings = at.settings
    return WarcArchive(
        directory.archive,
        shard,
        settings.archive,
        at.clock,
        software=f"Skitter/{__version__}",
        user_agent=user_agent(settings.fetch),
        contact=settings.fetch.contact,
    )


def stations(at: Shared, frontier: Frontier, archive: Archive, fetcher: Fetcher) -> Stations:
    """The stations of one shard."""
    settings, clock = at.settings, at.clock
    token = product_token(user_agent(settings.fetch))
    return Stations(
        settings=settings,
        frontier=frontier,
        fetcher=fetcher,
        archive=archive,
        scope=at.scope,
        permissions=Permissions(frontier, MemoryCache(_RULES_CACHED, clock), clock, token),
        links=at.links,
        link_filter=at.link_filter,
        judge_again=at.judge_again,
        roots_after=at.roots_after,
        duplicates=Duplicates(frontier, settings.dedup),
        clock=clock,
        dice=random.Random(),  # noqa: S311  jitter is no secret
    )


def fitted_to_machine(settings: Settings, events: Events) -> Settings:
    """Settings that this machine can keep: no more requests at once than there can be sockets."""
    wanted = settings.crawl.concurrency + settings.fetch.keep_connections + _FILES_BESIDES_SOCKETS
    # Shards on top, as far as the system lets us: a worker of a cluster seldom has all of them.
    allowed = raise_open_files(wanted + _FILES_PER_SHARD * settings.crawl.shards)
    if allowed >= wanted:
        return settings
    keep = max(1, (allowed - _FILES_BESIDES_SOCKETS) // 2)
    concurrency = max(1, min(settings.crawl.concurrency, keep))
    events.emit(
        Warned(
            f"only {allowed} files may be open at once (ulimit -n), so at most {concurrency} requests are made at once"
        )
    )
    return replace(
        settings,
        crawl=replace(settings.crawl, concurrency=concurrency),
        fetch=replace(settings.fetch, keep_connections=min(settings.fetch.keep_connections, keep)),
    )


# ------------------------------------------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class Reader:
    """A crawl directory to read from, also while a crawl runs in it."""

    settings: Settings
    directory: CrawlDirectory
    frontier: Records
    archive: ArchiveReader

    @property
    def name(self) -> str:
        """Its directory."""
        return str(self.directory.path)

    async def roots(self) -> list[str]:
        """What the scope is measured from."""
        return self.directory.roots()

    async def files(self) -> list[str]:
        """The names of the archive's files."""
        return self.directory.files()

    def path_of(self, file: str) -> str:
        """Below the archive folder."""
        return file

    async def elsewhere(self) -> dict[str, int]:
        """All of it is here."""
        return {}

    async def close(self) -> None:
        """Let go of the store."""
        await self.frontier.close()


def open_reader(path: Path, settings: Settings | None = None) -> Reader:
    """Read what a crawl on this machine has so far."""
    directory = CrawlDirectory(path)
    settings = settings or directory.read_settings()
    shards = [open_state(directory.state(number)) for number in range(max(1, settings.crawl.shards))]
    records = shards[0] if len(shards) == 1 else ShardedRecords(shards)
    return Reader(settings, directory, records, ArchiveReader(directory.archive))


async def open_source(paths: Sequence[Path], config: Settings | None = None) -> "Reader | ClusterReader":
    """Read what a crawl has so far: from its directory, or a cluster's from its engines.

    `config` are the settings of a cluster; else those in the first directory say where it is. Of a cluster, any number of
    workers' directories may be named: files of its archive that no bucket has are read from there.
    """
    directories = [CrawlDirectory(path) for path in paths]
    settings = config or directories[0].read_settings()
    for directory in directories if config else directories[1:]:
        check_same_crawl(directory, settings)
    if settings.cluster.size == "none":
        return open_reader(paths[0], settings)
    from skitter.compose.reading import read_cluster  # noqa: PLC0415  engines' libraries are large, and extras

    return await read_cluster(directories, settings)


def check_same_crawl(directory: CrawlDirectory, settings: Settings) -> None:
    """SettingsError unless it is a directory of a worker of the cluster that the settings name."""
    other = directory.read_settings().cluster
    if other.size == "none" or settings.cluster.size == "none":
        raise SettingsError(
            f"{directory.path} is no directory of a worker of the same cluster; read one crawl at a time"
        )
    if (other.name, other.size) != (settings.cluster.name, settings.cluster.size):
        raise SettingsError(
            f"{directory.path} is of the cluster {other.name}, not of {settings.cluster.name}; read one crawl at a time"
        )

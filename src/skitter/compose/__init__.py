"""Settings in, a wired crawl out. The only importer of back ends, and the only place that knows which one is used."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import __version__, plugins
from skitter.backends.memory import MemoryCache
from skitter.backends.permits import MemoryPermits, SharedPermits
from skitter.backends.rocksdb import open_reader as open_state
from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.warc import Reader as ArchiveReader
from skitter.backends.warc import WarcArchive
from skitter.control.server import ControlServer
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_crawl import Crawl, Warnings
from skitter.crawl.local_shards import LocalShards
from skitter.crawl.machine import fitted_to_machine
from skitter.crawl.records import ShardedRecords
from skitter.crawl.shard import Shard
from skitter.dedup.twins import Duplicates
from skitter.events import Events, Warned
from skitter.fetch.check import check
from skitter.fetch.http import HttpFetcher
from skitter.fetch.request import user_agent
from skitter.links import LinkJudge
from skitter.links.filter import LinkFilter, Wanted
from skitter.links.scoring import UserScorer
from skitter.model import Link
from skitter.parse.pool import ParserPool
from skitter.ports import Archive, Cache, Clock, Fetcher, Frontier, Permits
from skitter.reporting.log import RequestLog
from skitter.robots import product_token
from skitter.robots.in_force import Permissions
from skitter.runtime.clock import SystemClock
from skitter.scope import Scope
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings
from skitter.visit import Shared, Stations

if TYPE_CHECKING:
    from skitter.compose.reading import ClusterReader
    from skitter.export.source import DirectoryReader

_RULES_CACHED = 10_000  # parsed robots.txt files


@asynccontextmanager
async def opened(
    path: Path,
    settings: Settings,
    events: Events,
    links: Wanted | None = None,
    *,
    seeds: Iterable[Link | BadSeed] = (),
) -> AsyncIterator[Crawl]:
    """Open a crawl directory, new or old, with all its shards, and close it at the end, whatever happens.

    `links` decides which links a program wants to follow. `seeds` are stored before the crawl exists, and added by
    `Crawl.seed`.
    """
    check(settings.fetch)
    await asyncio.to_thread(plugins.check, settings)
    directory = CrawlDirectory(path)
    settings = directory.fitted(settings, workers=1)
    directory.prepare()
    with directory.locked():
        directory.begin()
        intake = Intake(directory.seeds, settings.urls)
        intake.keep_links(seeds)
        directory.make(settings)
        shards = range(settings.crawl.shards)
        warned = Warnings(
            events
        )  # before the shards are opened: each reports to the listeners of that moment
        server = ControlServer(events)
        link_filter = None if links is None else LinkFilter(links, settings, events)
        async with open_shards(directory, shards, settings, events, link_filter) as local_shards:
            yield Crawl(local_shards, settings, events, directory, intake, warned, server)


@asynccontextmanager
async def open_shards(
    directory: CrawlDirectory,
    shards: Sequence[int],
    settings: Settings,
    events: Events,
    link_filter: LinkFilter | None = None,
    *,
    workers: int = 1,
) -> AsyncIterator[LocalShards]:
    """Some shards of a crawl, open and ready to run in this process, which is one of so many workers."""
    settings = fitted_to_machine(settings, events)
    clock = SystemClock()
    names = MemoryCache(settings.fetch.dns_cache, clock)
    at = replace(
        shared(
            directory, settings, clock, names, events, _permits(directory, shards, settings, clock, workers)
        ),
        link_filter=link_filter,
        judge_again=directory.scope_changed,
    )
    async with AsyncExitStack() as stack:
        if at.parsers is not None:
            at.parsers.complain = lambda text: events.emit(Warned(text))
            stack.push_async_callback(at.parsers.close)
        wired, archives = [], {}
        for number in shards:
            request_log = RequestLog(directory.request_log(number))
            stack.callback(request_log.close)
            own_events = events.branch()
            own_events.subscribe(request_log, *request_log.KINDS)
            if request_log.repaired:
                events.emit(Warned(request_log.repaired))
            frontier = rocks_frontier(
                directory.state(number), settings, shard=number, shards=settings.crawl.shards
            )
            archives[number] = archive_of(directory, number, at)
            own = stations(at, frontier, archives[number], at.fetcher)
            wired.append(Shard(own, own_events, directory, number))
        local_shards = LocalShards(wired, at, events, directory)
        stack.push_async_callback(local_shards.close)
        await local_shards.open()
        for number, archive in archives.items():
            if gaps := archive.gaps():
                events.emit(Warned(directory.files_gone(number, gaps)))
        yield local_shards


def _permits(
    directory: CrawlDirectory, shards: Sequence[int], settings: Settings, clock: Clock, workers: int
) -> Permits | None:
    """Those of this process, or those of all workers; the first shard of a worker has the worker's number."""
    if not limits_addresses(settings):
        return None
    if workers == 1:
        return MemoryPermits(settings.politeness, clock)
    return SharedPermits(directory.permits_file, shards[0], workers, settings.politeness, clock)


def limits_addresses(settings: Settings) -> bool:
    """Whether any number of requests may not go to one IP address."""
    return settings.politeness.per_address is not None or settings.politeness.address_delay > 0


def shared(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    names: Cache,
    events: Events,
    permits: Permits | None,
) -> Shared:
    """The parts that all shards of a process share."""
    function = plugins.load(settings).scorer(settings.schedule.strategy)
    scorer = None if function is None else UserScorer(function, events, directory.scorer_log)
    scope = Scope(settings.scope, directory.roots())
    fetcher = HttpFetcher(settings.fetch, names, clock, permits)
    return Shared(
        settings=settings,
        fetcher=fetcher,
        scope=scope,
        links=LinkJudge(settings, scope, scorer),
        clock=clock,
        parsers=ParserPool(settings),
    )


def archive_of(directory: CrawlDirectory, shard: int, at: Shared) -> WarcArchive:
    """The files for a shard's answers."""
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
    """The parts of one shard."""
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
        requests=at.requests,
        judge_again=at.judge_again,
        roots_after=at.roots_after,
        parsers=at.parsers,
        duplicates=Duplicates(frontier, settings.dedup),
        clock=clock,
        dice=random.Random(),  # noqa: S311  jitter is no secret
    )


# ------------------------------------------------------------------------------------------------ reading


def open_reader(path: Path, settings: Settings | None = None) -> "DirectoryReader":
    """Read what a crawl on this machine has so far."""
    from skitter.export.source import DirectoryReader  # noqa: PLC0415  a crawl needs no reader

    directory = CrawlDirectory(path)
    settings = settings or directory.read_settings()
    shards = [open_state(directory.state(number)) for number in range(max(1, settings.crawl.shards))]
    records = shards[0] if len(shards) == 1 else ShardedRecords(shards)
    return DirectoryReader(settings, directory, records, ArchiveReader(directory.archive))


async def open_source(
    paths: Sequence[Path], config: Settings | None = None
) -> "DirectoryReader | ClusterReader":
    """Read what a crawl has so far: from its directory, or a cluster's from its engines.

    `config` are the settings of a cluster; otherwise those in the first directory say where it is. For a cluster, any
    number of workers' directories may be given: archive files that no bucket has are read from there.
    """
    directories = [CrawlDirectory(path) for path in paths]
    settings = config or directories[0].read_settings()
    for directory in directories if config else directories[1:]:
        directory.check_same_cluster(settings)
    if settings.cluster.size == "none":
        return open_reader(paths[0], settings)
    from skitter.compose.reading import read_cluster  # noqa: PLC0415  engines' libraries are large, and extras

    return await read_cluster(directories, settings)

"""Settings in, a wired crawl out. The only importer of back ends, and the only place that knows which one is used."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import __version__, parse, plugins, schedule
from skitter.backends.memory import MemoryCache
from skitter.backends.rocksdb import open_reader as open_state
from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.warc import SettledFiles, WarcArchive
from skitter.compose.permits import local_accounts, local_permits
from skitter.control.server import ControlServer
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_crawl import Crawl, Warnings
from skitter.crawl.local_shards import LocalShards
from skitter.crawl.machine import fitted_to_machine
from skitter.crawl.records import ShardedRecords
from skitter.crawl.shard import Shard
from skitter.dedup.twins import Duplicates
from skitter.events import Events, Terms, Warned
from skitter.fetch.check import access_of, check
from skitter.fetch.http import HttpFetcher
from skitter.fetch.keys import Keys
from skitter.fetch.request import user_agent
from skitter.links import LinkJudge
from skitter.links.filter import LinkFilter, Wanted
from skitter.links.scope import Scope
from skitter.links.scoring import UserScorer
from skitter.model import Link
from skitter.parse.pool import ParserPool
from skitter.politeness import retry_after
from skitter.politeness.budgets import limited_groups
from skitter.politeness.gate import Gate, gate
from skitter.politeness.groups import GroupBudgets
from skitter.politeness.hours import hours
from skitter.ports import Archive, Cache, Clock, Fetcher, Frontier, Mark, Permits, Renderers
from skitter.reporting.log import RequestLog, asked_to_wait, terms
from skitter.robots import product_token
from skitter.robots.in_force import Permissions
from skitter.runtime.clock import SystemClock
from skitter.schedule import ORDERS
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings
from skitter.settings.sites import Sites, sites_of, wants_assets
from skitter.visit import Shared, Stations

if TYPE_CHECKING:
    from skitter.compose.reading import ClusterReader
    from skitter.export.source import DirectoryReader
    from skitter.schedule.orders import Order

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
    check(settings)
    schedule.check(settings.schedule)
    await asyncio.to_thread(plugins.check, settings)
    parse.check(settings.parse)
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
            directory,
            settings,
            clock,
            names,
            events,
            *local_permits(directory, shards, settings, clock, workers),
            workers=workers,
        ),
        link_filter=link_filter,
        accounts=local_accounts(directory, settings, workers),
        judge_again=directory.scope_changed,
    )
    async with AsyncExitStack() as stack:
        if at.accounts is not None:
            stack.push_async_callback(at.accounts.close)
        if at.parsers is not None:
            at.parsers.complain = lambda text: events.emit(Warned(text))
            stack.push_async_callback(at.parsers.close)
        if at.renderers is not None:
            stack.push_async_callback(at.renderers.close)
        wired, archives = [], {}
        for number in shards:
            request_log = RequestLog(directory.request_log(number))
            stack.callback(request_log.close)
            own_events = events.branch()
            own_events.subscribe(request_log, *request_log.KINDS)
            own_events.emit(promised(settings, clock))
            if request_log.repaired:
                events.emit(Warned(request_log.repaired))
            frontier = rocks_frontier(
                directory.state(number), settings, shard=number, shards=settings.crawl.shards
            )
            frontier.asked = partial(asked_to_wait, directory.request_log(number), retry_after)
            archives[number] = archive_of(directory, number, at)
            own = stations(at, frontier, archives[number], at.fetcher, number)
            wired.append(Shard(own, own_events, directory, number))
        local_shards = LocalShards(wired, at, events, directory)
        stack.push_async_callback(local_shards.close)
        await local_shards.open()
        for number, archive in archives.items():
            if gaps := archive.gaps():
                events.emit(Warned(directory.files_gone(number, gaps)))
        yield local_shards


def promised(settings: Settings, clock: Clock) -> Terms:
    """The terms of a run from now on, for its request logs."""
    return terms(settings, product_token(user_agent(settings.fetch)), clock.now())


def shared(
    directory: CrawlDirectory,
    settings: Settings,
    clock: Clock,
    names: Cache,
    events: Events,
    permits: Permits | None,
    keys: Keys | None = None,
    *,
    workers: int = 1,
) -> Shared:
    """The parts that all shards of a process share."""
    settings = with_assets(with_agent(settings))
    function = plugins.load(settings).scorer(settings.schedule.strategy)
    scorer = None if function is None else UserScorer(function, events, directory.scorer_log)
    sites = sites_of(settings)
    scope = Scope(settings.scope, directory.roots(), sites=sites)
    fetcher = HttpFetcher(settings.fetch, names, clock, permits, access_of(settings, sites), keys)
    made = Shared(
        settings=settings,
        fetcher=fetcher,
        scope=scope,
        links=LinkJudge(settings, scope, scorer, _ordering(settings, clock, events)),
        clock=clock,
        begun=fetcher.begin,
        gate=_gate(settings, sites, clock, workers, events),
        hours=hours(settings, sites),
        parsers=ParserPool(settings),
        sites=sites,
    )
    return replace(made, renderers=_browsers(made, directory, events)) if _renders(settings, sites) else made


def _ordering(settings: Settings, clock: Clock, events: Events) -> "Order | None":
    """The strategy, if it is one of those that give levels, with the ranks of domains that it needs."""
    if settings.schedule.strategy not in ORDERS:
        return None
    from skitter.schedule.orders import order_of  # noqa: PLC0415  most crawls need none of it
    from skitter.schedule.ranks import read_ranks  # noqa: PLC0415

    file = settings.schedule.rank_file if settings.schedule.strategy == "importance" else ""
    ranks = read_ranks(file)
    if file:
        events.emit(Warned(f"{file} ranks {ranks}", once="ranks"))
    return order_of(settings.schedule, ranks, clock.now)


def _renders(settings: Settings, sites: Sites | None) -> bool:
    """Whether any page may be rendered."""
    return settings.fetch.render != "never" or (sites is not None and sites.sets("fetch.render"))


def _browsers(at: Shared, directory: CrawlDirectory, events: Events) -> Renderers:
    from skitter.crawl.rendering import Browsers  # noqa: PLC0415  few crawls render pages

    browsers = Browsers(at.settings, at.clock, at.settings_of, directory.patterns_file, at.hours)
    browsers.complain = lambda text: events.emit(Warned(text))
    return browsers


def _gate(settings: Settings, sites: Sites | None, clock: Clock, workers: int, events: Events) -> Gate | None:
    made = gate(settings, sites, clock, workers)
    if made is not None and made.memory is not None:
        made.memory.complain = lambda text: events.emit(Warned(text))
    return made


def with_agent(settings: Settings) -> Settings:
    """The settings with the name that pages may call us by: that of robots.txt."""
    agent = settings.parse.agent or product_token(user_agent(settings.fetch))
    return replace(settings, parse=replace(settings.parse, agent=agent))


def with_assets(settings: Settings) -> Settings:
    """The settings by which pages are read for what they need, if that is fetched for some of them."""
    if not wants_assets(settings):
        return settings
    return replace(settings, parse=replace(settings.parse, assets=True))


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


def stations(at: Shared, frontier: Frontier, archive: Archive, fetcher: Fetcher, shard: int = 0) -> Stations:
    """The parts of one shard."""
    settings, clock = at.settings, at.clock
    groups = None
    if at.accounts is not None and at.sites is not None:
        groups = GroupBudgets(limited_groups(settings), at.sites, at.accounts, shard)
    token = product_token(user_agent(settings.fetch))
    permissions = Permissions(frontier, MemoryCache(_RULES_CACHED, clock), clock, token)
    renderer = None
    if at.renderers is not None:
        renderer = at.renderers.of(fetcher, frontier, archive, permissions, shard)
    return Stations(
        settings=settings,
        sites=at.sites,
        frontier=frontier,
        fetcher=fetcher,
        archive=archive,
        scope=at.scope,
        permissions=permissions,
        renderers=at.renderers,
        renderer=renderer,
        links=at.links,
        link_filter=at.link_filter,
        measuring=at.measuring,
        judge_again=at.judge_again,
        roots_after=at.roots_after,
        begun=at.begun,
        accounts=at.accounts,
        groups=groups,
        gate=at.gate,
        hours=at.hours,
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

    async def marks() -> list[Mark]:
        return [await shard.mark() for shard in shards]

    return DirectoryReader(settings, directory, records, SettledFiles(directory.archive, marks))


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

"""Whole crawls in virtual time: everything is real (shard, visits, frontier, archive) but the network and the clock.

A script answers each request, after as much virtual time as its answer takes. Requests are logged in seconds since the
crawl began, measured by the monotonic clock, so that they can be judged even when the wall clock is set.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skitter import reasons, seeds, urls
from skitter.backends.accounts import MemoryAccounts
from skitter.backends.memory import MemoryCache
from skitter.backends.rocksdb import rocks_frontier
from skitter.backends.warc import WarcArchive
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.local_shards import LocalShards
from skitter.crawl.shard import Shard
from skitter.dedup.twins import Duplicates
from skitter.events import Event, Events
from skitter.fetch import response
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import (
    Counts,
    Exchange,
    Failed,
    Fault,
    HostRecord,
    Link,
    NotNow,
    Outcome,
    Page,
    Purpose,
    Reason,
    Refused,
    Stop,
    UrlRecord,
    Visit,
)
from skitter.politeness.budgets import limited_groups
from skitter.politeness.gate import gate
from skitter.politeness.groups import GroupBudgets
from skitter.politeness.hours import hours
from skitter.ports import Frontier
from skitter.reporting.log import RequestLog
from skitter.robots.in_force import Permissions
from skitter.runtime.metrics import Metrics
from skitter.settings import Settings
from skitter.settings.file import load
from skitter.settings.sites import sites_of
from skitter.testing.clock import VirtualClock, run_virtual
from skitter.testing.reference import memory_frontier
from skitter.visit import Stations

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
ROCKSDB, MEMORY = "rocksdb", "memory"

# Chance would blur what is measured; what depends on it sets it. Syncing is real work and nothing is lost here.
STILL: dict[str, object] = {
    "scope.kind": "any",
    "schedule.retry_jitter": 0,
    "robots.jitter": 0,
    "politeness.adaptive_jitter": 0,
    "dedup.near": False,
    "crawl.sync_interval": "30d",
    "crawl.min_free_disk": "1MiB",
}

# ------------------------------------------------------------------------------------------------ the network


@dataclass(frozen=True)
class Answer:
    """What comes of a request: a status with a body, a fault, or a refusal; and how long it takes."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    takes: float = 0.25
    fault: Fault | None = None
    refusal: Reason | None = None  # ours: nothing is sent
    put_off: float | None = None  # seconds: nothing is sent before


@dataclass(frozen=True)
class Asked:
    """A request, as a script sees it."""

    url: str
    host: str
    at: float  # seconds since the crawl began
    number: int  # how often this URL was asked for, this time included


@dataclass
class Request:
    """A request, as the log has it. Times are seconds since the crawl began."""

    url: str
    host: str
    purpose: Purpose
    attempt: int
    start: float
    end: float = float("inf")
    status: int = 0


Script = Callable[[Asked], Answer]


class ScriptedFetcher:
    """`skitter.ports.Fetcher` without a network."""

    def __init__(self, script: Script, clock: VirtualClock) -> None:
        self._script = script
        self._clock = clock
        self._asked: Counter[str] = Counter()
        self.log: list[Request] = []

    async def fetch(self, visit: Visit, validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        url = visit.link.url
        self._asked[url] += 1
        began, started = self._clock.monotonic(), self._clock.now()
        entry = Request(url, urls.host(url), visit.link.purpose, visit.attempt, began)
        self.log.append(entry)
        answer = self._script(Asked(url, entry.host, began, self._asked[url]))
        if answer.refusal is not None:
            self.log.remove(entry)
            return Refused(answer.refusal)
        if answer.put_off is not None:
            self.log.remove(entry)
            return NotNow(Reason(reasons.ADDRESS_BUSY, "scripted"), started + answer.put_off)
        await asyncio.sleep(answer.takes)
        entry.end, entry.status = self._clock.monotonic(), 0 if answer.fault else answer.status
        if answer.fault in (Fault.DNS, Fault.NXDOMAIN):
            return Failed(answer.fault, "scripted", None)
        fields = {"Content-Type": "text/html; charset=utf-8", **answer.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        head = b"" if answer.fault else f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode()
        exchange = Exchange(
            url,
            "192.0.2.1",
            started,
            self._clock.now(),
            b"GET / HTTP/1.1\r\n\r\n",
            head,
            answer.body.encode(),
        )
        if answer.fault:
            return Failed(answer.fault, "scripted", exchange)
        return response.outcome(exchange, 10 * 2**20, visit.link.purpose)

    def metrics(self) -> Metrics:
        return Metrics()

    async def close(self) -> None:
        """There is nothing to let go of."""


def web(pages: Mapping[str, Answer | Script]) -> Script:
    """A script from answers by URL. What is not there is not found, robots.txt files too."""

    def script(asked: Asked) -> Answer:
        found = pages.get(asked.url, Answer(404))
        return found if isinstance(found, Answer) else found(asked)

    return script


def html(*hrefs: str, **fields: object) -> Answer:
    """A page with these links."""
    anchors = "".join(f'<a href="{href}">x</a> ' for href in hrefs)
    return Answer(body=f"<!doctype html><title>t</title>{anchors}", **fields)  # type: ignore[arg-type]


def moved(target: str, status: int = 301) -> Answer:
    return Answer(status, headers={"Location": target})


def site(base: str, pages: int) -> dict[str, Answer | Script]:
    """A front page that links to so many others."""
    names = [f"/{number}" for number in range(1, pages + 1)]
    found: dict[str, Answer | Script] = {base + name: html() for name in names}
    return {f"{base}/": html(*names)} | found


# ------------------------------------------------------------------------------------------------ the crawl


@dataclass(repr=False)  # pytest and asyncio would spell out a week of requests
class Result:
    """What a crawl did and left behind."""

    stop: Stop
    took: float
    log: list[Request]
    records: dict[str, UrlRecord]  # by URL
    hosts: dict[str, HostRecord]
    pages: list[Page]
    counts: Counts
    events: list[Event]
    directory: CrawlDirectory

    def requests(self, host: str) -> list[Request]:
        return [request for request in self.log if request.host == host]

    def times(self, url: str) -> list[float]:
        """When a URL was asked for."""
        return [request.start for request in self.log if request.url == url]

    def by_host(self) -> dict[str, list[Request]]:
        hosts = defaultdict(list)
        for request in self.log:
            hosts[request.host].append(request)
        return hosts


def frontier_of(store: str, path: Path, settings: Settings) -> Frontier:
    """A frontier that is not open yet."""
    if store == MEMORY:
        return memory_frontier(settings=settings)
    return rocks_frontier(CrawlDirectory(path).state(0), settings)


class VirtualCrawl:
    """The stations, wired by hand around a script."""

    def __init__(
        self, path: Path, script: Script, settings: Settings, frontier: Frontier, clock: VirtualClock
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.directory = CrawlDirectory(path)
        path.mkdir(parents=True, exist_ok=True)
        if not self.directory.exists:
            self.directory.write_settings(settings)
        self.directory.prepare()
        self.fetcher = ScriptedFetcher(script, clock)
        self.heard: list[Event] = []
        self.events = Events(self.heard.append)
        sites = sites_of(settings)
        scope = Scope(settings.scope, self.directory.roots(), sites=sites)
        self.stations = Stations(
            settings=settings,
            sites=sites,
            frontier=frontier,
            fetcher=self.fetcher,
            archive=WarcArchive(self.directory.archive, 0, settings.archive, clock),
            scope=scope,
            permissions=Permissions(frontier, MemoryCache(10_000, clock), clock, "skitter"),
            links=LinkJudge(settings, scope),
            duplicates=Duplicates(frontier, settings.dedup),
            clock=clock,
            gate=gate(settings, sites, clock),
            groups=GroupBudgets(limited_groups(settings), sites, MemoryAccounts(), 0)
            if sites is not None and limited_groups(settings)
            else None,
            hours=hours(settings, sites),
            dice=random.Random(1),
        )
        self.shard = Shard(self.stations, self.events, self.directory)
        self.local_shards = LocalShards([self.shard], self.stations, self.events, self.directory)

    async def run(self, starts: Iterable[Link | seeds.BadSeed]) -> Result:
        """Crawl to the end and read everything back."""
        frontier = self.stations.frontier
        request_log = RequestLog(self.directory.request_log(0))
        self.events.subscribe(request_log)
        await self.local_shards.open()
        try:
            await self.local_shards.add_seed_batch(list(starts))
            began = self.clock.monotonic()
            stop = await self.local_shards.run()
            return Result(
                stop,
                self.clock.monotonic() - began,
                self.fetcher.log,
                {record.url: record async for record in frontier.urls()},
                {host.host: host async for host in frontier.hosts()},
                [page async for page in frontier.pages()],
                self.shard.counts,
                self.heard,
                self.directory,
            )
        finally:
            await self.local_shards.close()
            request_log.close()


def settings_with(**overrides: object) -> Settings:
    """Settings in which chance plays no part; overrides use "__" for the dot."""
    return load(None, {}, STILL | {name.replace("__", "."): value for name, value in overrides.items()})


def crawl(
    path: Path,
    starts: Iterable[str | Link],
    script: Script | Mapping[str, Answer | Script],
    *,
    store: str = ROCKSDB,
    meanwhile: Callable[[VirtualCrawl], None] | None = None,
    clock: VirtualClock | None = None,
    **overrides: object,
) -> Result:
    """Crawl from the starts until nothing is left, in virtual time. `meanwhile` may set timers before it begins."""
    settings = settings_with(**overrides)
    clock = clock or VirtualClock()
    wanted = [
        start if isinstance(start, Link) else next(seeds.named([start], settings.urls)) for start in starts
    ]

    async def main() -> Result:
        frontier = frontier_of(store, path, settings)
        made = VirtualCrawl(path, script if callable(script) else web(script), settings, frontier, clock)
        if meanwhile is not None:
            meanwhile(made)
        return await made.run(wanted)

    return run_virtual(main(), clock)

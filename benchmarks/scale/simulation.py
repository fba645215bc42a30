"""A crawl of the model web in virtual time: a week passes in minutes.

Real are the frontier on disk, the visit from lease to settlement (`skitter.visit`), robots.txt, politeness
and schedule. Simulated are the network, which answers at once with what would have arrived; the links of a
page, which come from the population; the archive, which keeps nothing; and the clock. Visits are coroutines
that stop at the fetch and are resumed when their answer is due, in the order of a heap: no event loop, no
sleeping.

The machine is a number of requests per second. It wakes when it has capacity again, when a host is free, or
when a host whose answer has arrived may be free.
"""

import asyncio
import heapq
import os
import random
import time
import types
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.scale.books import Books
from benchmarks.scale.population import DELAY, RETRY_AFTER, TIMEOUT, Kind, Plan, Population
from skitter import schedule
from skitter.backends.rocksdb import rocks_frontier
from skitter.crawl.completing import opened
from skitter.dedup.twins import Duplicates
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import (
    Document,
    Exchange,
    Failed,
    Fault,
    Fetched,
    Level,
    Link,
    Outcome,
    Purpose,
    Reason,
    Visit,
)
from skitter.ports import Mark, Packed
from skitter.robots.in_force import Permissions
from skitter.runtime.metrics import CacheMetrics, Metrics
from skitter.settings import Settings
from skitter.settings.file import load
from skitter.visit import Finished, Stations, make

T = TypeVar("T")
START = 1e9  # when the model's week begins
HOUR = 3600.0
GROUP = 16  # requests that the machine may start at once after being idle
SEEDS = 1000  # one host of so many
RULES = 2000  # robots.txt files kept parsed
FORBIDDEN = "/private/"


def run(verb: Coroutine[Any, Any, T]) -> T:
    """The result of a method that never waits."""
    try:
        verb.send(None)
    except StopIteration as answer:
        return answer.value  # type: ignore[no-any-return]
    raise AssertionError(f"{verb} waits for something, and nobody is there to wake it")


@types.coroutine
def pause(seconds: float) -> Generator[float, None, None]:
    """Stop here until this much later."""
    yield seconds


class ModelClock:
    """`skitter.ports.Clock`, set by the simulation."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class RulesKept:
    """`skitter.ports.Cache` without concurrency; first in, first out."""

    def __init__(self, clock: ModelClock) -> None:
        self._clock = clock
        self._values: dict[str, tuple[Any, float]] = {}

    async def get_or_fetch(self, key: str, fetch: Any) -> Any:
        kept = self._values.get(key)
        if kept is not None and kept[1] > self._clock.time:
            return kept[0]
        value, ttl = await fetch()
        self._values[key] = value, self._clock.time + ttl
        if len(self._values) > RULES:
            del self._values[next(iter(self._values))]
        return value

    async def forget(self, key: str) -> None:
        self._values.pop(key, None)

    def metrics(self) -> CacheMetrics:
        return CacheMetrics()


class NoArchive:
    """Keeps nothing."""

    def pack(self, *_: object) -> Packed:
        return Packed((), 0)


class ModelWeb:
    """`skitter.ports.Fetcher` without a network."""

    def __init__(self, population: Population, books: Books, clock: ModelClock) -> None:
        self._population, self._books, self._clock = population, books, clock
        self.forbidden = 0  # requests that robots.txt does not allow: must stay 0

    async def fetch(self, visit: Visit, _validators: Sequence[tuple[str, str]] = ()) -> Outcome:
        link, began = visit.link, self._clock.time
        host = self._population.number(link.host)
        robots = link.purpose is Purpose.ROBOTS
        self.forbidden += FORBIDDEN in link.url
        self._books.asked(host, began)
        kind = self._population.kinds[host]
        if kind == Kind.NAMELESS:
            self._books.unsent(host)
            await pause(self._population.takes(host))
            return Failed(Fault.DNS, "no such host in the model", None)
        bad = not robots and kind in (Kind.BUSY, Kind.HANGING) and self._population.fails(host)
        hangs = bad and kind == Kind.HANGING
        await pause(TIMEOUT * self._population.slow if hangs else self._population.takes(host))
        later = RETRY_AFTER * self._population.slow if bad and not hangs and self._population.coin() else 0.0
        self._books.answered(host, self._clock.time, later)
        body = self._rules(kind) if robots else link.url.encode()
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        exchange = Exchange(
            link.url, "192.0.2.1", began, self._clock.time, b"GET / HTTP/1.1\r\n\r\n", head, body
        )
        if hangs:
            return Failed(Fault.TIMEOUT, "no answer", exchange)
        headers = [("content-type", "text/plain")]
        if later:
            headers.append(("retry-after", str(round(later))))
        return Fetched(exchange, 503 if bad else 200, headers, body, body)

    def _rules(self, kind: int) -> bytes:
        asks = f"Crawl-delay: {10 * self._population.slow}\n" if kind == Kind.SLOW else ""
        return f"User-agent: *\n{asks}Disallow: {FORBIDDEN}\n".encode()

    def metrics(self) -> Metrics:
        return Metrics()

    async def close(self) -> None:
        """Nothing to close."""


class ModelLinks(LinkJudge):
    """The links of a page from the population, scored as in every crawl."""

    def __init__(self, population: Population, settings: Settings, scope: Scope) -> None:
        super().__init__(settings, scope)
        self._population = population
        self._score = schedule.strategy(settings.schedule)
        self.targets: list[tuple[int, int]] = []  # of the page that was read last

    def link(self, host: int, page: int, depth: int = 0, parent: str = "") -> Link:
        name = self._population.name(host)
        url = f"https://{name}{self._population.path(page)}"
        score, level = self._score(url, depth, 0.0, 0), Level.NORMAL if parent else Level.CRITICAL
        return Link(
            url=url, key=url, host=name, depth=depth, parent=parent, level=level, score=score, seed=not parent
        )

    def found(self, page: Link, _document: Document) -> tuple[list[Link], list[tuple[Link, Reason]]]:
        number = int(page.url[page.url.rindex("/") + 1 :])
        self.targets = self._population.links(self._population.number(page.host), number)
        return [self.link(*target, page.depth + 1, page.url) for target in self.targets], []


@dataclass(frozen=True)
class Hour:
    """One hour of the crawl, at its end."""

    hour: int
    ready: int
    working: int
    known: int
    queue: int
    rate: float  # requests a second
    predicted: float
    pages: int  # stored so far
    resident_mb: float
    frontier_us: float  # CPU of the frontier per visit, including background threads
    visit_us: float  # of everything, including the model itself


@dataclass(frozen=True)
class Result:
    """A crawl of the model, and what was checked."""

    plan: Plan
    hours: list[Hour]
    pages: int
    urls: int
    requests: int
    cpu: float  # seconds
    too_soon: int
    least_spare: float
    forbidden: int
    disagreements: int  # hours at whose end the frontier and the bookkeeping disagreed
    cycle: float  # seconds per request of a host, the mean that counts for a sum of rates; at full size

    def worst(self) -> float:
        """How far the rate of an hour was from the prediction, as a fraction of the machine's capacity."""
        return max(abs(each.rate - each.predicted) for each in self.hours) / self.plan.model_capacity

    def overall(self) -> float:
        """How far all requests were from the prediction."""
        return sum(each.rate for each in self.hours) / sum(each.predicted for each in self.hours) - 1

    def as_json(self) -> dict[str, Any]:
        """With one list per column of the hours."""
        hours = {field.name: [getattr(each, field.name) for each in self.hours] for field in fields(Hour)}
        return asdict(self) | {"hours": hours, "worst": self.worst(), "overall": self.overall()}


class Simulation:
    """One run."""

    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        settings = load(
            None,
            {},
            {
                "politeness.delay": DELAY * plan.slow,
                "politeness.adaptive": False,  # what is predicted are the fixed delays
                "dedup.near": False,
                "scope.kind": "any",
            },
        )
        self._clock = ModelClock()
        self._population = Population(plan)
        self._books = Books(self._population, plan.model_capacity, START)
        self._web = ModelWeb(self._population, self._books, self._clock)
        self._frontier = rocks_frontier(directory, settings)
        scope = Scope(settings.scope, [])
        self._links = ModelLinks(self._population, settings, scope)
        self._at = Stations(
            settings=settings,
            frontier=self._frontier,
            fetcher=self._web,
            archive=NoArchive(),  # type: ignore[arg-type]  # nothing but `pack` is called
            scope=scope,
            permissions=Permissions(self._frontier, RulesKept(self._clock), self._clock, "skitter"),
            links=self._links,
            duplicates=Duplicates(self._frontier, settings.dedup),
            clock=self._clock,
            dice=random.Random(plan.seed),
        )
        self._shortest = DELAY * plan.slow
        self._flying: list[tuple[float, int, Visit, Coroutine[Any, Any, Finished]]] = []
        self._finished: list[tuple[Finished, list[tuple[int, int]]]] = []
        self._begun = 0
        self._credit = 0.0
        self._credited = START
        self._frontier_cpu = 0.0
        self._visits = 0
        self._hours: list[Hour] = []
        self._disagreements = 0

    def run(self) -> Result:
        asyncio.run(self._frontier.open(START))  # which waits for the disk
        self._plant()
        began = time.process_time()
        end = START + self.plan.days * 86400
        before = _Reading(time.process_time())
        while self._clock.time < end:
            hour = START + (len(self._hours) + 1) * HOUR
            now = min(self._wake(), hour)
            self._resume(now)
            self._clock.time = now
            self._books.pass_to(now)
            self._work(now)
            if now == hour:
                before = self._sample(before)
        counts = run(self._frontier.counts())
        cpu = time.process_time() - began
        run(self._frontier.close(end))
        books = self._books
        return Result(
            self.plan,
            self._hours,
            counts.pages,
            counts.added,
            books.requests,
            cpu,
            books.too_soon,
            books.least_spare,
            self._web.forbidden,
            self._disagreements,
            books.cycle() / self.plan.slow,
        )

    def _plant(self) -> None:
        hosts = range(min(5, self._population.count), self._population.count, SEEDS)
        run(self._frontier.add([self._links.link(host, 0) for host in hosts], [], START))
        for host in hosts:
            self._books.found(host, 0)

    # -- time --------------------------------------------------------------------------------------------------

    def _wake(self) -> float:
        """When there is something to do next."""
        now = self._clock.time
        if self._credit < 1:
            return now + (GROUP - self._credit) / self.plan.model_capacity
        times = [run(self._frontier.next_due(now))]
        if self._flying:
            times.append(self._flying[0][0] + self._shortest)
        if self._finished:
            times.append(now)
        return max(min((each for each in times if each is not None), default=float("inf")), now + 0.001)

    def _resume(self, now: float) -> None:
        """Resume visits whose answer is due, each at its time."""
        while self._flying and self._flying[0][0] <= now:
            when, _, visit, coroutine = heapq.heappop(self._flying)
            self._clock.time = when
            self._books.pass_to(when)
            self._go_on(visit, coroutine)

    def _go_on(self, visit: Visit, coroutine: Coroutine[Any, Any, Finished]) -> None:
        self._links.targets = []
        try:
            wait = coroutine.send(None)
        except StopIteration as end:
            self._finished.append((run(opened(end.value, self._at)), self._links.targets))
            return
        self._begun += 1
        heapq.heappush(self._flying, (self._clock.time + wait, self._begun, visit, coroutine))

    # -- the shard's work --------------------------------------------------------------------------------------

    def _work(self, now: float) -> None:
        self._credit = min(float(GROUP), self._credit + (now - self._credited) * self.plan.model_capacity)
        self._credited = now
        self._settle(now)
        while self._credit >= 1:
            visits = self._timed(self._frontier.lease(int(self._credit), now))
            before = self._books.requests
            for visit in visits:
                host = self._population.number(visit.link.host)
                self._books.leased(host, page=visit.link.purpose is Purpose.PAGE)
                self._go_on(visit, make(visit, self._at))
            self._visits += len(visits)
            self._credit -= self._books.requests - before
            if not self._finished:
                return
            self._settle(now)  # what robots.txt forbids ends at once, and its host is still free

    def _settle(self, now: float) -> None:
        group, self._finished = self._finished, []
        if not group:
            return
        settlements = [finished.settlement for finished, _ in group]
        accepted = self._timed(self._frontier.settle(settlements, Mark(), now))
        if not all(accepted):
            raise AssertionError("a visit was settled too late, and nobody else had it")
        self._at.duplicates.committed([each.page for each in settlements if each.page is not None])
        for settlement, (_, targets) in zip(settlements, group, strict=True):
            verdict, host = settlement.verdict, self._population.number(settlement.visit.link.host)
            if settlement.robots is not None and settlement.robots.held > now:
                self._books.rest(host, settlement.robots.held)
            again = verdict.due if settlement.visit.link.purpose is Purpose.PAGE else None
            self._books.settled(host, again, aside=verdict.host_aside is not None)
            for target in targets:
                self._books.found(*target)

    def _timed(self, verb: Coroutine[Any, Any, T]) -> T:
        began = time.process_time()
        answer = run(verb)
        self._frontier_cpu += time.process_time() - began
        return answer

    # -- looking -----------------------------------------------------------------------------------------------

    def _sample(self, before: "_Reading") -> "_Reading":
        counts, census = run(self._frontier.counts()), self._books.census()
        now = _Reading(
            time.process_time(),
            self._frontier_cpu,
            self._visits,
            self._books.requests,
            self._books.predicted,
        )
        visits = max(1, now.visits - before.visits)
        self._disagreements += counts.queued != census.waiting or counts.hosts != census.known
        self._hours.append(
            Hour(
                hour=len(self._hours) + 1,
                ready=census.ready,
                working=census.working,
                known=census.known,
                queue=counts.queued,
                rate=(now.requests - before.requests) / HOUR,
                predicted=(now.predicted - before.predicted) / HOUR,
                pages=counts.pages,
                resident_mb=_resident() / 2**20,
                frontier_us=(now.frontier - before.frontier) / visits * 1e6,
                visit_us=(now.cpu - before.cpu) / visits * 1e6,
            )
        )
        return now


@dataclass(frozen=True)
class _Reading:
    """Counters at the end of an hour."""

    cpu: float
    frontier: float = 0.0
    visits: int = 0
    requests: int = 0
    predicted: float = 0.0


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

"""Cash on random webs: conserved, and what has stayed is never more than the PageRank of what was fetched."""

import asyncio
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from msgspec.structs import replace

from skitter import schedule, urls
from skitter.frontier import ShardFrontier
from skitter.model import TRUST, Cash, Purpose, Reason, Settlement
from skitter.ports import Mark
from skitter.reporting.report import importance_fetched, numbers, total
from skitter.settings import PolitenessSettings, ScheduleSettings, Seconds, Settings
from skitter.testing.contracts.owner import CRAWLED, allowed, link, page
from skitter.testing.reference import MemoryRows, MemoryStore, memory_frontier

SHARDS = 2
HOSTS = [
    next(name for name in (f"h{n}.test" for n in range(99)) if urls.shard(name, SHARDS) == shard)
    for shard in range(SHARDS)
]
ROUNDS = 400


def url(page_number: int) -> str:
    return f"http://{HOSTS[page_number % SHARDS]}/{page_number}"


webs = some.integers(1, 12).flatmap(
    lambda pages: some.tuples(
        some.lists(some.lists(some.integers(0, pages - 1), max_size=6), min_size=pages, max_size=pages),
        some.sets(some.integers(0, pages - 1), min_size=1, max_size=3),
        some.sets(some.integers(0, pages - 1), max_size=3),
    )
)


def pagerank(web: list[list[int]], seeds: set[int], damping: float) -> list[float]:
    """The PageRank of a reader who starts at a seed, and leaves where there is no link: the least there can be."""
    step = [1 / len(seeds) if number in seeds else 0.0 for number in range(len(web))]
    ranks = [0.0] * len(web)
    for _ in range(ROUNDS):
        ranks = [rank + (1 - damping) * part for rank, part in zip(ranks, step, strict=True)]
        following = [0.0] * len(web)
        for number, links in enumerate(web):
            for target in set(links):
                following[target] += damping * step[number] / len(set(links))
        step = following
    return ranks


class Crawl:
    """Both shards of a crawl, whose links are delivered twice whenever the dice say so."""

    def __init__(self, web: list[list[int]], refused: set[int], damping: float, *, far: bool) -> None:
        self.web, self.refused = web, refused
        chosen = Settings(
            schedule=ScheduleSettings(strategy="opic", opic_damping=damping),
            politeness=PolitenessSettings(delay=Seconds(0.0)),
        )
        chosen = replace(chosen, cluster=replace(chosen.cluster, lease_ahead=Seconds(0.0)))
        self.shards = [
            ShardFrontier(MemoryStore(MemoryRows(), 1), chosen, shard=number, shards=SHARDS)
            if far
            else memory_frontier(MemoryRows(), chosen, shard=number, shards=SHARDS)
            for number in range(SHARDS)
        ]
        self.now = 0.0
        self.fetched: set[int] = set()

    async def open(self, seeds: set[int]) -> None:
        for shard in self.shards:
            await shard.open(self.now)
        for number in seeds:  # wherever they are brought, they find their way
            await self.shards[0].add([link(url(number), score=1.0, seed=True)], (), self.now)
        await self.deliver(twice=False)

    async def deliver(self, *, twice: bool) -> None:
        for shard in self.shards:
            for number, sent in await shard.outbox(1000):
                for _ in range(1 + twice):
                    await self.shards[urls.shard(sent.host, SHARDS)].add([sent], (), self.now)
                await shard.forwarded([number])

    async def visit(self, shard: ShardFrontier) -> bool:
        self.now += 1
        visits = await shard.lease(1, self.now)
        for visit in visits:
            if visit.link.purpose is Purpose.ROBOTS:
                copy = allowed(visit.link.origin, 1e9)
                await shard.settle([Settlement(visit=visit, verdict=CRAWLED, robots=copy)], Mark(), self.now)
                continue
            number = int(visit.link.url.rpartition("/")[2])
            links = [link(url(to), depth=1, parent=visit.link.url) for to in self.web[number]]
            wanted = [
                each for each, to in zip(links, self.web[number], strict=True) if to not in self.refused
            ]
            refused = [
                (each, Reason("trap"))
                for each, to in zip(links, self.web[number], strict=True)
                if to in self.refused
            ]
            settlement = Settlement(
                visit=visit, verdict=CRAWLED, page=page(visit), links=wanted, refused=refused
            )
            await shard.settle([settlement], Mark(), self.now)
            self.fetched.add(number)
        return bool(visits)

    async def counts(self):
        return total([await shard.counts() for shard in self.shards])

    async def cash(self) -> list[Cash]:
        return [
            record.cash for shard in self.shards async for record in shard.urls() if record.cash is not None
        ]


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(webs, some.sampled_from((0.5, 0.85, 0.99)), some.booleans(), some.lists(some.booleans(), max_size=30))
def test_what_has_stayed_is_never_more_than_the_pagerank_of_the_fetched_pages(web, damping, far, dice):
    asyncio.run(_never_more(*web, damping, far=far, dice=iter(dice)))


async def _never_more(web, seeds, refused, damping, *, far: bool, dice: Iterator[bool]) -> None:
    crawl = Crawl(web, refused - seeds, damping, far=far)
    ranks = pagerank(web, seeds, damping)
    await crawl.open(seeds)
    over = False
    while not over:
        idle = not any([await crawl.visit(shard) for shard in crawl.shards])
        over = idle and not (await crawl.counts()).outbox
        if idle or next(dice, True):
            await crawl.deliver(twice=next(dice, False))
        counts = await crawl.counts()
        share = importance_fetched(counts)
        assert share is not None
        assert share <= sum(ranks[number] for number in crawl.fetched) + 1e-9
        found = await crawl.cash()
        assert counts.cash_kept <= (1 - damping) * sum(cash.received for cash in found) + 1e-9
    counts, found = await crawl.counts(), await crawl.cash()
    received, passed = sum(cash.received for cash in found), sum(cash.passed for cash in found)
    assert abs(counts.cash_given - len(seeds)) < 1e-9
    assert abs(received + counts.cash_sunk - counts.cash_given - damping * passed) < 1e-9
    assert importance_fetched(counts)


def test_status_says_so_only_if_it_is_known():
    assert importance_fetched(total([])) is None
    counts = replace(total([]), cash_given=4.0, cash_kept=1.9)
    assert numbers(counts)[-1].split() == ["Importance", "fetched", ">=", "47.5", "%"]


def test_the_terms_of_cash_add_up():
    chosen = ScheduleSettings(strategy="opic")
    cash = Cash(received=2.0, passed=0.5, given={TRUST: 1.0, 3: 0.25})
    terms = schedule.terms(chosen, "http://a.test/", 1, 2.0, None, cash)
    assert [points for points, _ in terms] == [1.0, 0.25, 0.75]
    assert [
        word
        for (_, what), word in zip(terms, ("seed", "shards", "passed on by pages that link"), strict=True)
        if word in what
    ] == ["seed", "shards", "passed on by pages that link"]
    assert schedule.terms(chosen, "http://a.test/", 1, 0.0, None) == [(0.0, "nobody gave it anything yet")]

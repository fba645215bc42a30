"""The frontier of a cluster on any store: what holds beyond the contract of the port."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise

import pytest
from msgspec.structs import replace

from skitter import urls
from skitter.frontier import ShardFrontier
from skitter.frontier.rows import Batch
from skitter.model import Level, Link, Page, Purpose, Settlement, State, Verdict, Visit
from skitter.ports import EngineAway, Fenced, Mark
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.owner import allowed, link
from skitter.testing.reference import MemoryRows, MemoryStore

START = 1_000.0


def settings(ahead: float = 1.0, per_host: int = 1, delay: float = 1.0, window: int = 50) -> Settings:
    base = Settings()
    return replace(
        base,
        cluster=replace(base.cluster, lease_ahead=Seconds(ahead)),
        politeness=replace(base.politeness, per_host=per_host, delay=Seconds(delay)),
        frontier=replace(base.frontier, window=window),
    )


class World:
    """A crawl in virtual time: visits take a while, find links, and owners die."""

    def __init__(self, seed: int, options: Settings, hosts: int, pages: int) -> None:
        self.dice = random.Random(seed)
        self.options = options
        self.delay = float(options.politeness.delay)
        self.rows = MemoryRows(epoch=0)
        self.now = START
        self.pages = [f"https://h{n % hosts}.example/{n}" for n in range(pages)]
        self.requests: dict[str, list[tuple[float, float]]] = {}  # host -> (begin, end)
        self.crawled: list[str] = []
        self.frontier = self.owner()
        self.reads = self.writes = 0.0

    def owner(self) -> ShardFrontier:
        self.rows.epoch += 1
        return ShardFrontier(MemoryStore(self.rows, self.rows.epoch), self.options)

    async def crawl(self, *, kill: float = 0.0, room: int = 100, commit: float = 0.001) -> None:
        frontier = self.frontier
        await frontier.open(self.now)
        await frontier.add([link(self.pages[0]), *(link(url) for url in self.pages[1::7])], [], self.now)
        flying: list[tuple[float, int, Visit]] = []
        for _ in range(100_000):
            for visit in await frontier.lease(room - len(flying), self.now):
                heappush(flying, (self.now + self.dice.uniform(0.01, 0.3), id(visit), visit))
            due = await frontier.next_due(self.now)
            if not flying and due is None:
                break
            times = [time for time in (due, flying[0][0] if flying else None) if time is not None]
            self.now = max(self.now + commit, min(times))
            done = []
            while flying and flying[0][0] <= self.now:
                done.append(heappop(flying)[2])
            if done:
                await frontier.settle([self.settlement(visit) for visit in done], Mark("f", 1), self.now)
            if self.dice.random() < kill:
                for _, _, visit in flying:  # their requests are in flight, whoever owns the shard
                    self.requests.setdefault(visit.link.host, []).append((visit.leased_at, self.now))
                self.count(frontier)
                flying, frontier = [], self.owner()
                await frontier.open(self.now)
        else:
            raise AssertionError("the crawl does not end")
        self.count(frontier)
        self.frontier = frontier

    def count(self, frontier: ShardFrontier) -> None:
        numbers = frontier.metrics().store
        self.reads += numbers.reads
        self.writes += numbers.writes

    def settlement(self, visit: Visit) -> Settlement:
        target = visit.link
        self.requests.setdefault(target.host, []).append((visit.leased_at, self.now))
        free = Verdict(state=State.CRAWLED, host_free=self.now + self.delay, host_delay=self.delay)
        if target.purpose is Purpose.ROBOTS:
            return Settlement(visit=visit, verdict=free, robots=allowed(target.origin, self.now + 60))
        self.crawled.append(target.url)
        found = [link(url) for url in self.dice.sample(self.pages, 12)]
        page = Page(
            url=target.url,
            requested_url=target.url,
            key=target.key,
            host=target.host,
            domain=urls.registrable_domain(target.host),
            status=200,
            fetched_at=self.now,
            digest=f"sha1:{target.key}",
        )
        return Settlement(visit=visit, verdict=free, page=page, links=found, status=200)

    def check_politeness(self) -> None:
        per_host = self.options.politeness.per_host
        for host, times in self.requests.items():
            times.sort()
            for (begun, ended), (following, _) in pairwise(times):
                apart = following - (ended if per_host == 1 else begun)
                assert apart >= self.delay - 1e-9, (host, begun, ended, following)
            for begin, _ in times:
                at_once = sum(1 for other, end in times if other <= begin < end)
                assert at_once <= per_host, host


@pytest.mark.parametrize("per_host", [1, 3])
@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("kill", [0.0, 0.02])
def test_visits_leased_ahead_are_polite_and_none_is_lost(per_host, delay, kill):
    world = World(7, settings(per_host=per_host, delay=delay), hosts=12, pages=150)
    asyncio.run(world.crawl(kill=kill))
    world.check_politeness()
    assert set(world.crawled) == set(world.pages)
    if not kill:
        assert len(world.crawled) == len(set(world.crawled))
    counts = asyncio.run(world.frontier.counts())
    assert (counts.queued, counts.leased, counts.crawled) == (0, 0, len(world.pages))


def test_a_steady_crawl_needs_few_round_trips_per_page():
    world = World(1, settings(window=1000), hosts=200, pages=2000)
    asyncio.run(world.crawl(room=500, commit=0.25))
    assert len(world.crawled) == 2000
    assert world.writes / 2000 < 0.04
    assert world.reads / 2000 < 0.04


def test_settling_in_a_busy_crawl_leases_the_next_visits_in_the_same_write():
    async def ask() -> None:
        store = MemoryStore(MemoryRows())
        frontier = ShardFrontier(store, settings())
        await frontier.open(START)
        hosts = [f"https://h{number}.example" for number in range(20)]
        await frontier.add([link(f"{host}/{n}") for host in hosts for n in range(3)], [], START)
        now, visits = START, await frontier.lease(100, START)
        for step in range(3):
            assert len(visits) == len(hosts)
            verdict = Verdict(state=State.CRAWLED, host_free=now + 1, host_delay=1.0)
            done = [
                Settlement(
                    visit=visit,
                    verdict=verdict,
                    robots=allowed(visit.link.origin, now + 60) if not step else None,
                )
                for visit in visits
            ]
            before = store.metrics().writes
            await frontier.settle(done, Mark(), now + 0.5)
            assert await frontier.lease(100, now + 0.99) == []  # they are in flight, so not available yet
            now += 1
            visits = await frontier.lease(100, now)
            assert store.metrics().writes == before + 1

    asyncio.run(ask())


def test_a_link_moved_forward_and_leased_in_one_write_leaves_its_old_place():
    async def ask() -> None:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings())
        await frontier.open(START)
        hosts = [f"https://h{number}.example" for number in range(6)]
        await frontier.add([link(f"{host}/") for host in hosts], [], START)
        await frontier.add([link(f"{host}/6", score=-2.0) for host in hosts], [], START)
        visited, now = [], START
        for step in range(3):
            visits = await frontier.lease(100, now)
            visited += [visit.link.url for visit in visits]
            verdict = Verdict(state=State.CRAWLED, host_free=now + 1)
            done = [
                Settlement(
                    visit=visit,
                    verdict=verdict,
                    robots=allowed(visit.link.origin, now + 60) if not step else None,
                    links=[link(f"{visit.link.url}6", score=-1.0)] if step == 1 else [],
                )
                for visit in visits
            ]
            await frontier.settle(done, Mark(), now)
            now += 1
        assert sorted(visited) == sorted(
            f"{host}/{page}" for host in hosts for page in ("robots.txt", "", "6")
        )

    asyncio.run(ask())


def test_one_fast_host_is_leased_in_large_batches():
    async def ask() -> None:
        store = MemoryStore(MemoryRows())
        frontier = ShardFrontier(store, settings(delay=0.0))
        await frontier.open(START)
        await frontier.add([link(f"https://a.example/{n}") for n in range(200)], [], START)
        leased = 0
        for _ in range(201):
            (visit,) = await frontier.lease(10, START)
            robots = visit.link.purpose is Purpose.ROBOTS
            copy = allowed(visit.link.origin, START + 1e6) if robots else None
            await frontier.settle(
                [Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED), robots=copy)], Mark(), START
            )
            leased += not robots
        assert leased == 200
        settled = 201
        assert store.metrics().writes <= 2 + settled + 10

    asyncio.run(ask())


def test_visits_leased_ahead_still_count_as_waiting():
    async def ask() -> None:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings())
        await frontier.open(START)
        await frontier.add([link(f"https://a.example/{n}") for n in range(3)], [], START)
        (robots,) = await frontier.lease(10, START)
        free = Verdict(state=State.CRAWLED, host_free=START + 0.5, host_delay=0.1)
        copy = allowed(robots.link.origin, START + 1e6)
        await frontier.settle([Settlement(visit=robots, verdict=free, robots=copy)], Mark(), START)
        assert await frontier.lease(10, START) == []
        assert frontier.metrics().queue.ahead > 0
        counts = await frontier.counts()
        assert (counts.queued, counts.leased) == (3, 0)
        host = await frontier.host("a.example")
        assert host is not None
        assert (host.queued, host.in_flight) == (3, 0)
        states = [record.state async for record in frontier.urls()]
        assert states == [State.QUEUED] * 3
        assert len(await frontier.lease(10, START + 0.5)) == 1

    asyncio.run(ask())


def test_all_shards_together_use_the_memory_of_one():
    async def held(shards: int) -> float:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings(window=20_000), shards=shards)
        await frontier.open(1.0)
        return shards * frontier.metrics().seen.capacity

    assert asyncio.run(held(1)) == asyncio.run(held(8)) == 7 * 20_000
    assert asyncio.run(held(1000)) == 1000 * 7 * 500  # less would be useless


def test_memory_does_not_grow_with_the_queue():
    async def ask() -> None:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings(window=40))
        await frontier.open(START)
        for at in range(0, 600, 100):
            names = [f"https://h{n}.example/{page}" for n in range(at, at + 100) for page in range(3)]
            await frontier.add([link(name) for name in names], [], START)
        await frontier.lease(10, START)
        held = frontier.metrics()
        assert held.hosts.states <= 40 + 100 + held.queue.leases + 80
        assert held.queue.windows <= 80 + held.queue.leases
        assert held.agenda.ready <= 80

    asyncio.run(ask())


def test_no_page_is_handed_out_after_its_rules_expired():
    async def ask() -> None:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings(delay=0.2))
        await frontier.open(START)
        await frontier.add([link(f"https://a.example/{n}") for n in range(9)], [], START)
        now, handed = START, []
        for _ in range(8):
            (visit,) = await frontier.lease(10, now)
            handed.append(visit.link.purpose)
            robots = visit.link.purpose is Purpose.ROBOTS
            copy = allowed(visit.link.origin, now + 0.5) if robots else None
            verdict = Verdict(state=State.CRAWLED, host_free=now + 0.2, host_delay=0.2)
            await frontier.settle([Settlement(visit=visit, verdict=verdict, robots=copy)], Mark(), now)
            assert await frontier.lease(10, now + 0.1) == []
            now += 0.2
        page, rules = Purpose.PAGE, Purpose.ROBOTS
        assert handed == [rules, page, page, rules, page, page, rules, page]

    asyncio.run(ask())


def test_a_link_that_changed_nothing_may_move_its_url_once_it_waits_again():
    async def ask() -> None:
        frontier = ShardFrontier(MemoryStore(MemoryRows()), settings(ahead=0.0, delay=0.0))
        await frontier.open(START)
        urgent = link("https://a.example/1", score=5.0)
        await frontier.add([link("https://a.example/1"), link("https://a.example/2", score=1.0)], [], START)
        for number in range(3):
            (visit,) = await frontier.lease(1, START)
            robots = visit.link.purpose is Purpose.ROBOTS
            copy = allowed(visit.link.origin, START + 1e6) if robots else None
            verdict = Verdict(state=State.CRAWLED, due=None if robots else START + 10)
            await frontier.settle([Settlement(visit=visit, verdict=verdict, robots=copy)], Mark(), START)
            assert robots == (number == 0)
        for _ in range(3):  # crawled: it changes nothing, and is remembered as such
            assert await frontier.add([urgent], [], START) == 0
        assert await frontier.lease(0, START + 10) == []  # both wait again
        await frontier.add([urgent], [], START + 10)
        assert [visit.link.url for visit in await frontier.lease(1, START + 10)] == [urgent.url]

    asyncio.run(ask())


def test_when_links_leave_the_head_together_the_next_one_becomes_head():
    async def ask() -> None:
        rows = MemoryRows()
        frontier = ShardFrontier(MemoryStore(rows), settings(ahead=0.0))
        await frontier.open(START)
        await frontier.add([link(f"https://a.example/{n}") for n in range(4)], [], START)
        frontier = ShardFrontier(MemoryStore(rows), settings(ahead=0.0))  # with nothing in memory
        await frontier.open(START)
        high = [link(f"https://a.example/{n}", level=Level.HIGH) for n in (0, 1)]
        await frontier.add(high, [], START)
        order, now = [], START
        for _ in range(5):
            (visit,) = await frontier.lease(1, now)
            robots = visit.link.purpose is Purpose.ROBOTS
            copy = allowed(visit.link.origin, START + 1e6) if robots else None
            await frontier.settle(
                [Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED), robots=copy)], Mark(), now
            )
            order.append(visit.link.url[-1])
        assert sorted(order[1:]) == ["0", "1", "2", "3"]
        assert order.index("0") < order.index("1")
        assert order.index("2") < order.index("3")
        assert await frontier.lease(1, now) == []

    asyncio.run(ask())


# ------------------------------------------------------------------------------------------------ engines that fail


class Moody(MemoryStore):
    """A store whose engine goes away, before or after it has written."""

    def __init__(self, rows: MemoryRows, epoch: int = 1) -> None:
        super().__init__(rows, epoch)
        self.moods: list[str] = []
        self.pause = asyncio.Event()
        self.pause.set()

    async def write(self, batch: Batch) -> None:
        mood = self.moods.pop() if self.moods else ""
        await self.pause.wait()
        if mood == "before":
            raise EngineAway("down")
        await super().write(batch)
        if mood == "after":
            raise EngineAway("down")


@pytest.mark.parametrize("mood", ["before", "after"])
def test_a_verb_waits_for_an_engine_that_is_away(mood):
    async def ask() -> None:
        store = Moody(MemoryRows())
        frontier = ShardFrontier(store, settings())
        await frontier.open(START)
        store.moods = [mood, mood]
        assert await frontier.add([link("https://a.example/1"), link("https://b.example/")], [], START) == 2
        assert len(await frontier.lease(10, START)) == 2
        counts = (await store.meta()).counts
        assert (counts.added, counts.queued) == (2, 2)

    asyncio.run(ask())


def test_a_write_is_finished_even_if_its_verb_is_cancelled():
    async def ask() -> None:
        store = Moody(MemoryRows())
        frontier = ShardFrontier(store, settings())
        await frontier.open(START)
        store.pause.clear()
        adding = asyncio.create_task(frontier.add([link("https://a.example/1")], [], START))
        for _ in range(5):
            await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        store.pause.set()
        assert await frontier.add([link("https://a.example/1")], [], START) == 0
        assert (await store.meta()).counts.added == 1

    asyncio.run(ask())


def test_an_owner_that_lost_the_shard_is_fenced_and_changes_nothing():
    async def ask() -> None:
        rows = MemoryRows()
        old = ShardFrontier(MemoryStore(rows, 1), settings())
        await old.open(START)
        await old.add([link("https://a.example/1")], [], START)
        (visit,) = await old.lease(1, START)
        rows.epoch = 2
        new = ShardFrontier(MemoryStore(rows, 2), settings(), grace=60.0)
        opened = await new.open(START)
        assert [lost.link for lost in opened.lost] == [visit.link]
        settlement = Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED))
        for _ in range(2):
            with pytest.raises(Fenced):
                await old.settle([settlement], Mark("late", 9), START)
        assert (await MemoryStore(rows).meta()).mark == Mark()
        assert await new.lease(1, START + 60.9) == []  # a request of the old owner may be in flight
        assert len(await new.lease(1, START + 61.0)) == 1

    asyncio.run(ask())


# ------------------------------------------------------------------------------------------------ forwarding


class RecordedForwarding:
    """Forwarding that a test can read."""

    def __init__(self, rows: MemoryRows) -> None:
        self.rows = rows
        self.sent: list[tuple[int, str, int]] = []  # shard, URL, links in the store when it was sent

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        for shard, some in links.items():
            self.sent += [(shard, one.url, len(self.rows.urls)) for one in some]


def test_links_of_other_shards_are_forwarded_before_the_settlement_is_written():
    async def ask() -> None:
        rows = MemoryRows()
        forwarding = RecordedForwarding(rows)
        mine = urls.shard("a.example", 4)
        frontier = ShardFrontier(MemoryStore(rows), settings(), shard=mine, shards=4, forwarding=forwarding)
        await frontier.open(START)
        await frontier.add([link("https://a.example/")], [], START)
        (robots,) = await frontier.lease(1, START)
        copy = allowed(robots.link.origin, START + 1e6)
        await frontier.settle(
            [Settlement(visit=robots, verdict=Verdict(state=State.CRAWLED), robots=copy)], Mark(), START
        )
        (visit,) = await frontier.lease(1, START)
        names = [f"h{n}.example" for n in range(30)]
        foreign = [name for name in names if urls.shard(name, 4) != mine]
        found = [link(f"https://{name}/") for name in names] * 2
        done = Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED), links=found)
        await frontier.settle([done], Mark(), START)
        assert forwarding.sent == [
            (shard, f"https://{name}/", 1)
            for shard in dict.fromkeys(urls.shard(name, 4) for name in foreign)
            for name in foreign
            if urls.shard(name, 4) == shard
        ]
        assert (await frontier.counts()).outbox == 0
        assert await frontier.outbox(10) == []

    asyncio.run(ask())


def test_forwarded_links_and_their_position_are_stored_together():
    async def ask() -> None:
        rows = MemoryRows()
        frontier = ShardFrontier(MemoryStore(rows), settings())
        await frontier.open(START)
        many = [link(f"https://h{n % 50}.example/{n}") for n in range(5000)]
        assert await frontier.take_in(many, {"high": "7"}, START) == 5000
        assert await frontier.take_in(many[:10], {"low": "1"}, START) == 0
        again = ShardFrontier(MemoryStore(rows), settings())
        await again.open(START)
        assert again.positions() == {"high": "7", "low": "1"}

    asyncio.run(ask())

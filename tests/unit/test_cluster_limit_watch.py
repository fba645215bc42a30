"""A worker keeps the limits of the whole crawl: what it asks for, what it gives back, and when it stops."""

import asyncio
from typing import Any

from msgspec.structs import replace

from skitter.cluster.held_shards import HeldShards
from skitter.cluster.limit_watch import LimitWatch
from skitter.cluster.ports import Standing
from skitter.cluster.quota import began
from skitter.model import Counts
from skitter.ports import EngineAway
from skitter.settings import CrawlSettings, Seconds, Settings

RENEW = 3.0
NOW = 1000.0


class Office:
    """`skitter.cluster.ports.Claims`, as far as limits go; between a look and a swap others may come."""

    def __init__(self, shards=2):
        self.words = ""
        self.counts = [Counts() for _ in range(shards)]
        self.now = NOW
        self.away = False
        self.swaps = 0
        self.between: list[Any] = []  # somebody else's doings, one before each swap

    async def standing(self):
        if self.away:
            raise EngineAway("the office is closed")
        rows = enumerate(self.counts)
        return [Standing(shard, "", 1, 0.0, counts, {}, self.now) for shard, counts in rows]

    async def swap(self, seen, new):
        if seen and self.between:
            await self.between.pop(0)()
        self.swaps += bool(seen)
        if self.words == seen:
            self.words = new
        return self.words


class Shard:
    """`skitter.crawl.shard.Shard`, as far as the limits see it."""

    def __init__(self, number, due=NOW):
        self.number, self.due = number, due
        self.in_flight = self.put_off = self.taking = self.woken = 0
        self.counts = Counts()

    def wake(self):
        self.woken += 1

    def stores(self, office, pages):
        self.counts.pages += pages
        office.counts[self.number].pages = self.counts.pages


class Watch:
    time = NOW

    def now(self):
        return self.time

    def monotonic(self):
        return self.time


class Worker:
    """A worker with its shards and its limits; all of its shards are under one epoch."""

    def __init__(self, office, *shards, epoch=1, **limits):
        self.held = HeldShards(100)
        self.shards = shards
        self.held.shards = {shard.number: shard for shard in shards}
        self.epoch, self.watch = epoch, Watch()
        settings = Settings(crawl=CrawlSettings(**limits))
        settings = replace(settings, cluster=replace(settings.cluster, renew=Seconds(RENEW)))
        self.limits = LimitWatch(self, office, self.watch, settings)

    def held_under(self):
        return [(shard, self.epoch) for shard in self.shards]

    def rooms(self):
        return [self.held.room(shard) for shard in self.shards]


def played(scene):
    async def run():
        async with asyncio.timeout(60):
            await scene()

    asyncio.run(run())


def test_without_a_limit_nothing_is_asked_for_but_when_it_began():
    async def scene():
        office, shard = Office(), Shard(0)
        worker = Worker(office, shard)
        assert await worker.limits.reached() == ""
        assert worker.rooms() == [100]
        assert await began(office) == NOW
        office.now += 50
        await worker.limits.reached()
        assert await began(office) == NOW
        office.away = True  # and nobody would notice
        watching = asyncio.create_task(worker.limits.watch())
        await asyncio.sleep(0)
        assert not watching.done()
        watching.cancel()

    played(scene)


def test_nothing_is_taken_out_before_it_is_allowed():
    async def scene():
        office, shard = Office(), Shard(0)
        worker = Worker(office, shard, max_pages=5)
        assert worker.rooms() == [0]
        assert worker.held.short.is_set()
        await worker.limits.reached()
        assert worker.rooms() == [5]
        assert shard.woken

    played(scene)


def test_what_a_shard_is_about_to_take_out_is_not_given_back():
    async def scene():
        office, first, second = Office(), Shard(0), Shard(1)
        one, two = Worker(office, first, max_pages=6), Worker(office, second, max_pages=6)
        await one.limits.reached()
        first.taking, first.due = 6, None  # its frontier was asked, and takes its time
        await one.limits.reached()
        await two.limits.reached()
        first.taking, first.in_flight = 0, 6
        assert one.rooms() == two.rooms() == [0]

    played(scene)


def test_what_a_shard_has_no_use_for_goes_to_one_that_has():
    async def scene():
        office, first, second = Office(), Shard(0), Shard(1)
        one, two = Worker(office, first, max_pages=8), Worker(office, second, max_pages=8)
        await one.limits.reached()
        await two.limits.reached()
        assert one.rooms() == [8]
        assert two.rooms() == [0]
        first.stores(office, 2)
        first.in_flight, first.due = 1, NOW + 100  # its host wants to be left alone
        await one.limits.reached()
        assert one.rooms() == [0]
        await two.limits.reached()
        assert two.rooms() == [5]

    played(scene)


def test_two_who_ask_at_once_do_not_get_the_same_pages():
    async def scene():
        office, first, second = Office(), Shard(0), Shard(1)
        one, two = Worker(office, first, max_pages=11), Worker(office, second, max_pages=11)
        await one.limits.reached()  # so that there is a quota, and 3 pages are left
        office.between = [one.limits.reached, two.limits.reached]
        first.stores(office, 8)
        await two.limits.reached()
        assert sum(one.rooms()) + sum(two.rooms()) == 3

    played(scene)


def test_a_new_owner_has_what_the_last_one_had_and_that_one_has_nothing_to_say():
    async def scene():
        office, shard, again = Office(), Shard(0), Shard(0)
        dead = Worker(office, shard, max_pages=8)
        await dead.limits.reached()
        shard.stores(office, 3)
        again.counts.pages = 3
        heir = Worker(office, again, epoch=2, max_pages=8)
        await heir.limits.reached()
        assert heir.rooms() == [5]
        shard.due = None  # it was only frozen, and would give everything back
        await dead.limits.reached()
        assert dead.rooms() == [0]
        other = Worker(office, Shard(1), max_pages=8)
        await other.limits.reached()
        assert other.rooms() == [0]
        assert heir.rooms() == [5]

    played(scene)


def test_the_faster_a_shard_is_the_more_it_asks_for():
    async def scene():
        office, shard = Office(), Shard(0)
        worker = Worker(office, shard, max_pages=100_000)
        swaps = 0
        for _ in range(12):
            await worker.limits.reached()
            shard.stores(office, worker.held.allowed[shard] - shard.counts.pages)
        swaps = office.swaps
        assert shard.counts.pages > 8 * 2**10
        assert swaps <= 12

    played(scene)


def test_time_goes_on_while_the_engine_is_away():
    async def scene():
        office = Office()
        worker = Worker(office, Shard(0), max_time=Seconds(60))
        office.now += 5  # of a crawl that has just begun
        await worker.limits.reached()
        office.away = True
        worker.watch.time += 59
        assert await worker.limits.reached() == ""
        worker.watch.time += 1
        assert "crawl.max_time" in await worker.limits.reached()

    played(scene)


def test_a_worker_that_comes_later_does_not_begin_anew():
    async def scene():
        office = Office()
        await Worker(office, Shard(0), max_time=Seconds(60)).limits.reached()
        office.now += 61
        assert "crawl.max_time" in await Worker(office, Shard(1), max_time=Seconds(60)).limits.reached()

    played(scene)


def test_it_looks_again_when_a_shard_is_short_and_ends_when_the_limit_is_reached():
    async def scene():
        office, shard = Office(), Shard(0)
        worker = Worker(office, shard, max_pages=20)
        watching = asyncio.create_task(worker.limits.watch())
        while shard.counts.pages < 20:
            await asyncio.sleep(0)
            if room := max(0, worker.rooms()[0]):
                shard.stores(office, room)
        worker.rooms()  # it would like to have more
        assert await watching == "20 pages of 20 are stored (crawl.max_pages)"

    played(scene)

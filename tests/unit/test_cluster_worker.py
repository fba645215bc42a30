"""A worker among fakes: what it does with its shards, its incoming links and its room, in orders that are rare in life."""

import asyncio
from contextlib import asynccontextmanager

from msgspec.structs import replace

from skitter.cluster.clock import EngineClock
from skitter.cluster.ports import Claim, Delivery, Renewal
from skitter.cluster.worker import ClusterWorker
from skitter.events import Events
from skitter.model import Counts
from skitter.ports import EngineAway, StateError
from skitter.settings import Seconds, Settings

SHARDS = 2
LEASE, RENEW = 15.0, 0.01


class Watch:
    time = 100.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class Office:
    """`skitter.cluster.ports.Claims` of one worker, with another one that is moved by hand."""

    def __init__(self, watch):
        self.watch = watch
        self.owners = ["", ""]
        self.others = []
        self.epoch = 0
        self.away = False
        self.opens = asyncio.Event()
        self.opens.set()
        self.renewals = 0
        self.known = []  # roots of the scope

    async def renew(self, epochs, about):
        self.renewals += 1
        if self.away:
            closed = EngineAway("the office is closed")
            closed.again = self.opens.wait
            raise closed
        held = frozenset(shard for shard in epochs if self.owners[shard] == "me")
        return Renewal(self.watch.time, held, list(self.owners), ["me", *self.others], 0, len(self.known))

    async def roots(self, after, limit):
        self.watch.time += RENEW  # each look takes as long as there is between two signs of life
        assert "me" not in self.owners, "a shard was taken before the scope was known"
        found = self.known[after : after + limit]
        return found, after + len(found)

    async def take(self, shards, most, settings=None):
        self.epoch += 1
        for shard in shards:
            self.owners[shard] = "me"
        return [Claim(shard, self.epoch, self.watch.time) for shard in shards]

    async def release(self, epochs):
        for shard in epochs:
            self.owners[shard] = ""

    async def leave(self):
        pass


class Shard:
    """`skitter.crawl.shard.Shard`, as far as a worker sees it."""

    def __init__(self, number):
        self.number = number
        self.in_flight = self.put_off = 0
        self.taking = 0
        self.counts = Counts()
        self.woken = 0
        self.closed = False
        self._stopped = asyncio.Event()

    async def run(self, group):
        await self._stopped.wait()

    def stop(self):
        self._stopped.set()

    def wake(self):
        self.woken += 1


class Parts:
    """Links that come when told to, and take as long as told to."""

    def __init__(self):
        self.opened = {}
        self.inbox = self
        self.incoming = asyncio.Queue()
        self.taken = []
        self.begun = []
        self.owned = []
        self.receiving = asyncio.Event()
        self.slow = None
        self.taking, self.go_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def shard(self, claim):
        if self.slow is not None:
            await self.slow.wait()
        shard = self.opened[claim.shard] = Shard(claim.shard)
        try:
            yield shard
        finally:
            shard.closed = True

    def positions_of(self, shard):
        return {}

    async def take_in(self, shard, delivery):
        self.begun.append(delivery)
        self.taking.set()
        await self.go_on.wait()
        if shard.closed:
            raise StateError("the frontier is not open")
        self.taken.append(delivery)

    async def own(self, shard, positions):
        self.owned.append(shard)

    async def disown(self, shard):
        pass

    async def receive(self, limit):
        self.receiving.set()
        received = [await self.incoming.get()]
        while not self.incoming.empty():
            received.append(self.incoming.get_nowait())
        return received

    async def stored(self, shard, positions, now):
        pass


def played(scene, renew=RENEW, before=None):
    """Run a scene with a worker that works, and let it leave."""

    async def run():
        watch = Watch()
        office, parts = Office(watch), Parts()
        settings = Settings()
        cluster = replace(settings.cluster, lease=Seconds(LEASE), renew=Seconds(renew))
        worker = ClusterWorker("me", office, EngineClock(watch), replace(settings, cluster=cluster), Events())
        if before is not None:
            before(worker, office)
        working = asyncio.create_task(worker.run(parts))
        await scene(worker, office, parts, watch)
        worker.leave()
        await asyncio.wait_for(working, 60)

    asyncio.run(run())


async def until(happens):
    for _ in range(6000):
        if happens():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


def test_links_on_their_way_into_a_shard_arrive_before_it_is_closed():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        parts.incoming.put_nowait(Delivery(0, [], {"topic": "7"}))
        await parts.taking.wait()
        parts.opened[0].stop()  # it is handed over now
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not parts.opened[0].closed
        parts.go_on.set()
        await until(lambda: parts.taken)

    played(scene)


def test_a_worker_knows_every_root_before_it_takes_a_shard_and_gives_signs_of_life_meanwhile():
    known = []

    def before(worker, office):
        office.known = [f"https://h{number}.example/" for number in range(32_000)]
        worker.widen = known.extend

    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        assert known == office.known
        assert office.renewals >= 7  # one for each look

    played(scene, before=before)


def test_links_for_several_shards_are_taken_in_together():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        deliveries = [Delivery(shard, [], {"topic": "7"}) for shard in range(SHARDS)]
        for delivery in deliveries:
            parts.incoming.put_nowait(delivery)
        await until(lambda: parts.begun == deliveries)  # and none of it is done
        assert parts.taken == []
        parts.go_on.set()
        await until(lambda: parts.taken == deliveries)

    played(scene)


def test_links_for_a_shard_that_was_taken_again_while_they_came_are_received_once_more():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        await parts.receiving.wait()  # with the shards of now
        first = parts.opened[0]
        first.stop()
        await until(lambda: parts.opened[0] is not first and 0 in worker.held.shards)
        begun = len(parts.owned)
        parts.incoming.put_nowait(Delivery(0, [], {"topic": "7"}))
        await until(lambda: parts.owned[begun:] == [0])
        assert parts.begun == []

    played(scene)


def test_a_shard_that_was_not_opened_is_not_given_back():
    async def run():
        watch = Watch()
        office, parts = Office(watch), Parts()
        parts.slow = asyncio.Event()
        worker = ClusterWorker("me", office, EngineClock(watch), Settings(), Events())
        working = asyncio.create_task(worker.run(parts))
        await until(lambda: office.owners == ["me", "me"])
        working.cancel()
        await asyncio.wait([working])
        assert office.owners == ["me", "me"]  # until their leases end, as if we had died

    asyncio.run(run())


def test_shards_that_ask_at_once_get_no_more_than_there_is_and_nobody_is_forgotten():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        first, second = parts.opened[0], parts.opened[1]
        first.taking = worker.held.room(first)  # its engine has not answered yet
        assert first.taking == worker.held._concurrency
        assert worker.held.room(second) == 0
        woken, first.taking = second.woken, 0
        worker.held.took()  # and did not need any of it
        assert second.woken == woken + 1
        worker.held.took()
        assert second.woken == woken + 1

    played(scene)


def test_what_a_lost_shard_had_in_flight_is_room_for_the_others():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        parts.opened[0].in_flight = worker.held._concurrency
        assert worker.held.room(parts.opened[1]) == 0  # the other one asks, and waits from now on
        office.owners[0], office.others = "other", ["other"]
        await until(lambda: 0 not in worker.held.shards)
        assert worker.held.room(parts.opened[1]) > 0
        assert parts.opened[1].woken

    played(scene)


def test_when_the_engine_was_away_for_all_nobody_takes_what_the_others_work_on():
    async def scene(worker, office, parts, watch):
        office.owners, office.others = ["", "other"], ["other"]
        await until(lambda: 0 in worker.held.shards)
        office.away = True
        watch.time += LEASE + 1
        await asyncio.sleep(0.05)
        office.away, office.others, office.owners[1] = False, [], ""  # nobody has renewed yet but us
        had = office.renewals
        await until(lambda: office.renewals > had + 3)
        assert office.owners[1] == ""
        watch.time += LEASE  # and now it is clear that it is dead
        await until(lambda: 1 in worker.held.shards)

    played(scene)


def test_the_next_sign_of_life_comes_as_soon_as_the_engine_may_be_asked_again():
    """Not a whole interval later: a lease is running out."""

    async def scene(worker, office, parts, watch):
        office.away = True
        office.opens.clear()
        await until(lambda: office.renewals == 1)
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert office.renewals == 1, "it does not ask before it may"
        office.away = False
        office.opens.set()
        await until(lambda: office.renewals == 2)
        await until(lambda: len(worker.held.shards) == SHARDS)

    played(scene, renew=3600.0)


def test_an_engine_that_is_away_does_not_keep_a_worker_from_leaving():
    async def scene(worker, office, parts, watch):
        await until(lambda: len(worker.held.shards) == SHARDS)
        office.away = True
        office.opens.clear()
        had = office.renewals
        await until(lambda: office.renewals > had)

    played(scene)

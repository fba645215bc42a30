"""Links leave the outbox when their owner has them, and not before."""

import asyncio
from collections import Counter

import pytest

from skitter import urls
from skitter.crawl import forwarding
from skitter.crawl.forwarding import Forwarding, owner_of
from skitter.model import Link
from skitter.testing.reference import memory_frontier

SHARDS = 4


def link(number):
    url = f"http://h{number}.test/"
    return Link(url=url, key=url, host=f"h{number}.test")


def foreign(count):
    found = (link(number) for number in range(10_000))
    return [
        each
        for _, each in zip(range(count), (one for one in found if owner_of(one.host, SHARDS)), strict=False)
    ]


class Owners:
    """Where links arrive; a delivery ends when somebody lets it."""

    def __init__(self):
        self.came = []
        self.waiting = []

    async def deliver(self, owner, links):
        self.came.append((owner, list(links)))
        safe = asyncio.get_running_loop().create_future()
        self.waiting.append(safe)
        await safe

    def acknowledge(self):
        for safe in self.waiting:
            safe.set_result(None)
        self.waiting = []


async def started(links, arrived=None):
    frontier = memory_frontier(shard=0, shards=SHARDS)
    await frontier.open(0.0)
    await frontier.add(links, (), 0.0)
    owners = Owners()
    told = [] if arrived is None else arrived
    sending = Forwarding(frontier, SHARDS, owners.deliver, lambda: told.append(True))
    return frontier, owners, sending, asyncio.ensure_future(sending.run())


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


def test_every_link_goes_to_the_shard_that_owns_its_host():
    async def main():
        links = foreign(50)
        _, owners, _, task = await started(links)
        await until(lambda: sum(len(batch) for _, batch in owners.came) == len(links))
        task.cancel()
        return owners.came

    for owner, batch in asyncio.run(main()):
        assert {urls.shard(urls.registrable_domain(each.host), SHARDS) for each in batch} == {owner}


def test_a_link_stays_in_the_outbox_until_it_is_acknowledged_and_is_sent_once():
    async def main():
        links = foreign(20)
        frontier, owners, sending, task = await started(links)
        await until(lambda: sum(len(batch) for _, batch in owners.came) == len(links))
        assert (await frontier.counts()).outbox == len(links)
        more = foreign(25)[20:]
        await frontier.add(more, (), 1.0)
        sending.wake()
        await until(lambda: sum(len(batch) for _, batch in owners.came) == 25)
        owners.acknowledge()
        for _ in range(100):
            await asyncio.sleep(0)
        left = (await frontier.counts()).outbox
        task.cancel()
        return left, Counter(each.url for _, batch in owners.came for each in batch)

    left, sent = asyncio.run(main())
    assert left == 0
    assert set(sent.values()) == {1}


def test_what_was_not_acknowledged_is_sent_again_by_the_next_run():
    async def main():
        links = foreign(5)
        frontier, owners, _, task = await started(links)
        await until(lambda: owners.came)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        again = Owners()
        second = asyncio.ensure_future(Forwarding(frontier, SHARDS, again.deliver).run())
        await until(lambda: sum(len(batch) for _, batch in again.came) == 5)
        second.cancel()
        return {link.url for _, batch in again.came for link in batch}

    assert asyncio.run(main()) == {link.url for link in foreign(5)}


def test_in_a_hurry_links_wait_for_no_others_and_their_arrival_is_told(monkeypatch):
    monkeypatch.setattr(forwarding, "_COLLECT", 1e6)

    async def main():
        frontier, owners, sending, task = await started(foreign(5), arrived := [])
        await asyncio.sleep(0.1)
        assert not owners.came
        sending.hurry()
        await until(lambda: owners.came)
        assert not arrived
        owners.acknowledge()
        await until(lambda: arrived)
        task.cancel()
        return (await frontier.counts()).outbox

    assert asyncio.run(main()) == 0


def test_a_slow_owner_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(forwarding, "_BATCH", 2)
    monkeypatch.setattr(forwarding, "_UNDERWAY", 3)

    async def main():
        _, owners, _, task = await started(foreign(100))
        await until(lambda: len(owners.came) == 3)
        await asyncio.sleep(0.2)
        assert len(owners.came) == 3
        owners.acknowledge()
        await until(lambda: len(owners.came) == 6)
        task.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("host", ["a.test", "b.a.test", "example.co.uk"])
def test_with_one_shard_everything_belongs_to_it(host):
    assert owner_of(host, 1) == 0

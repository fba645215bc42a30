"""A broker that dies, or says nothing for a while, costs time and nothing else."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial

import pytest

from skitter.backends.remote.patience import patiently
from skitter.settings import Settings
from tests.cluster.kafka import crawl_on, link, post
from tests.engines import frozen, kill, our_engine, start


@pytest.fixture
def settings() -> Iterator[Settings]:
    with crawl_on(our_engine("kafka")) as settings:
        yield settings


async def send_all(both, batches: int, size: int, acknowledged: list[int]) -> None:
    for number in range(batches):
        links = [link(number * size + each) for each in range(size)]
        await patiently(
            partial(both.send, links)
        )  # as a settlement does: it may take a slow broker minutes to come back
        acknowledged.append(number)
        await asyncio.sleep(0.01)


async def receive_until(both, wanted: int) -> tuple[set[str], int]:
    """Different links, and how many in all."""
    seen: set[str] = set()
    total = 0
    for _ in range(200):
        for each in await both.inbox.receive(1000, wait=1):
            total += len(each.links)
            seen.update(one.url for one in each.links)
        if len(seen) == wanted:
            break
    return seen, total


def disturbed(settings: Settings, disturb) -> None:
    async def scenario():
        batches, size = 150, 200
        acknowledged: list[int] = []
        async with post(settings) as both:
            receiving = asyncio.create_task(receive_until(both, batches * size))
            sending = asyncio.create_task(send_all(both, batches, size, acknowledged))
            while len(acknowledged) < 10:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(disturb)
            assert not sending.done(), "the trouble came too late to prove anything"
            await sending
            seen, total = await receiving
        assert len(acknowledged) == batches
        assert len(seen) == batches * size
        print(f"received {total} for {batches * size} sent")
        assert total < 2 * batches * size

    asyncio.run(scenario())


def test_a_broker_that_is_killed_and_started_again_while_links_are_sent_loses_none(settings):
    def crash():
        kill("kafka")
        start("kafka")

    disturbed(settings, crash)


def test_a_broker_that_is_frozen_for_a_while_loses_none(settings):
    def freeze():
        with frozen("kafka"):
            time.sleep(3)

    disturbed(settings, freeze)


def test_a_receiver_finds_its_place_after_the_broker_was_killed(settings):
    async def scenario():
        async with post(settings) as both:
            await both.send([link(number, host="one.example") for number in range(3000)])
            first = await both.receive_all(1000, limit=500)
            await asyncio.to_thread(kill, "kafka")
            await asyncio.to_thread(start, "kafka")
            rest = await both.receive_all(2000)
            seen = [one.url for each in (*first, *rest) for one in each.links]
            assert seen == [link(number, host="one.example").url for number in range(3000)]

    asyncio.run(scenario())

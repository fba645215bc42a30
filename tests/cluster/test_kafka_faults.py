"""A broker that dies or is silent for a while costs only time."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from skitter.backends.kafka.lag import _answered
from skitter.engines.retry import patiently
from skitter.settings import Settings
from tests.cluster.kafka import both_ends, crawl_on, link
from tests.engines import frozen, kill, our_engine, start


class Elected:
    """A broker whose partitions have just had an election: it refuses once, then answers."""

    def __init__(self, code: int) -> None:
        self._refusal: KafkaException | None = KafkaException(KafkaError(code))

    def list_offsets(self, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, "Future[int]"]:
        refusal, self._refusal = self._refusal, None
        told: dict[TopicPartition, Future[int]] = {partition: Future() for partition in asked}
        for future in told.values():
            if refusal is None:
                future.set_result(7)
            else:
                future.set_exception(refusal)
        return told


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH])
def test_a_broker_behind_an_election_is_asked_again(code):
    partition = TopicPartition("links", 0)
    assert asyncio.run(_answered(Elected(code), {partition: OffsetSpec.latest()})) == {partition: 7}


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
        async with both_ends(settings) as both:
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
        async with both_ends(settings) as both:
            await both.send([link(number, host="one.example") for number in range(3000)])
            first = await both.receive_all(1000, limit=500)
            await asyncio.to_thread(kill, "kafka")
            await asyncio.to_thread(start, "kafka")
            rest = await both.receive_all(2000)
            seen = [one.url for each in (*first, *rest) for one in each.links]
            assert seen == [link(number, host="one.example").url for number in range(3000)]

    asyncio.run(scenario())


# ------------------------------------------------------------------------------------------------ librdkafka in trouble


def test_a_stalled_consumer_is_replaced(settings, monkeypatch):
    """As librdkafka's do now and then after a broker was away. Nothing is passed over, and nothing comes twice."""
    monkeypatch.setattr("skitter.backends.kafka.forwarding._SILENCE", 1.0)

    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(number) for number in range(100)])
            first = await both.receive_all(100)
            consumers = list(both.inbox._consumers)
            for consumer in consumers:
                consumer.pause(consumer.assignment())
            await both.send([link(number) for number in range(100, 200)])
            rest = await both.receive_all(100)
            seen = [one.url for each in (*first, *rest) for one in each.links]
            assert sorted(seen) == sorted(link(number).url for number in range(200))
            replaced = [new is not old for new, old in zip(both.inbox._consumers, consumers, strict=True)]
            assert replaced == [False, True, False], "there were messages of one urgency only"

    asyncio.run(scenario())


def test_a_replaced_producer_still_answers_for_its_messages(settings):
    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(0)])
            with frozen("kafka"):
                sending = asyncio.create_task(both.send([link(number) for number in range(1, 50)]))
                await asyncio.sleep(1)
                both.sender._retired.append(both.sender._producer)
                both.sender._producer = both.sender._new_producer()
                assert not sending.done()
            await asyncio.wait_for(sending, 120)
            await both.send([link(50)])
            assert both.sender._retired == []
            assert len({one.url for each in await both.receive_all(51) for one in each.links}) == 51

    asyncio.run(scenario())

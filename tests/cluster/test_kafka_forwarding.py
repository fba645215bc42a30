"""Forwarded links reach the shard that owns them: all of them, urgent ones first, whatever else is on the topics."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from skitter.backends.kafka import trimming
from skitter.backends.kafka.consuming import messages_of
from skitter.backends.kafka.forwarding import Inbox
from skitter.backends.kafka.lag import begins, hot, waiting
from skitter.backends.kafka.messages import label
from skitter.backends.kafka.packing import KIND, link_messages, owner
from skitter.backends.kafka.sending import Outgoing
from skitter.backends.kafka.topics import link_topics
from skitter.model import Level, Link
from skitter.ports import EngineAway
from skitter.settings import Settings
from tests.cluster.kafka import SHARDS, BothEnds, altered, both_ends, crawl_on, everything, link
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with crawl_on(engine("kafka")) as settings:
        yield settings


def urls_of(deliveries) -> list[str]:
    return [link.url for each in deliveries for link in each.links]


def test_every_link_arrives_complete_at_its_own_shard(settings):
    async def scenario():
        links = [link(number, Level(number % 5)) for number in range(3000)]
        async with both_ends(settings) as both:
            await both.send(links)
            deliveries = await both.receive_all(len(links))
        for each in deliveries:
            assert {owner(one, SHARDS) for one in each.links} <= {each.shard}
        received = [one for each in deliveries for one in each.links]
        assert sorted(received, key=lambda one: one.url) == sorted(links, key=lambda one: one.url)

    asyncio.run(scenario())


def test_the_urgent_come_first_and_the_others_do_not_starve(settings):
    async def scenario():
        by_level = {
            level: [
                link(number, level, "one.example") for number in range(level * 10**6, level * 10**6 + 20_000)
            ]
            for level in (Level.HIGH, Level.NORMAL, Level.LOW)
        }
        async with both_ends(settings) as both:
            for level in (Level.LOW, Level.NORMAL, Level.HIGH):  # the worst order
                await both.send(by_level[level])
            while not all(both.inbox._ahead):  # so that all three wait
                await both.inbox._call(both.inbox._look)
            deliveries = await both.receive_all(60_000)
        levels = [one.level for each in deliveries for one in each.links]
        first = levels[: len(levels) // 3]
        assert first[0] is Level.HIGH
        share = {level: first.count(level) / len(first) for level in by_level}
        assert share[Level.HIGH] > share[Level.NORMAL] > share[Level.LOW] > 0
        # Inside an urgency, links come in the order they were sent.
        for level, sent in by_level.items():
            assert [one for each in deliveries for one in each.links if one.level is level] == sent

    asyncio.run(scenario())


def test_acknowledged_links_are_in_kafka(settings):
    async def scenario():
        async with both_ends(settings, own=False) as both:
            await both.send([link(number) for number in range(2000)])
            # Nothing is flushed here: whoever dies now has lost nothing.
            messages = everything(settings, settings.kafka.links_medium, SHARDS)
        assert sum(len(msgspec.msgpack.decode(message.value())) for message in messages) == 2000

    asyncio.run(scenario())


def test_the_next_owner_starts_after_the_stored_position(settings):
    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(number, host="one.example") for number in range(1500)])
            stored = (await both.receive_all(500, limit=500))[-1]
            rest = await both.receive_all(1000)
            # The first owner died before it stored the rest.
            next_owner = Inbox(settings, SHARDS, both.sender)
            await next_owner.own(stored.shard, stored.positions)
            again = await BothEnds(settings, both.sender, both.forwarding, next_owner).receive_all(1000)
            await next_owner.close()
            assert urls_of(again) == urls_of(rest)

    asyncio.run(scenario())


def test_a_delivery_that_could_not_be_stored_comes_again(settings):
    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(number, host="one.example") for number in range(1500)])
            first = await both.receive_all(1500)
            await both.inbox.own(first[0].shard, {})
            assert urls_of(await both.receive_all(1500)) == urls_of(first)

    asyncio.run(scenario())


def test_a_shard_that_was_given_up_is_not_received(settings):
    async def scenario():
        async with both_ends(settings) as both:
            links = [link(number) for number in range(1000)]
            gone = owner(links[0], SHARDS)
            await both.inbox.disown(gone)
            await both.send(links)
            kept = [one for one in links if owner(one, SHARDS) != gone]
            deliveries = await both.receive_all(len(kept))
            deliveries += await both.inbox.receive(1000, wait=0.3)
            assert gone not in {each.shard for each in deliveries}
            assert sorted(urls_of(deliveries)) == sorted(one.url for one in kept)

    asyncio.run(scenario())


def test_a_cancelled_receiver_loses_nothing(settings, monkeypatch):
    def slowly(*arguments):
        messages = messages_of(*arguments)
        time.sleep(0.005 if messages else 0)  # messages are in hand, and whoever asked for them may have gone
        return messages

    monkeypatch.setattr("skitter.backends.kafka.forwarding.messages_of", slowly)

    async def scenario():
        async with both_ends(settings) as both:
            sent = [link(number, host="one.example") for number in range(30_000)]
            await both.send(sent)
            received: list[str] = []
            given_up = 0
            for patience in range(400):
                receiving = asyncio.create_task(both.inbox.receive(600, wait=1))
                await asyncio.sleep(patience % 10 / 1000)
                receiving.cancel()
                try:
                    received += urls_of(await receiving)
                except asyncio.CancelledError:
                    given_up += 1
            received += urls_of(
                await both.receive_all(len(sent) - len(received)) if len(received) < len(sent) else []
            )
            assert given_up > 100
            assert received == [one.url for one in sent]

    asyncio.run(scenario())


def test_a_receiver_without_shards_waits_without_blocking(settings):
    async def scenario():
        async with both_ends(settings, own=False) as both:
            turns = 0

            async def work():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            working = asyncio.create_task(work())
            assert await both.inbox.receive(10, wait=0.2) == []
            working.cancel()
            assert turns > 1

    asyncio.run(scenario())


def test_a_link_on_the_wrong_partition_is_forwarded_to_its_owner(settings):
    async def scenario():
        links = [link(number, host="one.example") for number in range(100)]
        home = owner(links[0], SHARDS)
        async with both_ends(settings) as both:
            await both.forwarding.send({(home + 1) % SHARDS: links})
            deliveries = await both.receive_all(100)
        assert {each.shard for each in deliveries if each.links} == {home}
        passed = [each for each in deliveries if each.shard == (home + 1) % SHARDS]
        assert all(each.positions for each in passed)  # the wrong partition moves on

    asyncio.run(scenario())


def stray(settings: Settings) -> list[Outgoing]:
    """Messages that nobody can read."""
    topic, crawl = settings.kafka.links_high, settings.cluster.name
    good = next(link_messages(settings.kafka, crawl, {0: [link(1)]})).value
    newer = (*label(crawl, KIND)[:2], ("skitter-version", b"2"))
    return [
        Outgoing(topic, b"hello", partition=0),
        Outgoing(topic, good, partition=0, headers=label("another-crawl", KIND)),
        Outgoing(topic, good, partition=0, headers=label(crawl, "page")),
        Outgoing(topic, good, partition=0, headers=newer),
        Outgoing(topic, good[:-5], partition=0, headers=label(crawl, KIND)),
        Outgoing(topic, b"\x91\x92\xc3\xc3", partition=0, headers=label(crawl, KIND)),
        Outgoing(topic, b"", partition=0, headers=label(crawl, KIND)),
        Outgoing(topic, deep(), partition=0, headers=label(crawl, KIND)),
    ]


def deep() -> bytes:
    """A link with a list in a list in a list."""
    link = Link(url="u", key="k", host="h", meta={"q": 1})
    return msgspec.msgpack.encode([link])[:-1] + b"\x91" * 5000 + b"\x01"


def test_an_unreadable_message_is_dead_lettered_and_the_partition_continues(settings):
    async def scenario():
        async with both_ends(settings) as both:
            home = [link(n) for n in range(200) if owner(link(n), SHARDS) == 0]
            await both.sender.send(stray(settings))
            await both.send([msgspec.structs.replace(one, level=Level.HIGH) for one in home])
            deliveries = await both.receive_all(len(home))
        assert deliveries[-1].positions[settings.kafka.links_high] == str(len(stray(settings)) + 1)
        dead = everything(settings, settings.kafka.dead_letters, 1)
        assert [message.value() or b"" for message in dead] == [message.value for message in stray(settings)]
        reasons = [dict(message.headers())["dead-reason"].decode() for message in dead]
        assert "not a message of Skitter" in reasons[0]
        assert "another-crawl" in reasons[1]
        assert "'page'" in reasons[2]
        assert "'2'" in reasons[3]
        assert all("damaged" in reason for reason in reasons[4:])
        assert dict(dead[0].headers())["dead-from"].decode() == f"{settings.kafka.links_high}/0/0"

    asyncio.run(scenario())


def test_sending_to_a_missing_topic_is_an_engine_error(settings, monkeypatch):
    monkeypatch.setattr("skitter.backends.kafka.sending._PATIENCE", 3.0)

    async def scenario():
        async with both_ends(settings) as both:
            gone = altered(settings, links_medium="no-such-topic")
            with pytest.raises(EngineAway, match="Kafka: 1 messages were not acknowledged"):
                await both.sender.send(link_messages(gone.kafka, "x", {0: [link(1)]}))

    asyncio.run(scenario())


def test_only_stored_links_are_deleted(settings, monkeypatch):
    monkeypatch.setattr(trimming, "EVERY", 10.0)

    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(number, host="one.example") for number in range(2000)])
            deliveries = await both.receive_all(1000, limit=500)
            shard, topic = deliveries[0].shard, settings.kafka.links_medium
            for number, each in enumerate(deliveries[:2]):
                await both.inbox.stored(shard, each.positions, now=100.0 + number)
            assert (await begins(settings.kafka, [topic]))[topic][shard] == 0  # not every time
            await both.inbox.stored(shard, deliveries[1].positions, now=111.0)
            assert deliveries[1].positions[topic] == "2"
            while not (begin := (await begins(settings.kafka, [topic]))[topic][shard]):
                await asyncio.sleep(0.05)
            assert begin == 2

    asyncio.run(scenario())


def test_waiting_messages_are_counted_and_hot_shards_are_named(settings):
    async def scenario():
        async with both_ends(settings) as both:
            await both.send([link(number, host="one.example") for number in range(40 * 500)])
            shard = owner(link(0, host="one.example"), SHARDS)
            shards = await waiting(settings.kafka, {number: {} for number in range(SHARDS)})
            assert [each.messages for each in shards] == [40 * (number == shard) for number in range(SHARDS)]
            assert hot(shards) == [shard]
            end = {topic: str(shards[shard].ends[topic]) for topic in link_topics(settings.kafka)}
            [done] = await waiting(settings.kafka, {shard: end})
            assert done.messages == 0
            assert hot([done]) == []
            beyond = {settings.kafka.links_medium: "1000000"}  # of a topic that was deleted and made anew
            [anew] = await waiting(settings.kafka, {shard: beyond})
            assert anew.messages == 40

    asyncio.run(scenario())


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_burst_waits_in_kafka_and_not_in_memory(settings):
    async def scenario():
        burst, step = 200_000, 20_000
        async with both_ends(settings, own=False) as both:
            for start in range(0, burst, step):
                await both.send([link(number) for number in range(start, start + step)])
            before = resident()
            for shard in range(SHARDS):
                await both.inbox.own(shard, {})
            count = sum(len(each.links) for each in await both.inbox.receive(1, wait=20))
            await asyncio.sleep(2)  # nobody receives: what is fetched ahead is bounded
            ahead, began = resident() - before, time.perf_counter()
            while count < burst:
                some = await both.inbox.receive(1000, wait=20)
                assert some
                count += sum(len(each.links) for each in some)
            took = time.perf_counter() - began
            grown = resident() - before
        print(f"burst: {count / took:.0f} links/s, ahead {ahead >> 20} MiB, grown {grown >> 20} MiB")
        assert count == burst
        assert ahead < 12 * 2**20  # the burst is 20 MiB
        assert grown < 20 * 2**20

    asyncio.run(scenario())

"""Forwarded links: sent to the partition of their shard, received by its owner.

Sending returns when the brokers have the links, so a settlement that follows loses none. Receiving starts
after the positions that are stored with the links in PostgreSQL; the group's own offsets are only for
monitoring. Partitions are assigned by hand, because the holder of the lease owns the shard
(docs/decisions/0013-links-through-kafka.md).

Links wait in Kafka: three small consumers, one per urgency, fetch ahead a few megabytes at most. A consumer
that is silent for a while although messages are waiting has stalled, which librdkafka's sometimes do, for
good, after a broker was away (confluentinc/librdkafka issue 5153); it is replaced.
"""

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from skitter.backends.kafka.client import away, connection, explained
from skitter.backends.kafka.consuming import messages_of
from skitter.backends.kafka.messages import Found, Unreadable, bury, read
from skitter.backends.kafka.packing import KIND, decoder, link_messages, owner
from skitter.backends.kafka.sending import Sender
from skitter.backends.kafka.topics import link_topics
from skitter.backends.kafka.trimming import Trimming
from skitter.cluster.ports import Delivery
from skitter.model import Link
from skitter.ports import EngineAway
from skitter.runtime.aside import OneThread, aside, closed, leave
from skitter.settings import Settings

Positions = Mapping[str, str]
"""By topic, in digits: the offset of the first message of a shard's partition that is not stored yet."""

_Opened = tuple[Found, list[Link] | Unreadable]

# The order in which urgencies are read: high, medium and low by 4:2:1, evenly spread. Empty ones are skipped.
TURNS = (0, 1, 0, 2, 0, 1, 0)
_AT_ONCE = 8  # messages of an urgency per poll
_QUEUED = 2 * 2**10  # kilobytes that a consumer fetches ahead
_LOOK = 0.05  # seconds between two polls when nothing arrives; the latency of a link
_SILENCE = 30.0  # seconds of silence after which a consumer is checked for a stall
_ASK = 3.0  # seconds for a broker to return the end of a partition


class KafkaForwarding:
    """Sends links to the shards that own them."""

    def __init__(self, settings: Settings, sender: Sender) -> None:
        self._settings = settings
        self._sender = sender

    async def send(self, by_shard: Mapping[int, Sequence[Link]]) -> None:
        """Returns when every link is acknowledged; EngineAway if one is not, and all may be sent again."""
        await self._sender.send(link_messages(self._settings.kafka, self._settings.cluster.name, by_shard))


class Inbox:
    """Receives the links of the shards that this process owns."""

    def __init__(self, settings: Settings, shards: int, sender: Sender) -> None:
        self._settings = settings
        self._crawl = settings.cluster.name
        self._shards = shards
        self._sender = sender
        self._topics = link_topics(settings.kafka)
        self._consumers = [_consumer(settings) for _ in self._topics]
        # librdkafka's calls block, and a consumer allows one caller at a time.
        self._thread = OneThread("kafka-inbox")
        self._owned: set[int] = set()
        # Fetched, but not returned yet. The thread adds, the loop removes, and locks it for anything of more
        # than one step.
        self._ahead: tuple[deque[Found], ...] = tuple(deque() for _ in self._topics)
        self._locked = threading.Lock()
        self._at: dict[
            tuple[str, int], int
        ] = {}  # of every partition, the offset of the next message to fetch
        self._heard = [time.monotonic() for _ in self._topics]  # when a consumer last returned something
        self._turn = 0
        self._trimming = Trimming(settings.kafka)

    # ------------------------------------------------------------------------------------------------ ownership

    async def own(self, shard: int, positions: Positions) -> None:
        """Receive a shard's links from its stored positions on.

        Called again, it goes back to the given positions: what was received but could not be stored is
        delivered again.
        """
        await self.disown(shard)
        try:
            await self._call(self._assign, shard, positions)
        except EngineAway:
            self._owned.discard(shard)
            raise

    def _assign(self, shard: int, positions: Positions) -> None:
        self._owned.add(shard)  # before a message of it can arrive and be treated as another owner's
        for topic, consumer in zip(self._topics, self._consumers, strict=True):
            self._at[topic, shard] = start = int(positions.get(topic, OFFSET_BEGINNING))
            consumer.incremental_assign([TopicPartition(topic, shard, start)])

    async def disown(self, shard: int) -> None:
        """Another worker owns the shard now."""
        if shard not in self._owned:
            return
        self._owned.remove(shard)
        self._trimming.forget(shard)
        await self._call(self._unassign, shard)
        with self._locked:
            for ahead in self._ahead:
                kept = [message for message in ahead if message.partition != shard]
                ahead.clear()
                ahead.extend(kept)

    def _unassign(self, shard: int) -> None:
        for topic, consumer in zip(self._topics, self._consumers, strict=True):
            del self._at[topic, shard]
            consumer.incremental_unassign([TopicPartition(topic, shard)])

    # ------------------------------------------------------------------------------------------------ receiving

    async def receive(self, limit: int, wait: float = 1.0) -> list[Delivery]:
        """Up to about `limit` links, urgent ones first; nothing if none arrived within some seconds.

        Add each delivery and store its positions in one write, in the order received, before storing the next
        `receive` of that shard; otherwise call `own` again.
        """
        deadline = asyncio.get_running_loop().time() + wait
        taken: list[_Opened] = []
        try:
            while (missing := limit - _links_in(taken)) > 0:
                if self._owned:
                    await self._call(self._look)
                more = self._take(missing)
                taken += more
                if not more:
                    # Messages are small if there are many shards: everything available is delivered together.
                    if taken or asyncio.get_running_loop().time() >= deadline:
                        break
                    await asyncio.sleep(_LOOK)
            deliveries = await self._open(taken)
            taken = []
            return deliveries
        finally:
            self._put_back([message for message, _ in taken])

    def _look(self) -> None:
        """In the thread, to its end: messages returned to a cancelled caller would be lost."""
        now = time.monotonic()
        for number, (ahead, consumer) in enumerate(zip(self._ahead, self._consumers, strict=True)):
            messages = messages_of(consumer, _AT_ONCE - len(ahead), 0)
            if messages or ahead:
                self._heard[number] = now
            with self._locked:
                for message in messages:
                    if message.partition in self._owned:
                        ahead.append(message)
                        self._at[message.topic, message.partition] = message.offset + 1
        longest = min(range(len(self._topics)), key=self._heard.__getitem__)
        if now - self._heard[longest] >= _SILENCE:
            self._heard[longest] = now
            self._replace_if_stalled(longest)

    def _replace_if_stalled(self, number: int) -> None:
        """Ask a fresh consumer for the ends of partitions.

        If the old one should have returned something, replace it.
        """
        fresh, topic = _consumer(self._settings), self._topics[number]
        mine = [TopicPartition(topic, shard, at) for (each, shard), at in self._at.items() if each == topic]
        try:
            missed = any(_end(fresh, partition) > partition.offset for partition in mine)
        except KafkaException:  # the brokers are away, so nothing can be found out
            missed = False
        if missed:
            fresh.incremental_assign(mine)
            fresh, self._consumers[number] = self._consumers[number], fresh
        # Closing may take long: librdkafka waits for brokers, in vain if it has stalled.
        leave(fresh.close, "kafka-let-go")

    def _take(self, limit: int) -> list[_Opened]:
        """Messages in turns, so that urgent ones come first and none waits for ever."""
        taken: list[_Opened] = []
        count = 0
        while any(self._ahead) and count < limit:
            ahead = self._ahead[TURNS[self._turn]]
            self._turn = (self._turn + 1) % len(TURNS)
            if ahead:
                message = ahead.popleft()
                links = read(message, self._crawl, KIND, decoder)
                taken.append((message, links))
                count += _links_in(taken[-1:])
        return taken

    async def _open(self, taken: Sequence[_Opened]) -> list[Delivery]:
        """Our messages by shard. The rest is forwarded before our position passes it."""
        ours: dict[int, list[Link]] = defaultdict(list)
        positions: dict[int, dict[str, str]] = defaultdict(dict)
        astray: dict[int, list[Link]] = defaultdict(list)
        unreadable: list[Unreadable] = []
        for message, links in taken:
            positions[message.partition][message.topic] = str(message.offset + 1)
            if isinstance(links, Unreadable):
                unreadable.append(links)
                continue
            for link in links:
                shard = owner(link, self._shards)
                (ours if shard == message.partition else astray)[shard].append(link)
        await self._redirect(astray, unreadable)
        return [Delivery(shard, ours[shard], stored) for shard, stored in positions.items()]

    async def _redirect(self, astray: Mapping[int, Sequence[Link]], unreadable: Sequence[Unreadable]) -> None:
        if astray:
            await self._sender.send(link_messages(self._settings.kafka, self._crawl, astray))
        if unreadable:
            await bury(self._sender, self._settings.kafka.dead_letters, unreadable)

    def _put_back(self, messages: Sequence[Found]) -> None:
        """Not returned to the caller: the same messages come first in the next poll."""
        for message in reversed(messages):
            if message.partition in self._owned:
                self._ahead[self._topics.index(message.topic)].appendleft(message)

    # ------------------------------------------------------------------------------------------------ stored

    async def stored(self, shard: int, positions: Positions, now: float) -> None:
        """PostgreSQL has the links before these positions: tell the group, and now and then let Kafka delete them."""
        if shard not in self._owned:
            return
        await self._call(self._commit, shard, positions)
        self._trimming.passed(shard, positions, now)

    def _commit(self, shard: int, positions: Positions) -> None:
        for topic, consumer in zip(self._topics, self._consumers, strict=True):
            if topic in positions:
                # Only for monitoring; whether it arrives does not matter.
                with suppress(KafkaException):
                    offsets = [TopicPartition(topic, shard, int(positions[topic]))]
                    consumer.commit(offsets=offsets, asynchronous=True)

    async def close(self) -> None:
        """Close the connections to the brokers. Each consumer waits for the answer to its last commit."""
        self._owned.clear()
        await self._trimming.close()
        await closed("Kafka", *map(self._closed, self._consumers))
        self._thread.end()

    async def _closed(self, consumer: Consumer) -> None:
        await self._thread.call(_nothing)  # a call of a cancelled caller may still use it
        await aside(consumer.close)

    async def _call(self, function: Any, *arguments: Any) -> Any:  # noqa: ANN401
        try:
            return await self._thread.call(function, *arguments)
        except KafkaException as problem:
            raise away(problem.args[0].str()) from None


def _nothing() -> None:
    """Returns when the calls before it have."""


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The offset after the last message of a partition; -1 if there is none, or no answer in time."""
    ends = consumer.get_watermark_offsets(partition, timeout=_ASK)
    return OFFSET_BEGINNING if ends is None or ends[0] == ends[1] else int(ends[1])


def _links_in(taken: Sequence[_Opened]) -> int:
    return sum(1 if isinstance(links, Unreadable) else len(links) for _, links in taken)


def _consumer(settings: Settings) -> Consumer:
    options = {
        "group.id": settings.cluster.name,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A stored position that Kafka does not have: the topic was recreated, and all of it is new.
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": _QUEUED,
        "fetch.max.bytes": 2**20,
        "fetch.message.max.bytes": 2**20,
        # The default of one second would set the pace of a full queue.
        "fetch.queue.backoff.ms": 20,
    }
    try:
        return Consumer({**connection(settings.kafka), **options})
    except KafkaException as problem:
        raise explained(problem, settings.kafka) from None

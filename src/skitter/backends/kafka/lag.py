"""How many messages wait, by partition: for `cluster status`, and to decide whether a crawl is finished."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from msgspec import Struct

from skitter.backends.kafka.client import answers, away, explained, moving, reach
from skitter.backends.kafka.topics import link_topics, wanted
from skitter.settings.engines import KafkaSettings

HOT = 4.0  # times the mean of the other partitions …
FEW = 20  # … and more messages than this: a burst that lasts a second is not worth reporting
_TRIES, _PAUSE = 20, 0.25  # seconds


class Waiting(Struct, frozen=True):
    """The forwarded messages of one shard: by topic, the end of its partition, and how many are not stored yet."""

    shard: int
    ends: Mapping[str, int]
    behind: Mapping[str, int]

    @property
    def messages(self) -> int:
        """How many wait in total."""
        return sum(self.behind.values())


async def ends(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, list[int]]:
    """The end of every partition: the offset of the next message."""
    return await _offsets(settings, topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]


async def begins(settings: KafkaSettings, topics: Sequence[str]) -> dict[str, list[int]]:
    """The beginning of every partition: everything before it was deleted."""
    return await _offsets(settings, topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


async def used(settings: KafkaSettings) -> list[str]:
    """The topics of a crawl, existing or not, that contain messages."""
    finish = await ends(settings, [topic.name for topic in wanted(settings, 0)])
    return [topic for topic, offsets in finish.items() if any(offsets)]


async def _offsets(settings: KafkaSettings, topics: Sequence[str], which: OffsetSpec) -> dict[str, list[int]]:
    admin, there = await reach(settings)
    asked = {
        TopicPartition(topic, number): which
        for topic in topics
        if topic in there.topics
        for number in there.topics[topic].partitions
    }
    found = await _answered(admin, asked)
    offsets: dict[str, list[int]] = {topic: [] for topic in topics}
    for partition in sorted(found):
        answer = found[partition]
        if isinstance(answer, KafkaError):
            raise explained(KafkaException(answer), settings)
        offsets[partition.topic].append(answer.offset)
    return offsets


async def _answered(admin: AdminClient, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[Any, Any]:
    """The broker's answers. While a partition moves to another broker, or was only just created, it is asked again."""
    found: dict[Any, Any] = {}
    for _ in range(_TRIES):
        left = {partition: which for partition, which in asked.items() if partition not in found}
        if not left:
            break
        some = await answers(admin.list_offsets(left))
        found |= {
            key: each for key, each in some.items() if not isinstance(each, KafkaError) or not moving(each)
        }
        if len(found) < len(asked):
            await asyncio.sleep(_PAUSE)
    else:
        raise away(f"{len(asked) - len(found)} partitions have no leader")
    return found


async def waiting(settings: KafkaSettings, stored: Mapping[int, Mapping[str, str]]) -> list[Waiting]:
    """The forwarded messages of every shard, given its stored positions."""
    topics = link_topics(settings)
    finish = await ends(settings, topics)
    for topic, partitions in finish.items():
        if len(partitions) < len(stored):
            raise away(
                f"topic {topic} has {len(partitions)} of {len(stored)} partitions; run `skitter cluster init`"
            )
    start = await begins(settings, topics)
    return [
        Waiting(
            shard,
            {topic: finish[topic][shard] for topic in topics},
            {
                topic: _left(finish[topic][shard], start[topic][shard], positions.get(topic))
                for topic in topics
            },
        )
        for shard, positions in sorted(stored.items())
    ]


async def made_anew(settings: KafkaSettings, stored: Mapping[int, Mapping[str, str]]) -> list[str]:
    """Link topics that cannot be the ones whose positions are stored: they do not exist, or end before them.

    `stored` was read before, so that messages that arrive meanwhile do no harm.
    """
    topics = link_topics(settings)
    finish = await ends(settings, topics)

    def beyond(topic: str, shard: int, position: str) -> bool:
        return shard >= len(finish[topic]) or int(position) > finish[topic][shard]

    return [
        topic
        for topic in topics
        if any(
            beyond(topic, shard, positions[topic])
            for shard, positions in stored.items()
            if topic in positions
        )
    ]


def _left(end: int, start: int, stored: str | None) -> int:
    """Messages not stored yet.

    A topic that ends before the stored position was recreated, and is read from its start.
    """
    position = start if stored is None else int(stored)
    return end - (position if position <= end else start)


def hot(shards: Sequence[Waiting]) -> list[int]:
    """The shards with far more waiting messages than the others."""
    total, others = sum(each.messages for each in shards), max(len(shards) - 1, 1)
    return [each.shard for each in shards if each.messages > max(HOT * (total - each.messages) / others, FEW)]

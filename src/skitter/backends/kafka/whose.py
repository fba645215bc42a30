"""Which crawl uses these topics: every message names its crawl, so the first remaining one tells."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from skitter.backends.kafka.client import connection
from skitter.backends.kafka.consuming import messages_of
from skitter.backends.kafka.lag import begins, ends
from skitter.runtime.aside import aside, closed
from skitter.settings.engines import KafkaSettings

_PATIENCE = 10.0  # seconds for existing messages to arrive; without one the answer is unknown


async def senders(settings: KafkaSettings, group: str, topics: Sequence[str]) -> dict[str, str]:
    """By topic, the crawl that sent its first message, if there is one; empty if that was not Skitter."""
    start, end = await begins(settings, topics), await ends(settings, topics)
    first = {
        topic: TopicPartition(topic, number, begin)
        for topic in topics
        for number, (begin, finish) in reversed(list(enumerate(zip(start[topic], end[topic], strict=True))))
        if begin < finish
    }
    if not first:
        return {}
    # Nothing is committed: the group's positions stay as they are.
    consumer = Consumer({**connection(settings), "group.id": group, "enable.auto.commit": False})
    try:
        return await aside(_read, consumer, first)
    finally:
        await closed("Kafka", aside(consumer.close))


def _read(consumer: Consumer, first: dict[str, TopicPartition]) -> dict[str, str]:
    """One message of each."""
    found: dict[str, str] = {}
    deadline = time.monotonic() + _PATIENCE
    consumer.assign(list(first.values()))
    while len(found) < len(first) and time.monotonic() < deadline:
        for message in messages_of(consumer, len(first), wait=0.5):
            crawl = dict(message.headers).get("skitter-crawl", b"")
            found.setdefault(message.topic, crawl.decode("utf-8", "replace"))
    return found

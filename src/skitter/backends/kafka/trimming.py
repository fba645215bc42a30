"""Links that are stored need not be kept in Kafka: it is told now and then where each partition may begin."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from skitter.backends.kafka.client import connection
from skitter.settings.engines import KafkaSettings

EVERY = 60.0  # seconds
MESSAGES = 100_000  # … or so many messages


class Trimming:
    """Where the partitions of a process may begin, and when Kafka was last told."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = AdminClient(connection(settings))
        self._stored: dict[tuple[str, int], int] = {}
        self._trimmed: dict[tuple[str, int], int] = {}
        self._last: float | None = None

    async def passed(self, shard: int, positions: Mapping[str, str], now: float) -> None:
        """What lies before these positions is stored elsewhere."""
        for topic, position in positions.items():
            self._stored[topic, shard] = int(position)
            self._trimmed.setdefault((topic, shard), 0)
        if self._last is None:
            self._last = now
        passed = sum(offset - self._trimmed[where] for where, offset in self._stored.items())
        if passed >= MESSAGES or (passed and now - self._last >= EVERY):
            self._last = now
            await self.trim()

    async def trim(self) -> None:
        """Tell Kafka. Whether it listens does not matter now: the next time tells it more."""
        below = dict(self._stored)
        offsets = [TopicPartition(topic, shard, offset) for (topic, shard), offset in below.items()]
        if not offsets:
            return
        futures = self._admin.delete_records(offsets)
        for partition, future in futures.items():
            where = (partition.topic, partition.partition)
            with suppress(KafkaException):
                await asyncio.wrap_future(future)
                self._trimmed[where] = below[where]

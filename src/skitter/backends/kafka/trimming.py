"""Deletes stored links from Kafka, by moving the beginning of each partition now and then.

Nobody waits for that: while the brokers are away it is skipped, and the next time deletes more.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from skitter.backends.kafka.client import connection
from skitter.settings.engines import KafkaSettings

EVERY = 60.0  # seconds
MESSAGES = 100_000  # … or this many messages
_PATIENCE = 30.0  # seconds for the brokers' answer


class Trimming:
    """Where the partitions of a process may begin, and when Kafka was last told."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._admin = AdminClient(connection(settings))
        self._stored: dict[tuple[str, int], int] = {}
        self._trimmed: dict[tuple[str, int], int] = {}
        self._last: float | None = None
        self._telling: asyncio.Task[None] | None = None

    def passed(self, shard: int, positions: Mapping[str, str], now: float) -> None:
        """Everything before these positions is stored."""
        for topic, position in positions.items():
            self._stored[topic, shard] = int(position)
            self._trimmed.setdefault((topic, shard), 0)
        if self._last is None:
            self._last = now
        passed = sum(offset - self._trimmed[where] for where, offset in self._stored.items())
        due = passed >= MESSAGES or (passed > 0 and now - self._last >= EVERY)
        if due and (self._telling is None or self._telling.done()):
            self._last = now
            self._telling = asyncio.create_task(self._tell(dict(self._stored)))

    def forget(self, shard: int) -> None:
        """Another worker owns the shard and its partitions now."""
        for where in [where for where in self._stored if where[1] == shard]:
            del self._stored[where], self._trimmed[where]

    async def _tell(self, below: Mapping[tuple[str, int], int]) -> None:
        offsets = [TopicPartition(topic, shard, offset) for (topic, shard), offset in below.items()]
        for partition, future in self._admin.delete_records(offsets, request_timeout=_PATIENCE).items():
            where = (partition.topic, partition.partition)
            with suppress(KafkaException):
                await asyncio.wrap_future(future)
                if where in self._trimmed:
                    self._trimmed[where] = below[where]

    async def close(self) -> None:
        """Stop."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])

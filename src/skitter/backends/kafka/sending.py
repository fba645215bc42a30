"""Everything a process sends to Kafka, acknowledged by all in-sync replicas before `send` returns.

librdkafka batches messages into requests, repeats them and, as an idempotent producer, has the broker drop
repetitions. It reports each message to a callback that runs when somebody polls. One thread only polls; a
`send` counts its messages down there and wakes the event loop once, however many there were.

Sending is the only round trip to the brokers that somebody waits for, so their breaker is here. librdkafka
keeps trying for most of a minute before it fails; the health check notices sooner that nobody answers. Then
nothing more is handed to librdkafka, and what it has is acknowledged when the brokers are back, or fails and
is sent again.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from skitter.backends.kafka.client import away, connection, error_of, explained
from skitter.backends.kafka.topics import message_limit
from skitter.engines.breaker import Guard
from skitter.ports import Unstorable
from skitter.runtime.aside import aside, closed
from skitter.settings.engines import KafkaSettings

Headers = Sequence[tuple[str, bytes]]

_POLL = 0.1  # seconds: how long `close` may have to wait for the thread
_ROOM = 0.01  # seconds between two checks whether a full queue has room again
_QUEUED = 32 * 2**10  # kilobytes that may wait for the brokers; further senders wait
_PATIENCE = (
    45.0  # seconds until a message counts as failed: longer than a broker's restart or a change of leader
)
_TRIES = 3  # how many producers may break during one `send`
_HEALTH = 3.0  # seconds for a broker to answer a health check


class Outgoing(Struct, frozen=True, gc=False):
    """A message to send. Without a partition, the key chooses it."""

    topic: str
    value: bytes
    key: bytes | None = None
    partition: int = -1
    headers: Headers = ()


class Failure(Struct, frozen=True, gc=False):
    """A message that the brokers did not accept, with the reason."""

    message: Outgoing
    error: KafkaError


class _Round:
    """The unanswered messages of one `send`. `answered` is called by the polling thread."""

    def __init__(self, count: int) -> None:
        self.failed: list[Failure] = []
        self.done = asyncio.Event()
        self._left = count
        self._loop = asyncio.get_running_loop()

    def answered(self, message: Outgoing, error: KafkaError | None) -> None:
        if error is not None:
            self.failed.append(Failure(message, error))
        self._left -= 1
        if self._left == 0:
            self._loop.call_soon_threadsafe(self.done.set)


class Sender:
    """One producer, shared by the whole process."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.sent = 0  # messages acknowledged
        self.trips = 0  # sends: each is a wait for the brokers
        self._departure: asyncio.Future[None] | None = None
        self.guard = Guard("Kafka", self.check)
        self._closing = threading.Event()
        self._producer = self._new_producer()
        self._retired: list[Producer] = []  # some of their messages may be unanswered
        self._admin = AdminClient(connection(settings))
        self._thread = threading.Thread(target=self._poll, name="kafka-acknowledgements", daemon=True)
        self._thread.start()

    def _new_producer(self) -> Producer:
        options = {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "compression.type": "lz4",
            "message.max.bytes": message_limit(self._settings),
            "queue.buffering.max.kbytes": _QUEUED,
            "message.timeout.ms": int(_PATIENCE * 1000),
        }
        try:
            return Producer({**connection(self._settings), **options})
        except KafkaException as problem:
            raise explained(problem, self._settings) from None

    async def send(self, messages: Iterable[Outgoing]) -> None:
        """Send messages; returns when all are acknowledged.

        EngineAway if some are not: those may or may not have arrived, and the caller sends all of them again.
        Unstorable if one is larger than the brokers accept.
        """
        for failure in await self.offer(messages):
            size = len(failure.message.value)
            raise Unstorable(f"Kafka: a message of {size} bytes for {failure.message.topic} is too large")

    async def offer(self, messages: Iterable[Outgoing]) -> list[Failure]:
        """Like `send`, but returns what is too large for the brokers."""
        return await self._send(list(messages), (KafkaError.MSG_SIZE_TOO_LARGE,))

    async def _send(self, messages: list[Outgoing], forgiven: Sequence[int]) -> list[Failure]:
        if not messages:
            return []
        await self._depart()
        async with self.guard.guard():
            failed = await self._tried(messages)
            lost = [failure for failure in failed if failure.error.code() not in forgiven]
            if lost:
                raise away(f"{len(lost)} messages were not acknowledged: {lost[0].error.str()}")
        return failed

    async def check(self) -> None:
        """Health check: raises EngineAway unless a broker answers.

        Asks for the metadata of one topic, the smallest plain request: librdkafka 2.16 aborts the process if
        the answer to a DescribeCluster arrives too late.
        """
        ask = partial(self._admin.list_topics, topic=self._settings.documents, timeout=_HEALTH)
        try:
            await aside(ask)
        except KafkaException as problem:
            raise away(f"no broker answers ({error_of(problem).str()})") from None

    async def _tried(self, pending: Sequence[Outgoing]) -> list[Failure]:
        failed: list[Failure] = []
        for _ in range(_TRIES):
            if not pending:
                break
            producer = self._producer
            failed = await self._round(producer, pending)
            self.sent += len(pending) - len(failed)
            codes = {failure.error.code() for failure in failed}
            fatal = any(failure.error.fatal() for failure in failed)
            # Fatal: the brokers have forgotten the producer's sequence (they lost data, or it was away for
            # days), and it will never send again. A producer that waited in vain may have stalled (see
            # `forwarding`). A new one may repeat what the old one sent, which receivers tolerate.
            if (fatal or KafkaError._MSG_TIMED_OUT in codes) and self._producer is producer:  # noqa: SLF001
                self._retired.append(producer)
                self._producer = self._new_producer()
            if not fatal:
                break
            pending = [failure.message for failure in failed]
        return failed

    async def _depart(self) -> None:
        """Shards that settle together send in the same turn of the event loop, and their messages leave together."""
        loop = asyncio.get_running_loop()
        if self._departure is None:
            self._departure = loop.create_future()
            loop.call_soon(self._leave)
        await asyncio.wait([self._departure])

    def _leave(self) -> None:
        self.trips += 1
        if self._departure is not None:
            self._departure.set_result(None)
            self._departure = None

    async def _round(self, producer: Producer, messages: Sequence[Outgoing]) -> list[Failure]:
        waiting = deque(messages)
        current = _Round(len(waiting))
        while waiting:
            try:
                self._produce(producer, waiting[0], current)
            except BufferError:  # the queue is full: brokers are slow or away
                await asyncio.sleep(_ROOM)
                continue
            except KafkaException as problem:  # too large, or the producer is broken for good
                current.answered(waiting[0], problem.args[0])
            waiting.popleft()
        await current.done.wait()
        return current.failed

    def _produce(self, producer: Producer, message: Outgoing, current: _Round) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            current.answered(message, error)

        producer.produce(
            message.topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=delivered,
            headers=list(message.headers),
        )

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(_POLL)
            for producer in tuple(self._retired):
                producer.poll(0)
                if not len(producer):
                    self._retired.remove(producer)

    async def close(self) -> None:
        """Close. Messages whose `send` was cancelled may or may not arrive."""
        self._closing.set()
        await closed("Kafka", aside(self._end))

    def _end(self) -> None:
        self._thread.join()
        for producer in (self._producer, *self._retired):
            producer.purge()
            producer.close()

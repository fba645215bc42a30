"""Documents for the search index, and failures for whoever wants them.

A page is sent, and acknowledged, before the settlement that stores it: a crash in between sends it twice,
under the same key. An index identifies it by its URL's key, so duplicates do no harm. The reader is an
ordinary consumer group: it may lag, restart, share the partitions, and be sent back to the beginning by
resetting the group's offsets.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from msgspec import Struct
from xxhash import xxh3_128_digest

from skitter.backends.kafka.client import away, connection, explained
from skitter.backends.kafka.consuming import messages_of
from skitter.backends.kafka.messages import Found, Unreadable, bury, label, read
from skitter.backends.kafka.sending import Outgoing, Sender
from skitter.backends.kafka.topics import message_limit
from skitter.model import Page, Reason, Settlement, State
from skitter.ports import Entry
from skitter.runtime.aside import OneThread, closed
from skitter.settings import Settings
from skitter.urls import registrable_domain

PAGE = "page"
ERROR = "error"
_QUEUED = 16 * 2**10  # kilobytes fetched ahead

_encoder = msgspec.msgpack.Encoder()


class CrawlError(Struct, frozen=True, array_like=True, kw_only=True):
    """A visit without a page."""

    url: str
    key: str
    host: str
    domain: str
    reason: Reason
    status: int = 0  # of the answer, if there was one
    attempt: int = 1
    at: float = 0.0
    final: bool = True  # False: it will be retried


_entries = msgspec.msgpack.Decoder(Entry)


class Documents:
    """Sends pages and errors."""

    def __init__(self, settings: Settings, sender: Sender) -> None:
        self._settings = settings.kafka
        self._sender = sender
        self._page_label = label(settings.cluster.name, PAGE)
        self._error_label = label(settings.cluster.name, ERROR)

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """The pages of some settlements, and the errors. As `send`."""
        entries = [_entry(settlement) for settlement in settlements if settlement.page is not None]
        errors = [error for settlement in settlements if (error := _error(settlement)) is not None]
        if entries or errors:
            await self.send(entries, errors)

    async def send(self, entries: Iterable[Entry], errors: Iterable[CrawlError] = ()) -> None:
        """Returns when everything is acknowledged; EngineAway if something is not, and everything may be sent again."""
        messages = [self._entry(entry) for entry in entries]
        messages += [self._error(error) for error in errors]
        await self._sender.send(messages)

    def _entry(self, entry: Entry) -> Outgoing:
        page = msgspec.structs.replace(entry.page, text=cut(entry.page.text, self._settings.document_text))
        # Headers, titles and links are only bounded by our limits; the archive has them complete.
        shorter = msgspec.structs.replace(page, headers=(), meta=None)
        for each in (Entry(page, entry.links), Entry(shorter, ()), Entry(bare(page), ())):
            value = _encoder.encode(each)
            if len(value) <= self._limit():
                break
        return Outgoing(self._settings.documents, value, document_key(page), headers=self._page_label)

    def _limit(self) -> int:
        return message_limit(self._settings) - 4096  # key, headers and framing

    def _error(self, error: CrawlError) -> Outgoing:
        value = _encoder.encode(error)
        return Outgoing(self._settings.errors, value, error.domain.encode(), headers=self._error_label)


def _entry(settlement: Settlement) -> Entry:
    """A page with its text and all its links, wanted or not."""
    if settlement.page is None:
        raise AssertionError(settlement)
    refused = (link for link, _ in settlement.refused)
    return Entry(settlement.page, [link.url for link in chain(settlement.links, refused)])


def _error(settlement: Settlement) -> CrawlError | None:
    verdict, link = settlement.verdict, settlement.visit.link
    retry = verdict.state is State.QUEUED and verdict.due is not None and verdict.attempted
    if verdict.reason is None or not (retry or verdict.state is State.FAILED):
        return None
    return CrawlError(
        url=link.url,
        key=link.key,
        host=link.host,
        domain=registrable_domain(link.host),
        reason=verdict.reason,
        status=settlement.status,
        attempt=settlement.visit.attempt,
        at=settlement.exchange.ended if settlement.exchange else settlement.visit.leased_at,
        final=not retry,
    )


def document_key(page: Page) -> bytes:
    """The hash of a URL's key, in hexadecimal: the message key that keeps versions of a page in order."""
    return xxh3_128_digest(page.key.encode("utf-8", "surrogatepass")).hex().encode()


def cut(text: str, limit: int) -> str:
    """At most this many bytes of UTF-8, without splitting a character."""
    if len(text) * 4 <= limit:
        return text
    packed = text.encode("utf-8", "surrogatepass")
    return text if len(packed) <= limit else packed[:limit].decode("utf-8", "ignore")


def bare(page: Page) -> Page:
    """A page without the parts that a server may have made very long."""
    return msgspec.structs.replace(
        page,
        text="",
        headers=(),
        meta=None,
        title="",
        description="",
        author="",
        keywords="",
        canonical="",
        alternates=None,
        media=None,
        content=None,
    )


class DocumentReader:
    """Reads pages as a member of a consumer group, and commits when told."""

    def __init__(self, settings: Settings, sender: Sender, group: str = "index") -> None:
        self._settings = settings
        self._sender = sender
        self._consumer = _consumer(settings, f"{settings.cluster.name}-{group}")
        self._thread = OneThread("kafka-documents")
        self._read: dict[tuple[str, int], int] = {}
        self._found: Sequence[Found] = ()  # set until unreadable messages are safe in the dead-letter topic

    async def batch(self, limit: int, wait: float = 1.0) -> list[Entry]:
        """The next pages, at most `limit`; fewer, or none, if no more arrived within some seconds.

        Unreadable messages are in the dead-letter topic when this returns.
        """
        self._found = self._found or await self._call(messages_of, self._consumer, limit, wait)
        entries: list[Entry] = []
        unreadable: list[Unreadable] = []
        for message in self._found:
            self._read[message.topic, message.partition] = message.offset + 1
            entry = read(message, self._settings.cluster.name, PAGE, _entries)
            if isinstance(entry, Unreadable):
                unreadable.append(entry)
            else:
                entries.append(entry)
        if unreadable:
            await bury(self._sender, self._settings.kafka.dead_letters, unreadable)
        self._found = ()
        return entries

    async def done(self) -> bool:
        """Commit everything read so far. False if another reader has the partitions now, and reads it again.

        EngineAway if the brokers could not be told; it may be repeated.
        """
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in self._read.items()]
        if not offsets:
            return True
        async with self._sender.guard.guard():
            ours = bool(await self._call(self._commit, offsets))
        self._read.clear()
        return ours

    def _commit(self, offsets: Sequence[TopicPartition]) -> bool:
        try:
            self._consumer.commit(offsets=list(offsets), asynchronous=False)
        except KafkaException as problem:
            if problem.args[0].code() in _MOVED:
                return False
            raise
        return True

    async def close(self) -> None:
        """Leave the group; uncommitted messages are read again by the next reader."""
        closing = self._thread.call(self._consumer.close)
        await closed("Kafka", closing)
        self._thread.end()

    async def _call(self, function: Any, *arguments: Any) -> Any:  # noqa: ANN401
        try:
            return await self._thread.call(function, *arguments)
        except KafkaException as problem:
            raise away(problem.args[0].str()) from None


# The group has assigned our partitions to others.
_MOVED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
    KafkaError._STATE,  # noqa: SLF001
}


def _consumer(settings: Settings, group: str) -> Consumer:
    options = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "cooperative-sticky",
        "queued.max.messages.kbytes": _QUEUED,
        "fetch.max.bytes": 4 * 2**20,
        "fetch.message.max.bytes": 2**20,
        "fetch.queue.backoff.ms": 20,
    }
    try:
        consumer = Consumer({**connection(settings.kafka), **options})
    except KafkaException as problem:
        raise explained(problem, settings.kafka) from None
    consumer.subscribe([settings.kafka.documents])
    return consumer

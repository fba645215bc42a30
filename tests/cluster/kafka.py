"""Separate topics for every test, on the real broker."""

import dataclasses
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.forwarding import Inbox, KafkaForwarding
from skitter.backends.kafka.packing import owner
from skitter.backends.kafka.sending import Sender
from skitter.cluster.ports import Delivery
from skitter.model import Hints, Level, Link
from skitter.settings import Settings
from skitter.settings.engines import ClusterSettings, KafkaSettings
from tests.engines import Engine

SHARDS = 4
PATIENCE = 300.0  # seconds: a bound, not a promise; a broker that was frozen for long needs some until it leads again


def settings_for(address: str, **changes) -> Settings:
    """A crawl that nobody else has a part in."""
    crawl = f"test-{uuid.uuid4().hex[:12]}"
    names = ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
    own = {name: f"{crawl}-{name}" for name in names}
    kafka = KafkaSettings(
        **{"addresses": (address,), "documents_partitions": 2, "errors_partitions": 2, **own, **changes}
    )
    return Settings(cluster=ClusterSettings(size="full", name=crawl), kafka=kafka)


@contextmanager
def crawl_on(kafka: Engine, **changes) -> Iterator[Settings]:
    """The settings of a crawl whose topics go with the test: a broker that dies looks at every partition it has."""
    settings = settings_for(kafka.address, **changes)
    try:
        yield settings
    finally:
        delete_topics(kafka.address, settings.cluster.name)


def delete_topics(address: str, prefix: str) -> None:
    """Delete the topics of a test; a broker that was frozen leads again only after a while, which a new client notices first."""
    deadline = time.monotonic() + PATIENCE
    while True:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        try:
            mine = [name for name in admin.list_topics(timeout=20).topics if name.startswith(prefix)]
            for future in admin.delete_topics(mine, request_timeout=20).values() if mine else ():
                future.result(30)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        else:
            return


def altered(settings: Settings, **changes) -> Settings:
    return structs.replace(settings, kafka=structs.replace(settings.kafka, **changes))


@dataclasses.dataclass
class BothEnds:
    """Both ends of forwarding."""

    settings: Settings
    sender: Sender
    forwarding: KafkaForwarding
    inbox: Inbox

    async def send(self, links: Sequence[Link]) -> None:
        by_shard: dict[int, list[Link]] = {}
        for link in links:
            by_shard.setdefault(owner(link, SHARDS), []).append(link)
        await self.forwarding.send(by_shard)

    async def receive_all(self, count: int, limit: int = 1000) -> list[Delivery]:
        """Receive until so many links are there; a look that finds nothing ends it."""
        deliveries: list[Delivery] = []
        while sum(len(each.links) for each in deliveries) < count:
            some = await self.inbox.receive(limit, wait=20)
            assert some, f"only {sum(len(each.links) for each in deliveries)} of {count} links came"
            deliveries += some
        return deliveries


@asynccontextmanager
async def both_ends(settings: Settings, *, own: bool = True) -> AsyncIterator[BothEnds]:
    """Sender and receiver of all shards, from the beginning."""
    await topics.create(settings.kafka, SHARDS)
    sender = Sender(settings.kafka)
    inbox = Inbox(settings, SHARDS, sender)
    try:
        for shard in range(SHARDS) if own else ():
            await inbox.own(shard, {})
        yield BothEnds(settings, sender, KafkaForwarding(settings, sender), inbox)
    finally:
        await inbox.close()
        await sender.close()


def link(number: int, level: Level = Level.NORMAL, host: str = "") -> Link:
    host = host or f"h{number % 50}.example"
    url = f"http://{host}/page/{number}"
    hints = Hints(lastmod=1.5, priority=0.5, rel=("next",)) if number % 10 == 0 else None
    return Link(url=url, key=url, host=host, level=level, depth=3, parent=f"http://{host}/", hints=hints)


def everything(settings: Settings, topic: str, partitions: int) -> list[Message]:
    """All messages of a topic now, by a plain consumer that knows nothing of Skitter."""
    consumer = Consumer(
        {"bootstrap.servers": settings.kafka.addresses[0], "group.id": "look", "enable.auto.commit": False}
    )
    messages: list[Message] = []
    for number in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
        consumer.assign([TopicPartition(topic, number, low)])
        while low < high:  # no transactions, so no offset is left out
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            messages.append(message)
            low += 1
    consumer.close()
    return messages

"""Links as messages: the links of one shard and urgency together."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from skitter import urls
from skitter.backends.kafka.messages import label
from skitter.backends.kafka.sending import Outgoing
from skitter.backends.kafka.topics import link_topics
from skitter.model import Level, Link
from skitter.settings.engines import KafkaSettings

KIND = "links"
MANY = 500  # links per message: about 100 kB, and receivers bound their memory in messages
_LARGE = 512 * 2**10  # bytes: a larger message is split, as long as it has several links

_encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(list[Link])

# critical and high; normal; low and background
_URGENCY: Mapping[Level, int] = {
    Level.CRITICAL: 0,
    Level.HIGH: 0,
    Level.NORMAL: 1,
    Level.LOW: 2,
    Level.BACKGROUND: 2,
}


def owner(link: Link, shards: int) -> int:
    """The shard of a link's host."""
    return urls.shard(urls.registrable_domain(link.host), shards) if shards > 1 else 0


def link_messages(
    settings: KafkaSettings, crawl: str, by_shard: Mapping[int, Sequence[Link]]
) -> Iterator[Outgoing]:
    """The messages that forward links to their shards. Within a shard and an urgency, order is kept."""
    topics = link_topics(settings)
    headers = label(crawl, KIND)
    for shard, links in by_shard.items():
        urgencies: dict[int, list[Link]] = defaultdict(list)
        for link in links:
            urgencies[_URGENCY[link.level]].append(link)
        for urgency, some in sorted(urgencies.items()):
            for value in _packed(some):
                yield Outgoing(topics[urgency], value, partition=shard, headers=headers)


def _packed(links: Sequence[Link]) -> Iterator[bytes]:
    for start in range(0, len(links), MANY):
        yield from _small(links[start : start + MANY])


def _small(links: Sequence[Link]) -> Iterator[bytes]:
    value = _encoder.encode(links)
    if len(value) <= _LARGE or len(links) == 1:
        yield value
        return
    middle = len(links) // 2
    yield from _small(links[:middle])
    yield from _small(links[middle:])

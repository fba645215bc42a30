"""The topics of a cluster, and how they must be configured.

A shard is a partition: the three link topics have one partition per shard, and the producer names it. Waiting
links are never deleted by time or size; they are deleted below the offset that is stored with them (`forwarding`).
A topic that would lose links, or has another number of partitions, is refused before any crawling.

Documents, errors and dead letters have their own numbers of partitions and retention. An existing topic with
other numbers works too, so it is left as it is, and `differences` says what to do.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from msgspec import Struct

from skitter.backends.kafka.client import answers, away, explained, reach, unfit
from skitter.ports import EngineError
from skitter.settings.engines import KafkaSettings

# Room for a page's record, headers and links besides its text, and for a robots.txt of half a megabyte (RFC
# 9309 2.5).
_BESIDE_TEXT = 2 * 2**20
_LOOK = 10.0  # seconds for one check whether a new topic exists
# Seconds until all new partitions should have a leader: one busy broker created 150 of them a second.
_APPEAR, _APPEAR_EACH = 30.0, 0.03
# Pages and errors can be restored from the archive and PostgreSQL; forwarded links cannot.
_FOR_EVER: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
_RETENTION = "retention.ms"


class Topic(Struct, frozen=True):
    """The target configuration of a topic.

    `setting` names it; `must` is enforced, `config` is only used when we create it.
    """

    name: str
    setting: str
    partitions: int
    config: Mapping[str, str]
    must: Mapping[str, str] = {}


def link_topics(settings: KafkaSettings) -> tuple[str, str, str]:
    """The link topics, the most urgent first."""
    return settings.links_high, settings.links_medium, settings.links_low


def message_limit(settings: KafkaSettings) -> int:
    """The largest message that we send."""
    return _BESIDE_TEXT + settings.document_text


def wanted(settings: KafkaSettings, shards: int) -> list[Topic]:
    """All topics of a cluster with this many shards."""
    common = {
        "max.message.bytes": str(message_limit(settings)),
        # acks=all means the in-sync replicas: with three, two must have it.
        "min.insync.replicas": str(max(1, settings.replication - 1)),
    }
    names = ("kafka.links_high", "kafka.links_medium", "kafka.links_low")
    links = [
        Topic(topic, name, shards, {**common, **_FOR_EVER}, _FOR_EVER)
        for topic, name in zip(link_topics(settings), names, strict=True)
    ]
    others = [
        (settings.documents, "documents", settings.documents_partitions, settings.documents_retention),
        (settings.errors, "errors", settings.errors_partitions, settings.errors_retention),
        # Dead letters are few and should stay in order.
        (settings.dead_letters, "dead_letters", 1, settings.dead_letters_retention),
    ]
    return links + [
        Topic(topic, f"kafka.{name}", partitions, {**common, **_kept(retention)})
        for topic, name, partitions, retention in others
    ]


def _kept(retention: float) -> dict[str, str]:
    """Messages expire by age, or never: by size, the oldest would go when there is most to read."""
    return {**_FOR_EVER, _RETENTION: str(int(retention * 1000)) if retention else "-1"}


async def look(settings: KafkaSettings, shards: int) -> None:
    """EngineError if existing topics cannot be used, or missing ones cannot be created. Nothing is changed."""
    topics = distinct(wanted(settings, shards))
    admin, there = await reach(settings)
    _check_partitions([topic for topic in topics if topic.name in there.topics], there)
    missing = [topic for topic in topics if topic.name not in there.topics]
    if missing:
        await _make(admin, settings, missing, only_look=True)


async def create(settings: KafkaSettings, shards: int) -> list[str]:
    """Create the missing topics, and fix those that would lose links; returns the new ones. May be repeated."""
    topics = distinct(wanted(settings, shards))
    admin, there = await reach(settings)
    missing = [topic for topic in topics if topic.name not in there.topics]
    _check_partitions([topic for topic in topics if topic.name in there.topics], there)
    if missing:
        await _make(admin, settings, missing)
    for topic, wrong in await _wrong(admin, settings, [topic for topic in topics if topic not in missing]):
        await _mend(admin, settings, topic, wrong)
    return [topic.name for topic in missing]


async def remove(settings: KafkaSettings) -> list[str]:
    """Delete the existing topics with everything in them; returns which."""
    admin, there = await reach(settings)
    topics = {topic.name: topic for topic in wanted(settings, 0) if topic.name in there.topics}
    found = await answers(admin.delete_topics(list(topics), operation_timeout=_LOOK)) if topics else {}
    for name, error in found.items():
        if isinstance(error, KafkaError) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _refusal(error, topics[name], settings)
    return list(topics)


async def check(settings: KafkaSettings, shards: int) -> None:
    """EngineError unless every topic exists and is configured correctly."""
    topics = distinct(wanted(settings, shards))
    admin, there = await reach(settings)
    for topic in topics:
        if topic.name not in there.topics:
            raise unfit(topic.setting, f"there is no topic {topic.name}; run `skitter cluster init`")
    _check_partitions(topics, there)
    for topic, wrong in await _wrong(admin, settings, topics):
        name, value = next(iter(wrong.items()))
        raise unfit(
            topic.setting,
            f"topic {topic.name} has {name}={value} and would lose waiting links; run `skitter cluster init`, which sets it"
            f" to {topic.must[name]}",
        )


async def differences(settings: KafkaSettings, shards: int) -> list[str]:
    """How topics of documents, errors and dead letters differ from the settings, and what to do; one line each."""
    admin, there = await reach(settings)
    topics = [topic for topic in wanted(settings, shards) if not topic.must and topic.name in there.topics]
    configs = await _configs(admin, settings, topics)
    lines = []
    for topic in topics:
        count = len(there.topics[topic.name].partitions)
        if count != topic.partitions:
            lines.append(_other_partitions(topic, count))
        if configs[topic.name][_RETENTION] != topic.config[_RETENTION]:
            lines.append(_other_retention(topic, configs[topic.name][_RETENTION]))
    return lines


def _other_partitions(topic: Topic, count: int) -> str:
    setting = f"{topic.setting}_partitions"
    if topic.setting == "kafka.dead_letters":  # there is no setting for it: order matters more than speed
        return (
            f"Kafka: topic {topic.name} has {count} partitions, so its messages are in no order; 1 is enough"
        )
    what = f"Kafka: topic {topic.name} has {count} partitions, not {topic.partitions}, and is used as it is"
    if count > topic.partitions:
        return f"{what}; Kafka takes none away: set {setting} to {count}, or name another topic"
    command = f"kafka-topics.sh --alter --topic {topic.name} --partitions {topic.partitions}"
    return f"{what}; set {setting} to {count}, or add some: {command}"


def _other_retention(topic: Topic, value: str) -> str:
    setting, wish = f"{topic.setting}_retention", f"{_RETENTION}={topic.config[_RETENTION]}"
    command = f"kafka-configs.sh --alter --entity-type topics --entity-name {topic.name} --add-config {wish}"
    same = "0" if value == "-1" else f"{value}ms"
    return (
        f"Kafka: topic {topic.name} has {_RETENTION}={value}, not {topic.config[_RETENTION]}, and is used as it is; "
        f'set {setting} to "{same}", or change the topic: {command}'
    )


def distinct(topics: Sequence[Topic]) -> Sequence[Topic]:
    """The topics, if no two settings name the same one."""
    seen: dict[str, str] = {}
    for topic in topics:
        if topic.name in seen:
            raise unfit(
                topic.setting,
                f"{topic.name} is the topic of {seen[topic.name]} too; give each its own",
            )
        seen[topic.name] = topic.setting
    return topics


def _check_partitions(topics: Sequence[Topic], there: ClusterMetadata) -> None:
    """A link topic needs exactly one partition per shard; for others the number is the operator's choice."""
    for topic in topics:
        count = len(there.topics[topic.name].partitions)
        if topic.must and count != topic.partitions:
            raise unfit(
                topic.setting,
                f"topic {topic.name} has {count} partitions, but the crawl has {topic.partitions} shards; name another topic,"
                f" or delete this one once it is empty and run `skitter cluster init`",
            )


async def _make(
    admin: AdminClient, settings: KafkaSettings, topics: Sequence[Topic], *, only_look: bool = False
) -> None:
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=settings.replication,
            config=dict(topic.config),
        )
        for topic in topics
    ]
    # One request each: Kafka accepts at most 10,000 partitions in one.
    asked = [admin.create_topics([one], validate_only=only_look) for one in new]
    found = await answers({name: future for each in asked for name, future in each.items()})
    for topic in topics:
        error = found[topic.name]
        # Another `cluster init` may have been faster.
        if isinstance(error, KafkaError) and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _refusal(error, topic, settings)
    if not only_look:
        await _appear(admin, topics)


async def _appear(admin: AdminClient, topics: Sequence[Topic]) -> None:
    """The controller has created the topics; a broker knows them, with a leader for each partition, a moment later."""
    names, wait = [topic.name for topic in topics], 0.1
    deadline = time.monotonic() + _APPEAR + _APPEAR_EACH * sum(topic.partitions for topic in topics)
    while time.monotonic() < deadline:
        there = (await asyncio.to_thread(admin.list_topics, timeout=_LOOK)).topics
        partitions = [part for name in names if name in there for part in there[name].partitions.values()]
        if all(name in there for name in names) and all(part.leader >= 0 for part in partitions):
            return
        await asyncio.sleep(wait)
        wait = min(1.0, wait * 1.5)
    raise away(f"the topics {', '.join(names)} were made and do not appear")


def _refusal(error: KafkaError, topic: Topic, settings: KafkaSettings) -> EngineError:
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        return unfit("kafka.replication", f"{error.str()}; there cannot be more copies than brokers")
    if error.code() in (
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_DELETION_DISABLED,
    ):
        return unfit(topic.setting, f"topic {topic.name} cannot be made or removed: {error.str()}")
    return explained(KafkaException(error), settings)


async def _wrong(
    admin: AdminClient, settings: KafkaSettings, topics: Sequence[Topic]
) -> list[tuple[Topic, dict[str, str]]]:
    """Topics with a wrong configuration, and their current one."""
    strict = [topic for topic in topics if topic.must]
    configs = await _configs(admin, settings, strict)
    wrong = []
    for topic in strict:
        config = configs[topic.name]
        different = {name: config[name] for name, value in topic.must.items() if config[name] != value}
        if different:
            wrong.append((topic, different))
    return wrong


async def _configs(
    admin: AdminClient, settings: KafkaSettings, topics: Sequence[Topic]
) -> dict[str, dict[str, str]]:
    """The configuration of existing topics, by name."""
    resources = {ConfigResource(ResourceType.TOPIC, topic.name): topic.name for topic in topics}
    found = await answers(admin.describe_configs(list(resources))) if resources else {}
    configs = {}
    for resource, name in resources.items():
        entries = found[resource]
        if isinstance(entries, KafkaError):
            raise explained(KafkaException(entries), settings)
        configs[name] = {entry: str(found.value) for entry, found in entries.items()}
    return configs


async def _mend(admin: AdminClient, settings: KafkaSettings, topic: Topic, wrong: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, topic.must[name], incremental_operation=AlterConfigOpType.SET) for name in wrong
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
    for error in (await answers(admin.incremental_alter_configs([resource]))).values():
        if isinstance(error, KafkaError):
            raise explained(KafkaException(error), settings)

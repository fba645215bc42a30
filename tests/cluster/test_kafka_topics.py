"""The topics of a cluster are created once, and refused if they are not configured correctly."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from skitter.backends.kafka import topics
from skitter.backends.kafka.client import reach
from skitter.ports import EngineError
from skitter.settings import Settings
from skitter.settings.engines import KafkaSettings
from tests.cluster.kafka import SHARDS, altered, crawl_on, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with crawl_on(engine("kafka")) as settings:
        yield settings


def make(settings: Settings, name: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.kafka.addresses[0], "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
        future.result(20)
    while name not in admin.list_topics(timeout=20).topics:  # brokers learn of it a moment later
        time.sleep(0.05)


def refusal(settings: Settings, shards: int = SHARDS) -> str:
    with pytest.raises(EngineError) as caught:
        asyncio.run(topics.check(settings.kafka, shards))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_creating_is_safe_to_repeat_and_enough_to_start(settings):
    made = asyncio.run(topics.create(settings.kafka, SHARDS))
    assert len(made) == 6
    assert asyncio.run(topics.create(settings.kafka, SHARDS)) == []
    asyncio.run(topics.check(settings.kafka, SHARDS))


def test_two_that_create_at_once_both_succeed(settings):
    async def both():
        await asyncio.gather(*(topics.create(settings.kafka, SHARDS) for _ in range(2)))
        await topics.check(settings.kafka, SHARDS)

    asyncio.run(both())


def test_a_missing_topic_is_named_with_its_setting_and_the_fix(settings):
    said = refusal(settings)
    assert said.startswith("Kafka: kafka.links_high: ")
    assert settings.kafka.links_high in said
    assert "skitter cluster init" in said


def test_another_number_of_partitions_than_shards_is_refused_by_both(settings):
    asyncio.run(topics.create(settings.kafka, SHARDS))
    assert f"{SHARDS} partitions, but the crawl has 8 shards" in refusal(settings, shards=8)
    with pytest.raises(EngineError, match="8 shards"):
        asyncio.run(topics.create(settings.kafka, 8))


def test_a_topic_that_would_forget_links_is_refused_and_mended(settings):
    make(settings, settings.kafka.links_low, SHARDS, **{"retention.ms": "60000"})
    for name in (settings.kafka.links_high, settings.kafka.links_medium):
        make(settings, name, SHARDS, **{"retention.ms": "-1", "retention.bytes": "-1"})
    for name in (settings.kafka.documents, settings.kafka.errors, settings.kafka.dead_letters):
        make(settings, name, 1)
    said = refusal(settings)
    assert said.startswith("Kafka: kafka.links_low: ")
    assert "retention.ms=60000" in said
    asyncio.run(topics.create(settings.kafka, SHARDS))
    asyncio.run(topics.check(settings.kafka, SHARDS))


def configs(settings: Settings, name: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": settings.kafka.addresses[0], "log_level": 0})
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    return {key: entry.value for key, entry in future.result(20).items()}


def test_documents_and_errors_have_numbers_and_ages_of_their_own_and_links_have_no_age(settings):
    fresh = KafkaSettings()
    own = altered(
        settings,
        documents_partitions=fresh.documents_partitions,
        errors_partitions=fresh.errors_partitions,
        errors_retention=3600.0,
    )
    asyncio.run(topics.create(own.kafka, SHARDS))
    _, there = asyncio.run(reach(own.kafka))
    assert len(there.topics[own.kafka.documents].partitions) == 10
    assert len(there.topics[own.kafka.errors].partitions) == 5
    assert configs(own, own.kafka.documents)["retention.ms"] == str(7 * 86400 * 1000)
    assert configs(own, own.kafka.errors)["retention.ms"] == "3600000"
    for name in (*topics.link_topics(own.kafka), own.kafka.dead_letters):
        assert configs(own, name)["retention.ms"] == "-1"
        assert configs(own, name)["retention.bytes"] == "-1"
    assert asyncio.run(topics.differences(own.kafka, SHARDS)) == []


def test_topics_with_other_numbers_are_used_with_advice(settings):
    asyncio.run(topics.create(settings.kafka, SHARDS))
    now = altered(settings, documents_partitions=3, errors_partitions=1, documents_retention=60.0)
    assert asyncio.run(topics.create(now.kafka, SHARDS)) == []
    asyncio.run(topics.check(now.kafka, SHARDS))
    fewer, age, more = asyncio.run(topics.differences(now.kafka, SHARDS))
    assert f"topic {now.kafka.documents} has 2 partitions, not 3, and is used as it is" in fewer
    assert "set kafka.documents_partitions to 2, or add some: kafka-topics.sh --alter --topic" in fewer
    assert "has retention.ms=604800000, not 60000" in age
    assert 'set kafka.documents_retention to "604800000ms", or change the topic: kafka-configs.sh' in age
    assert "has 2 partitions, not 1" in more
    assert "Kafka takes none away: set kafka.errors_partitions to 2, or name another topic" in more
    # What is said to do is right: with these settings nothing differs.
    same = altered(now, documents_partitions=2, errors_partitions=2, documents_retention=604800.0)
    assert asyncio.run(topics.differences(same.kafka, SHARDS)) == []


def test_more_copies_than_brokers_are_refused(settings):
    with pytest.raises(EngineError, match=r"kafka\.replication"):
        asyncio.run(topics.create(altered(settings, replication=9).kafka, SHARDS))


def test_two_settings_with_one_topic_are_refused(settings):
    same = altered(settings, errors=settings.kafka.documents)
    with pytest.raises(EngineError, match=r"kafka\.errors: .* is the topic of kafka\.documents too"):
        asyncio.run(topics.create(same.kafka, SHARDS))


def test_a_wrong_address_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr("skitter.backends.kafka.client._FIRST_CONTACT", 2.0)
    said = refusal(settings_for("127.0.0.1:9"))
    assert said.startswith("Kafka: kafka.addresses: ")
    assert "no broker answers at 127.0.0.1:9" in said


def test_tls_to_a_plain_broker_is_reported_in_one_line(settings, monkeypatch):
    monkeypatch.setattr("skitter.backends.kafka.client._FIRST_CONTACT", 3.0)
    assert refusal(altered(settings, tls=True)).startswith(("Kafka: kafka.tls: ", "Kafka: kafka.addresses: "))


def test_an_unknown_mechanism_is_reported_in_one_line(settings):
    said = refusal(altered(settings, mechanism="MAGIC", username="me"))
    assert said.startswith("Kafka: kafka.mechanism: ")

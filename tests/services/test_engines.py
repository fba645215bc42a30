"""The engines started by `make services` are real: they answer, freeze, and survive a kill."""

import asyncio
import json
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import asyncpg
import obstore
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from obstore.store import S3Store
from scripts.engines.engine import get

from tests.engines import (
    Engine,
    engine,
    engines,
    freeze,
    frozen,
    kill,
    killed,
    make_bucket,
    our_engine,
    restart,
    start,
    thaw,
)


async def ask_postgres(address: str, *statements: str) -> Any:
    connection = await asyncpg.connect(address)
    try:
        return [await connection.fetchval(statement) for statement in statements][-1]
    finally:
        await connection.close()


def postgres_keeps(server: Engine) -> Callable[[], bytes]:
    table = f"kept_{uuid.uuid4().hex}"
    asyncio.run(ask_postgres(server.address, f"CREATE TABLE {table} AS SELECT 'kept'::bytea AS value"))
    return lambda: asyncio.run(ask_postgres(server.address, f"SELECT value FROM {table}"))


def redis_keeps(server: Engine) -> Callable[[], bytes]:
    key = uuid.uuid4().hex

    def read() -> Any:
        with redis.Redis.from_url(server.address) as client:
            return client.get(key)

    with redis.Redis.from_url(server.address) as client:
        client.set(key, b"kept")
    return read


def make_topic(server: Engine) -> str:
    topic = f"kept-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": server.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    return topic


def kafka_keeps(server: Engine) -> Callable[[], bytes]:
    topic = make_topic(server)
    producer = Producer({"bootstrap.servers": server.address, "acks": "all"})
    producer.produce(topic, b"kept")
    assert producer.flush(60) == 0

    def read() -> Any:
        consumer = Consumer({"bootstrap.servers": server.address, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(60)
        consumer.close()
        return message and message.value()

    return read


def s3_store(server: Engine, bucket: str, **different: str) -> S3Store:
    keys = {name.lower(): value for name, value in server.settings.items()} | different
    return S3Store(
        bucket, endpoint=server.address, region=keys["region"], access_key_id=keys["access_key"],
        secret_access_key=keys["secret_key"], client_options={"allow_http": True},
    )  # fmt: skip


def s3_keeps(server: Engine) -> Callable[[], bytes]:
    bucket = f"kept-{uuid.uuid4().hex}"
    make_bucket(server, bucket)
    store = s3_store(server, bucket)
    obstore.put(store, "a/b", b"kept")
    return lambda: bytes(obstore.get(store, "a/b").bytes())


def opensearch_keeps(server: Engine) -> Callable[[], bytes]:
    url = f"{server.address}/kept-{uuid.uuid4().hex}/_doc/1"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, b'{"value": "kept"}', headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    return lambda: str(json.loads(get(url)[1])["_source"]["value"]).encode()


class Keeping(NamedTuple):
    name: str
    write: Callable[[Engine], Callable[[], bytes]]  # writes something, returns how to read it again


QUICK = [Keeping("postgres", postgres_keeps), Keeping("redis", redis_keeps), Keeping("s3", s3_keeps)]
SLOW = [Keeping("kafka", kafka_keeps), Keeping("opensearch", opensearch_keeps)]  # to start, not to answer
KILLED = [*QUICK, *(pytest.param(each, marks=pytest.mark.soak) for each in SLOW)]


@pytest.mark.parametrize("keeping", [*QUICK, *SLOW], ids=lambda keeping: keeping.name)
def test_an_engine_answers_its_own_client(keeping):
    assert keeping.write(engine(keeping.name))() == b"kept"


@pytest.mark.parametrize("keeping", KILLED, ids=lambda keeping: keeping.name)
def test_acknowledged_writes_survive_kill_9(keeping):
    server = our_engine(keeping.name)
    read, before = keeping.write(server), server.pid
    with killed(keeping.name):
        assert keeping.name not in engines()
    assert engine(keeping.name).address == server.address
    assert server.pid != before
    assert read() == b"kept"


def test_opensearch_is_the_engine_and_not_a_double():
    status, body = get(engine("opensearch").address)
    assert status == 200
    assert json.loads(body)["version"]["distribution"] == "opensearch"


def test_s3_checks_signatures_and_conditions():
    server = engine("s3")
    status, body = get(server.address)
    assert (status, b"AccessDenied" in body) == (403, True)
    bucket = f"strict-{uuid.uuid4().hex}"
    make_bucket(server, bucket)
    obstore.put(s3_store(server, bucket), "a", b"1", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(s3_store(server, bucket), "a", b"2", mode="create")
    with pytest.raises(obstore.exceptions.PermissionDeniedError):
        obstore.get(s3_store(server, bucket, secret_key="wrong"), "a")


def test_kafka_does_not_create_topics_automatically():
    admin = AdminClient({"bootstrap.servers": engine("kafka").address})
    topic = make_topic(engine("kafka"))
    absent = f"absent-{uuid.uuid4().hex}"
    admin.list_topics(absent, timeout=60)
    topics = admin.list_topics(timeout=60).topics
    assert topic in topics
    assert absent not in topics
    admin.delete_topics([topic])[topic].result(60)


def test_a_frozen_postgres_leaves_even_the_connected_without_an_answer():
    server = our_engine("postgres")

    async def ask() -> int:
        connection = await asyncpg.connect(server.address)
        with frozen("postgres"):
            waiting = asyncio.ensure_future(connection.fetchval("SELECT 42"))
            await asyncio.wait([waiting], timeout=0.5)
            assert not waiting.done()
        answer = await waiting
        await connection.close()
        return int(answer)

    assert asyncio.run(ask()) == 42


def test_a_restarted_engine_has_its_address_and_its_data():
    server = our_engine("redis")
    read = redis_keeps(server)
    restart("redis")
    assert engine("redis").address == server.address
    assert read() == b"kept"


def test_starting_a_frozen_engine_only_thaws_it():
    server = our_engine("redis")
    before = server.pid
    freeze("redis")
    try:
        start("redis")
        assert server.pid == before
    finally:
        thaw("redis")


def test_killing_a_dead_engine_is_an_error():
    our_engine("redis")
    with killed("redis"), pytest.raises(AssertionError, match="redis is not running"):
        kill("redis")

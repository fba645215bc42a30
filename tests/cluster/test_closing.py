"""A clean stop ends in bounded time, whatever the engines do: what cannot be closed or handed over is said, and left."""

import asyncio
import logging
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from skitter.backends.kafka import topics
from skitter.backends.kafka.documents import DocumentReader, Documents
from skitter.backends.kafka.sending import Sender
from skitter.backends.postgres.migrate import connected, migrate
from skitter.backends.redis.client import Client
from skitter.engines.retry import patiently
from skitter.settings import Settings
from skitter.testing.contracts.search import entry
from skitter.testing.web import SyntheticWeb, serve_process
from tests.cluster import postgres, redis
from tests.cluster.archiving import archiving, until
from tests.cluster.crawling import PATIENCE, QUICK
from tests.cluster.kafka import SHARDS, both_ends, crawl_on, link
from tests.cluster.postgres import pool_of, schema
from tests.cluster.test_chaos import running, small_web
from tests.cluster.test_staying_up import feeding, indexed, indexing, send_pages  # noqa: F401  a fixture
from tests.engines import frozen, killed, our_engine

# Seconds. Each client of an engine has 10; without that, librdkafka waited for a frozen broker for more than 90, and
# `skitter index` for a frozen OpenSearch for 60.
BOUND = 50.0
TROUBLE = pytest.mark.parametrize("trouble", [frozen, pytest.param(killed, marks=pytest.mark.soak)])


@pytest.fixture
def settings() -> Iterator[Settings]:
    with crawl_on(our_engine("kafka")) as settings:
        yield settings


async def seconds(closing) -> float:
    began = time.monotonic()
    await closing
    return time.monotonic() - began


# ------------------------------------------------------------------------------------------------ clients


@TROUBLE
def test_links_through_kafka_are_closed_while_its_broker_does_not_answer(settings, trouble, caplog):
    """Not even to the last commits and messages: librdkafka would wait for that."""

    async def scenario() -> float:
        async with AsyncExitStack() as stack:
            both = await stack.enter_async_context(both_ends(settings))
            await both.send([link(number) for number in range(100)])
            deliveries = await both.receive_all(100)
            with trouble("kafka"):
                for each in deliveries:
                    await both.inbox.stored(each.shard, each.positions, time.time())
                sending = asyncio.create_task(both.send([link(number) for number in range(100, 200)]))
                await asyncio.sleep(0.5)
                sending.cancel()
                return await seconds(stack.aclose())
        raise AssertionError

    with caplog.at_level(logging.WARNING, "skitter"):
        took = asyncio.run(scenario())
    print(f"\nclosed after {took:.1f} s: {caplog.messages}")
    assert took < BOUND
    assert all("could not be closed" in said for said in caplog.messages)


@TROUBLE
def test_a_reader_of_documents_is_closed_while_its_broker_does_not_answer(settings, trouble):
    """In the middle of a commit that it waits for."""

    async def scenario() -> float:
        await topics.create(settings.kafka, SHARDS)
        sender = Sender(settings.kafka)
        await Documents(settings, sender).send([entry(f"https://a.example/{number}") for number in range(50)])
        reader = DocumentReader(settings, sender)
        while not await reader.batch(100):
            pass
        with trouble("kafka"):
            committing = asyncio.create_task(reader.done())
            await asyncio.sleep(0.5)
            committing.cancel()
            return await seconds(reader.close()) + await seconds(sender.close())

    took = asyncio.run(scenario())
    print(f"\nclosed after {took:.1f} s")
    assert took < BOUND


def test_redis_is_closed_while_it_does_not_read():
    """With more on its way than the system keeps for it, which would have to be sent first."""

    async def scenario(settings: Settings) -> float:
        client = Client(settings)
        await client.reach()
        with frozen("redis"):
            asking = asyncio.create_task(client.send(lambda: [("ECHO", b"x" * 2**26)]))
            await asyncio.sleep(0.5)
            took = await seconds(client.close())
            asking.cancel()
        again = Client(settings)
        await patiently(again.reach)
        await again.close()
        await asyncio.sleep(
            1
        )  # the system sends the rest, and the warning of a socket that is still open stays out
        return took

    settings = redis.settings_for(our_engine("redis"))
    took = asyncio.run(scenario(settings))
    print(f"\nclosed after {took:.1f} s")
    assert took < BOUND


def test_postgresql_is_closed_while_it_does_not_answer():
    async def scenario(settings: Settings) -> list[float]:
        async with AsyncExitStack() as pools, AsyncExitStack() as single:
            pool = await pools.enter_async_context(pool_of(settings))
            await single.enter_async_context(connected(settings))
            with frozen("postgres"):
                asking = asyncio.create_task(pool.check())
                await asyncio.sleep(0.5)
                took = [await seconds(pools.aclose()), await seconds(single.aclose())]
                asking.cancel()
                return took
        raise AssertionError

    with schema(postgres.settings_for(our_engine("postgres"))) as settings:
        took = asyncio.run(scenario(settings))
        assert asyncio.run(migrate(settings, postgres.SHARDS)) == []
    print(f"\nclosed after {took}")
    assert max(took) < BOUND


# ------------------------------------------------------------------------------------------------ processes


@pytest.mark.parametrize(
    ("size", "name"),
    [
        ("full", "kafka"),
        pytest.param("full", "postgres", marks=pytest.mark.soak),
        pytest.param("redis", "redis", marks=pytest.mark.soak),
    ],
)
def test_a_worker_leaves_in_bounded_time_while_an_engine_does_not_answer(tmp_path, size, name):
    """Without it nothing can be handed over: after a while the worker stops as a second interrupt would stop it."""
    our_engine(name)
    with running(tmp_path, small_web(), size, 2, **QUICK) as (crawl, _server):
        victim = crawl.workers[0]
        with frozen(name):
            victim.send(signal.SIGTERM)
            began = time.monotonic()
            victim.expected = victim.process.wait(PATIENCE)
            print(
                f"\n{name} frozen: the worker ended with {victim.expected} after {time.monotonic() - began:.1f} s"
            )
        if name != "kafka":  # it is needed only by who has something to send
            assert victim.expected == 130, victim.said
        if victim.expected == 130:
            assert "is away for too long to hand over what is left; stopping at once" in victim.said
        assert victim.expected in (0, 130), victim.said
        crawl.wait()


def test_a_worker_leaves_in_bounded_time_while_its_bucket_does_not_answer(tmp_path):
    """It gives the last uploads their time, and then does not wait for those under way."""
    our_engine("s3")
    web = SyntheticWeb(seed=9, hosts=10, pages_per_host=8)
    with serve_process(web) as server, archiving(tmp_path, server, politeness__delay="200ms") as crawl:
        crawl.cluster("add", *server.seeds())
        worker = crawl.work("w", s3__segment_time="1s")
        until(crawl.ground.objects, "a segment is in the bucket")
        with frozen("s3"):
            time.sleep(3)  # the next segments are under way
            worker.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert worker.wait(PATIENCE) == 0, crawl.said("w")
            took = time.monotonic() - began
        print(f"\nthe worker ended after {took:.1f} s")
        assert took < 30 + BOUND
        assert "not in the bucket yet" in crawl.said("w")


@pytest.mark.parametrize("name", ["opensearch", "kafka"])
def test_indexing_ends_in_bounded_time_while_an_engine_does_not_answer(tmp_path, feeding, name):  # noqa: F811
    our_engine(name)
    log = tmp_path / "index.log"
    asyncio.run(send_pages(feeding, range(100)))
    process = indexing(tmp_path / "cluster.toml", log)
    try:
        until(lambda: asyncio.run(indexed(feeding)) == 100, "the first pages are in")
        if name == "opensearch":
            with frozen(name):
                asyncio.run(send_pages(feeding, range(100, 200)))
                time.sleep(3)
                process.terminate()
                assert process.wait(BOUND) == 0, log.read_text()
        else:
            with frozen(name):
                process.terminate()
                assert process.wait(BOUND) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()

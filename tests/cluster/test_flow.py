"""Links from Kafka into PostgreSQL, whoever owns their shards: all of them, each once, in bounded memory."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from benchmarks.cluster import links_through
from msgspec import structs

from skitter.backends.kafka import topics
from skitter.backends.kafka.forwarding import Inbox, KafkaForwarding
from skitter.backends.kafka.lag import waiting
from skitter.backends.kafka.packing import owner
from skitter.backends.kafka.sending import Sender
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.store import PostgresStore
from skitter.compose.cluster import joined
from skitter.compose.engines import make, opened, unmake
from skitter.crawl.directory import CrawlDirectory
from skitter.events import Events
from skitter.frontier import ShardFrontier
from skitter.model import Level, Link
from skitter.ports import Fenced
from skitter.settings import Settings
from skitter.settings.file import dump
from tests.cluster import kafka, postgres
from tests.cluster.crawling import ROOT, cluster_settings
from tests.cluster.postgres import pool_of, schema, seize
from tests.engines import engine

SHARDS = 4


@pytest.fixture
def settings() -> Iterator[Settings]:
    truth = postgres.settings_for(engine("postgres"))
    with kafka.crawl_on(engine("kafka")) as crawl:
        both = structs.replace(crawl, postgres=truth.postgres)
        with schema(both, SHARDS):
            yield both


def link(number: int) -> Link:
    host = f"www.h{number % 997}.example"
    url = f"https://{host}/some/section/article-{number}.html"
    return Link(url=url, key=url, host=host, level=Level(number % 5), depth=2, parent=f"https://{host}/")


async def send(sender: Sender, settings: Settings, numbers: range, batch: int = 1000) -> None:
    forwarding = KafkaForwarding(settings, sender)
    for start in range(numbers.start, numbers.stop, batch):
        by_shard: dict[int, list[Link]] = {}
        for number in range(start, min(start + batch, numbers.stop)):
            one = link(number)
            by_shard.setdefault(owner(one, SHARDS), []).append(one)
        await forwarding.send(by_shard)


class Worker:
    """Owns some shards: receives their links, stores them with the position, says so."""

    def __init__(self, settings: Settings, pool: Pool, inbox: Inbox) -> None:
        self._settings, self._pool, self._inbox = settings, pool, inbox
        self.frontiers: dict[int, ShardFrontier] = {}
        self.new = self.received = 0

    async def own(self, shard: int) -> None:
        store = PostgresStore(self._pool, shard, await seize(self._pool, shard))
        frontier = ShardFrontier(store, self._settings, shard=shard, shards=SHARDS)
        await frontier.open(0.0)
        self.frontiers[shard] = frontier
        await self._inbox.own(shard, frontier.positions())

    async def work(self) -> None:
        while True:
            for each in await self._inbox.receive(2000, wait=0.2):
                self.new += await self.frontiers[each.shard].take_in(each.links, each.positions, 1.0)
                self.received += len(each.links)
                await self._inbox.stored(each.shard, each.positions, time.monotonic())


@asynccontextmanager
async def worker(settings: Settings) -> AsyncIterator[tuple[Worker, Sender]]:
    async with pool_of(settings) as pool:
        sender = Sender(settings.kafka)
        inbox = Inbox(settings, SHARDS, sender)
        try:
            yield Worker(settings, pool, inbox), sender
        finally:
            await inbox.close()
            await sender.close()


async def all_stored(settings: Settings, worker: Worker, patience: int = 600) -> bool:
    """Whether nothing waits on the topics any more, as a cluster knows it: stored positions are the ends."""
    for _ in range(patience):
        stores = {shard: PostgresStore(worker._pool, shard) for shard in range(SHARDS)}
        stored = {shard: (await store.meta()).positions for shard, store in stores.items()}
        if not any(each.messages for each in await waiting(settings.kafka, stored)):
            return True
        await asyncio.sleep(0.2)
    return False


async def urls_of(pool: Pool) -> list[str]:
    return [row.url for shard in range(SHARDS) async for row in PostgresStore(pool, shard).urls()]


def test_links_in_flight_survive_a_change_of_owners_and_are_stored_once(settings):
    count = 40_000

    async def scenario():
        await topics.create(settings.kafka, SHARDS)
        async with worker(settings) as (old, _), worker(settings) as (new, sender):
            for shard in (0, 1):
                await old.own(shard)
            for shard in (2, 3):
                await new.own(shard)
            tasks = [asyncio.create_task(each.work()) for each in (old, new)]
            sending = asyncio.create_task(send(sender, settings, range(count)))
            while old.received < count // 8:
                await asyncio.sleep(0.01)
            for shard in (0, 1):  # the old owner is taken for dead, and is not
                await new.own(shard)
            await sending
            assert await all_stored(settings, new)
            assert isinstance((await asyncio.gather(tasks[0], return_exceptions=True))[0], Fenced)
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            stored = await urls_of(new._pool)
            assert sorted(stored) == sorted(link(number).url for number in range(count))
            # Not what the workers were told: who is fenced off behind the first half of a delivery has stored that half.
            metas = [await PostgresStore(new._pool, shard).meta() for shard in range(SHARDS)]
            assert sum(meta.counts.added for meta in metas) == count
            print(f"received {old.received + new.received} for {count} sent")

    asyncio.run(scenario())


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def flow(settings: Settings, count: int, most_growth: int, least_rate: float) -> None:
    async def scenario():
        await topics.create(settings.kafka, SHARDS)
        async with worker(settings) as (only, sender):
            for shard in range(SHARDS):
                await only.own(shard)
            working = asyncio.create_task(only.work())
            warm = count // 10
            await send(sender, settings, range(warm))  # caches fill, threads start
            assert await all_stored(settings, only)
            before, began = resident(), time.perf_counter()
            await send(sender, settings, range(warm, count))
            assert await all_stored(settings, only, patience=10_000)
            rate, grown = (count - warm) / (time.perf_counter() - began), resident() - before
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            print(
                f"{count:,} links: {rate:,.0f}/s from Kafka into PostgreSQL, memory grown by {grown >> 20} MiB"
            )
            assert only.new == count
            assert grown < most_growth
            assert rate > least_rate

    asyncio.run(scenario())


def test_links_flow_from_kafka_into_postgresql_in_bounded_memory(settings):
    flow(settings, 60_000, most_growth=50 * 10**6, least_rate=0)  # a busy machine is no failure


@pytest.mark.soak
def test_five_million_links_flow_from_kafka_into_postgresql(settings):
    flow(settings, 5_000_000, most_growth=50 * 10**6, least_rate=5_000)


@pytest.mark.soak
def test_a_whole_worker_takes_in_five_million_links():
    """With its frontier, its filters and its memory of what it has seen, beside what `flow` shows of the way itself."""
    for name in ("postgres", "kafka", "redis"):
        engine(name)
    figures = asyncio.run(links_through(5_000_000))
    print({name: round(value) for name, value in figures.items()})
    assert figures["stored"] == figures["queued"] == 5_000_000
    assert figures["unread"] == 0
    assert figures["memory_growth_mb"] < 50
    assert figures["taken_in_per_second"] > 5_000


# ------------------------------------------------------------------------------------------------ a burst


async def send_burst(config: Path, first: int, rate: float, seconds: float) -> tuple[int, float]:
    """A burst by a process of its own: links that Kafka has acknowledged, and how long that took."""
    words = (sys.executable, "-m", "tests.cluster.bursting", str(config), str(first), str(rate), str(seconds))
    sending = await asyncio.create_subprocess_exec(*words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    said, _ = await sending.communicate()
    assert sending.returncode == 0
    sent, elapsed = said.split()
    return int(sent), float(elapsed)


async def stored_in(settings: Settings) -> int:
    async with opened(settings, "") as engines:
        return sum(shard.counts.added for shard in await engines.claims.standing())


def burst(path: Path, rate: float, seconds: float, warm_up: float) -> None:
    """A whole worker, with its frontier and its filters, that only takes in; the links come from elsewhere.

    Its memory is compared with what it is after a warm-up of so many seconds, when its bounded caches are full.
    """
    settings = cluster_settings(None, crawl__shards=SHARDS)
    config = path / "cluster.toml"
    config.write_text(dump(settings))

    async def scenario() -> None:
        await make(settings)
        async with joined(CrawlDirectory(path / "worker"), settings, Events()) as worker:
            worker.worker.held.closed = True
            working = asyncio.create_task(worker.run())
            warm, _ = await send_burst(config, 0, 100_000, warm_up)
            while await stored_in(settings) < warm:
                await asyncio.sleep(0.2)
            before = most = resident()
            began = time.perf_counter()
            sending = asyncio.create_task(send_burst(config, warm, rate, seconds))
            waited, stored = 0, warm
            while not sending.done() or stored < warm + sending.result()[0]:
                await asyncio.sleep(0.2)
                most = max(most, resident())
                stored = await stored_in(settings)
                if sending.done():
                    waited = waited or warm + sending.result()[0] - stored
            sent, elapsed = sending.result()
            taken = sent / (time.perf_counter() - began)
            worker.leave()
            await working
        async with pool_of(settings) as pool:
            text = f'SELECT count(DISTINCT url) FROM "{pool.schema}".urls'
            distinct = await pool._pool.fetchval(text, timeout=600)
        print(
            f"\n{sent:,} links sent in {elapsed:.1f} s: {sent / elapsed:,.0f}/s into Kafka, {taken:,.0f}/s into PostgreSQL;"
            f" {waited:,} waited in Kafka at the end of the burst; memory grown by {(most - before) / 2**20:.0f} MiB"
        )
        assert distinct == warm + sent
        assert most - before < 50 * 10**6

    try:
        asyncio.run(scenario())
    finally:
        asyncio.run(unmake(settings))


def test_a_burst_of_links_waits_in_kafka_and_none_is_lost(tmp_path):
    burst(tmp_path, rate=100_000, seconds=0.2, warm_up=0.05)


@pytest.mark.soak
def test_a_minute_of_a_hundred_thousand_links_a_second_waits_in_kafka(tmp_path):
    burst(tmp_path, rate=100_000, seconds=60, warm_up=5)

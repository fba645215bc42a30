"""A value that an engine refuses fails the visit, link or line that contained it; everything else continues."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from skitter.backends.postgres.round_trips import RoundTrips
from skitter.backends.postgres.store import PostgresStore
from skitter.compose.engines import opened
from skitter.frontier import ShardFrontier
from skitter.model import Link, Page, Reason, RobotsCopy, Settlement, State, Verdict, Visit
from skitter.ports import Mark
from skitter.settings import Settings
from skitter.testing.web import Server
from tests.cluster import postgres
from tests.cluster.crawling import SIZES, cluster, until
from tests.cluster.postgres import pool_of, schema, seize
from tests.engines import engine

# An index of PostgreSQL holds 2,704 bytes, of what is left when it is compressed.
_RANDOM = random.Random(7)


def incompressible(length: int) -> str:
    return f"{_RANDOM.getrandbits(4 * length):0{length}x}"


@pytest.fixture
def settings() -> Iterator[Settings]:
    with schema(postgres.settings_for(engine("postgres"))) as made:
        yield made


def link(number: int, host: str = "") -> Link:
    host = host or f"h{number}.example"
    url = f"http://{host}/{number}"
    return Link(url=url, key=url, host=host)


def page_of(visit: Visit, title: str = "") -> Settlement:
    url, host = visit.link.url, visit.link.host
    page = Page(
        url=url, requested_url=url, key=url, host=host, domain=host, status=200, fetched_at=1.0, title=title
    )
    return Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED, host_free=2.0), page=page, status=200)


def allowed(visit: Visit) -> Settlement:
    """Its robots.txt allows everything."""
    copy = RobotsCopy(origin=visit.link.origin, access="all", fetched_at=1.0, expires=1e9)
    return Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED, host_free=2.0), robots=copy)


async def states(frontier: ShardFrontier) -> dict[str, tuple[State, Reason | None]]:
    return {record.url: (record.state, record.reason) async for record in frontier.urls()}


def test_a_settlement_that_postgresql_refuses_costs_its_own_visit(settings):
    """Whatever it is: text that is none, a name that no index holds. And not what travels with it from another shard."""

    async def scenario():
        async with pool_of(settings) as pool:
            round_trips = RoundTrips(pool)
            first, other = [
                ShardFrontier(PostgresStore(pool, shard, await seize(pool, shard), round_trips), settings)
                for shard in (0, 1)
            ]
            for frontier in (first, other):
                await frontier.open(0.0)
                await frontier.add([link(number) for number in range(8)], (), 0.0)
                rules = [allowed(visit) for visit in await frontier.lease(100, 1.0)]
                await frontier.settle(rules, Mark("f", 0), 2.0)
            visits = {visit.link.url: visit for visit in await first.lease(100, 10.0)}
            (their,) = await other.lease(1, 10.0)
            assert len(visits) == 8
            out = visits.pop(link(7).url)
            bad = {link(2).url: "\ud800", link(5).url: "fine"}
            found = [page_of(visit, bad.get(url, "")) for url, visit in visits.items()]
            long = link(99, incompressible(5000))
            found = [
                Settlement(visit=s.visit, verdict=s.verdict, page=s.page, links=[long], status=200)
                if s.visit.link.url == link(5).url
                else s
                for s in found
            ]
            told = await asyncio.gather(
                first.settle(found, Mark("f", 1), 11.0), other.settle([page_of(their)], Mark("f", 1), 11.0)
            )
            assert told == [[True] * 7, [True]]
            known = await states(first)
            lost = [url for url, (state, _) in known.items() if state is State.FAILED]
            assert sorted(lost) == [link(2).url, link(5).url]
            assert all(cast("Reason", known[url][1]).code == "unstorable" for url in lost)
            assert sum(state is State.CRAWLED for state, _ in known.values()) == 5
            # What was out meanwhile is still out, and can be settled.
            assert await first.settle([page_of(out)], Mark("f", 2), 12.0) == [True]
            assert (await first.counts()).pages == 6
            assert (await first.counts()).leased == 0
            await first.close()
            await other.close()

    asyncio.run(scenario())


def test_a_forwarded_link_that_postgresql_refuses_is_skipped_with_a_warning(settings):
    async def scenario():
        async with pool_of(settings) as pool:
            frontier = ShardFrontier(PostgresStore(pool, 0, await seize(pool, 0)), settings)
            said: list[str] = []
            frontier.complain = said.append
            await frontier.open(0.0)
            links = [link(number) for number in range(20)]
            links.insert(13, link(99, incompressible(5000)))
            assert await frontier.take_in(links, {"topic": "21"}, 1.0) == 20
            assert frontier.positions() == {"topic": "21"}
            assert (await PostgresStore(pool, 0).meta()).positions == {"topic": "21"}
            assert len(said) == 1
            assert "is not crawled: PostgreSQL: " in said[0]
            assert len(await states(frontier)) == 20
            await frontier.close()

    asyncio.run(scenario())


# ------------------------------------------------------------------------------------------------ whole crawls


@contextmanager
def moved(target: str) -> Iterator[int]:
    """A site whose front page has moved to another host, for good; says its port. Its robots.txt allows everything."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = (
                target.format(port=cast("ThreadingHTTPServer", self.server).server_port)
                if self.path == "/"
                else ""
            )
            self.send_response(301 if place else 404 if self.path == "/robots.txt" else 200)
            if place:
                self.send_header("Location", place)
            body = b"" if place else b"<p>hello</p>"
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def nowhere() -> Server:
    """No synthetic web is needed."""
    return cast("Server", SimpleNamespace(web=SimpleNamespace(resolve_map=dict)))


@pytest.mark.parametrize("size", SIZES)
def test_a_seed_that_redirects_to_a_very_long_url_is_one_page_more(size, tmp_path):
    path = incompressible(6000)
    names = {"fetch__resolve": ("old.example:127.0.0.1", "new.example:127.0.0.1")}
    with (
        moved("http://new.example:{port}/" + path) as port,
        cluster(tmp_path, nowhere(), size, crawl__shards=2, scope__kind="host", **names) as crawl,
    ):
        crawl.add([f"http://old.example:{port}/"])
        crawl.work()
        assert crawl.wait().startswith("finished: 1 pages")
        crawl.leave()
        (page,), _ = asyncio.run(crawl.read_back())
        assert page.url == f"http://new.example:{port}/{path}"


def test_a_bad_line_costs_cluster_add_that_line_and_not_its_batch(tmp_path):
    meta = {"url": "http://meta.example/", "meta": {"note": incompressible(400_000)}}
    lines = [
        *(f"http://h{number}.example/" for number in range(300)),
        f"http://long.example/{incompressible(6000)}",  # is a URL
        f"http://{incompressible(3000)}.example/",  # has a host that cannot be
        json.dumps({"url": "http://deep.example/"})[:-1] + ',"meta":' + '{"a":' * 3000 + "1" + "}" * 3001,
        "http://null.example/a\0b",  # is a URL, once it is written as one
        json.dumps(meta),  # is more than this Kafka takes
        *(f"http://i{number}.example/" for number in range(300)),
    ]
    brief = {"fetch__deadline": "1s", "schedule__retries": "0"}
    with cluster(tmp_path, nowhere(), crawl__shards=2, **brief) as crawl:
        _shrink(crawl.settings, 100_000)
        file = tmp_path / "seeds.txt"
        file.write_text("\n".join(lines))
        said = crawl.say("cluster", "add", "--config", crawl.config, "--seeds", file)
        assert len([line for line in said.splitlines() if line.startswith("skitter: ")]) == 3, said
        assert "its host name is longer than any can be" in said
        assert "meta.example/ is not crawled: Kafka: a message of" in said
        assert "Traceback" not in said
        crawl.work(fetch__resolve='["none.example:127.0.0.1"]')

        async def known() -> int:
            async with opened(crawl.settings, "") as engines:
                return sum(standing.counts.added for standing in await engines.claims.standing())

        until(lambda: asyncio.run(known()) >= 602, "the seeds arrive", every=0.3)
        crawl.leave()
        _, records = asyncio.run(crawl.read_back())
        assert len(records) == 602


def _shrink(settings: Settings, size: int) -> None:
    """Topics that take less than we send."""
    admin = AdminClient({"bootstrap.servers": settings.kafka.addresses[0], "log_level": 0})
    wanted = [ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)]
    topic = ConfigResource(ResourceType.TOPIC, settings.kafka.links_high, incremental_configs=wanted)
    for future in admin.incremental_alter_configs([topic]).values():
        future.result(30)

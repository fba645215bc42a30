"""Shards in Redis have one owner at a time, and links between them get there."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from msgspec import msgpack, structs

from skitter.backends.redis.claims import RedisClaims, prepare, shards_of
from skitter.backends.redis.client import Client
from skitter.backends.redis.forwarding import RedisForwarding, RedisInbox, stream, unread
from skitter.backends.redis.store import RedisStore, tag
from skitter.cluster import ports
from skitter.frontier.rows import Batch, Meta
from skitter.model import Counts
from skitter.ports import EngineAway, EngineError, Fenced
from skitter.settings import Seconds, Settings
from skitter.testing.contracts.owner import asynchronous, link
from tests.cluster.ledgers import assert_commands, assert_ends, assert_swaps
from tests.cluster.redis import cleaned, settings_for
from tests.engines import engine


@pytest.fixture
def settings() -> Iterator[Settings]:
    with cleaned(settings_for(engine("redis"))) as mine:
        yield mine


@asynccontextmanager
async def client_of(settings: Settings, lease: float = 15.0) -> AsyncIterator[Client]:
    cluster = structs.replace(settings.cluster, lease=Seconds(lease))
    client = Client(structs.replace(settings, cluster=cluster))
    try:
        yield client
    finally:
        await client.close()


@asynchronous
async def test_a_shard_is_taken_by_one_worker(settings):
    async with client_of(settings) as client:
        one: ports.Claims = RedisClaims(client, "one", 4)
        two = RedisClaims(client, "two", 4)
        mine = await one.take([0, 1, 2, 3], 3)
        assert [claim.shard for claim in mine] == [0, 1, 2]
        assert all(claim.lapsed is None for claim in mine)
        assert [claim.shard for claim in await two.take([0, 1, 2, 3], 4)] == [3]
        seen = await one.renew({claim.shard: claim.epoch for claim in mine}, {"pages": 7})
        assert seen.held == {0, 1, 2}
        assert list(seen.owners) == ["one", "one", "one", "two"]
        assert list(seen.workers) == ["one"]
        assert abs(seen.now - mine[0].now) < 5
        await two.renew({}, {})
        assert sorted((await one.renew({}, {})).workers) == ["one", "two"]
        assert {worker.name: worker.about for worker in await two.workers()} == {"one": {}, "two": {}}
        await two.leave()
        assert [worker.name for worker in await one.workers()] == ["one"]


@asynchronous
async def test_a_shard_given_back_is_free_at_once_and_nobody_is_waited_for(settings):
    async with client_of(settings) as client:
        one, two = RedisClaims(client, "one", 1), RedisClaims(client, "two", 1)
        (first,) = await one.take([0], 1)
        assert await two.take([0], 1) == []
        await two.release({0: first.epoch})  # it is not theirs
        assert await two.take([0], 1) == []
        await one.release({0: first.epoch})
        (second,) = await two.take([0], 1)
        assert second.epoch > first.epoch
        assert second.lapsed is None
        assert (await one.renew({0: first.epoch}, {})).held == frozenset()


@asynchronous
async def test_a_claim_of_the_past_keeps_nothing_also_when_the_shard_is_ours_again(settings):
    async with client_of(settings) as client:
        one = RedisClaims(client, "one", 1)
        (first,) = await one.take([0], 1)
        await one.release({0: first.epoch})
        (second,) = await one.take([0], 1)
        assert (await one.renew({0: first.epoch}, {})).held == frozenset()
        assert (await one.renew({0: second.epoch}, {})).held == {0}


@asynchronous
async def test_a_lease_that_is_not_renewed_runs_out_and_what_was_written_under_it_is_over(settings):
    async with client_of(settings, lease=0.3) as client:
        one, two = RedisClaims(client, "one", 1), RedisClaims(client, "two", 1)
        (first,) = await one.take([0], 1)
        store = RedisStore(client, 0, first.epoch)
        await store.write(Batch(Meta(seq=1)))
        await asyncio.sleep(0.4)
        assert (await one.renew({0: first.epoch}, {})).held == {0}  # run out, and nobody was quicker
        await asyncio.sleep(0.4)
        (second,) = await two.take([0], 1)
        assert second.lapsed is not None
        assert second.now - 1 < second.lapsed <= second.now
        assert (await one.renew({0: first.epoch}, {})).held == frozenset()
        with pytest.raises(Fenced):
            await store.write(Batch(Meta(seq=2)))
        await RedisStore(client, 0, second.epoch).write(Batch(Meta(seq=3)))
        (standing,) = await one.standing()
        assert (standing.owner, standing.epoch) == ("two", second.epoch)


@asynchronous
async def test_no_epoch_is_used_twice_even_when_the_last_one_was_lost(settings):
    async with client_of(settings) as client:
        one = RedisClaims(client, "one", 1)
        (first,) = await one.take([0], 1)
        await one.release({0: first.epoch})
        await client.send(lambda: [("DEL", tag(client.name, 0) + b"epoch")])
        await asyncio.sleep(0.002)
        (second,) = await one.take([0], 1)
        assert second.epoch > first.epoch


@asynchronous
async def test_who_looks_on_sees_counts_and_positions(settings):
    async with client_of(settings) as client:
        one = RedisClaims(client, "one", 2)
        (mine,) = await one.take([1], 1)
        meta = Meta(counts=Counts(pages=3), positions={"mail": "7-0"})
        await RedisStore(client, 1, mine.epoch).write(Batch(meta))
        first, second = await one.standing()
        assert (first.owner, first.counts.pages) == ("", 0)
        assert (second.owner, second.counts.pages, second.positions) == ("one", 3, {"mail": "7-0"})
        assert second.lease_until > second.now


@asynchronous
async def test_no_shard_is_taken_by_settings_that_were_replaced(settings):
    async with client_of(settings) as client:
        claims = RedisClaims(client, "one", 2)
        assert await claims.settings() == (0, "")
        assert await claims.settle_on(0, "[politeness]\ndelay = 1\n")
        assert not await claims.settle_on(0, "")
        assert await claims.settings() == (1, "[politeness]\ndelay = 1\n")
        assert (await claims.renew({}, {})).settings == 1
        assert await claims.take([0, 1], 2, 0) == []
        assert len(await claims.take([0, 1], 2, 1)) == 2


@asynchronous
async def test_roots_are_everybodys(settings):
    async with client_of(settings) as client:
        one = RedisClaims(client, "one", 1)
        await one.add_roots(["https://b.example/", "https://a.example/"])
        await one.add_roots(["https://a.example/", "https://c.example/"])
        two = RedisClaims(client, "two", 1)
        seen = await two.renew({}, {})
        known, at = await two.roots(0, 100)
        assert known == ["https://b.example/", "https://a.example/", "https://c.example/"]
        assert at == seen.roots
        await one.add_roots(["https://a.example/", "https://d.example/"])
        assert await two.roots(at, 100) == (["https://d.example/"], at + 1)
        assert await two.roots(1, 2) == (["https://a.example/", "https://c.example/"], 3)


@asynchronous
async def test_a_sign_of_life_carries_no_roots_however_many_there_are(settings):
    async with client_of(settings) as client:
        one = RedisClaims(client, "one", 1)
        for start in range(0, 30_000, 5_000):
            await one.add_roots([f"https://h{number}.example/" for number in range(start, start + 5_000)])
        assert (await one.renew({}, {})).roots == 30_000
        looked, at = 0, 0
        while roots := (await one.roots(at, 7_000))[0]:
            at, looked = at + len(roots), looked + len(roots)
        assert looked == 30_000


@asynchronous
async def test_a_crawl_has_as_many_shards_as_it_was_begun_with(settings):
    async with client_of(settings) as client:
        with pytest.raises(EngineError, match="skitter cluster init"):
            await shards_of(client)
        assert await prepare(client, 8)
        assert not await prepare(client, 8)
        assert await shards_of(client) == 8
        with pytest.raises(EngineError, match="begun with 8 shards"):
            await prepare(client, 9)


# ------------------------------------------------------------------------------------------------ forwarding


@asynchronous
async def test_links_reach_the_owner_of_their_shard_in_order_and_again_until_they_are_stored(settings):
    async with client_of(settings) as client:
        forwarding, inbox = RedisForwarding(client), RedisInbox(client, wait=0.05)
        links = [link(f"https://a.example/{n}") for n in range(500)]
        await forwarding.send({0: links, 1: links[:3]})
        assert await inbox.receive(1000) == []
        await inbox.own(0, {})
        taken, positions = [], {}
        while deliveries := await inbox.receive(200):
            for delivery in deliveries:
                assert delivery.shard == 0
                taken += delivery.links
                positions = delivery.positions
        assert taken == links
        await inbox.own(0, {})
        assert (await inbox.receive(200))[0].links[0] == links[0]
        await inbox.own(0, positions)
        assert await inbox.receive(200) == []
        assert await unread(client, {0: positions, 1: {}}) == {0: 0, 1: 1}
        await inbox.disown(0)
        assert await inbox.receive(200) == []


@asynchronous
async def test_a_worker_that_loses_its_last_shard_while_it_waits_for_more_links_goes_on(settings):
    async with client_of(settings) as client:
        forwarding, inbox = RedisForwarding(client), RedisInbox(client, wait=0.05)
        await forwarding.send({0: [link("https://a.example/1")]})
        await inbox.own(0, {})
        assert await inbox.receive(10)
        more = asyncio.ensure_future(inbox.receive(10))  # collects for a moment
        await asyncio.sleep(0)
        await inbox.disown(0)
        assert await more == []


@asynchronous
async def test_messages_are_trimmed_up_to_what_is_stored(settings):
    async with client_of(settings) as client:
        forwarding, inbox = RedisForwarding(client), RedisInbox(client, wait=0.05)
        await forwarding.send({0: [link("https://a.example/1")]})
        await inbox.own(0, {})
        (first,) = await inbox.receive(10)
        await forwarding.send({0: [link("https://a.example/2")]})
        await inbox.stored(0, first.positions, 1000.0)
        (length,) = await client.send(lambda: [("XLEN", stream(client.name, 0))])
        assert length == 1
        (second,) = await inbox.receive(10)
        assert [one.url for one in second.links] == ["https://a.example/2"]


@asynchronous
async def test_what_nobody_can_read_is_set_aside_and_the_rest_arrives(settings):
    async with client_of(settings) as client:
        for damaged in (
            b"\xc1 no links",
            msgpack.encode([link("https://a.example/0")]).replace(b"/0", b"/\xff"),
        ):
            entry = ("XADD", stream(client.name, 0), "*", "links", damaged)
            await client.send(lambda entry=entry: [entry])
        await RedisForwarding(client).send({0: [link("https://a.example/1")]})
        inbox = RedisInbox(client, wait=0.05)
        await inbox.own(0, {})
        found = [one.url for _ in range(3) for each in await inbox.receive(1000) for one in each.links]
        assert found == ["https://a.example/1"]
        (dead,) = await client.send(lambda: [("XLEN", tag(client.name, 0) + b"dead")])
        assert dead == 2


@asynchronous
async def test_what_was_read_for_others_is_read_again_when_something_could_not_be_set_aside(settings):
    async with client_of(settings) as client:
        await RedisForwarding(client).send({0: [link("https://a.example/1")]})
        await client.send(lambda: [("XADD", stream(client.name, 1), "*", "links", b"\xc1")])
        inbox = RedisInbox(client, wait=0.05)
        await inbox.own(0, {})
        await inbox.own(1, {})
        bury = inbox._bury

        async def away(*_):
            inbox._bury = bury
            raise EngineAway("for a moment")

        inbox._bury = away
        with pytest.raises(EngineAway):
            await inbox.receive(1000)
        assert [one.url for each in await inbox.receive(1000) for one in each.links] == [
            "https://a.example/1"
        ]


@asynchronous
async def test_a_ledger_is_replaced_only_by_who_has_seen_the_last_one(settings):
    async with client_of(settings) as client:
        await assert_swaps([RedisClaims(client, f"w{number}", 1) for number in range(8)])


@asynchronous
async def test_commands_are_kept_in_order_whoever_adds_them(settings):
    async with client_of(settings) as client:
        await assert_commands([RedisClaims(client, f"w{number}", 1) for number in range(8)])


@asynchronous
async def test_where_files_of_former_owners_end_is_written_down(settings):
    async with client_of(settings) as client:
        await assert_ends(RedisClaims(client, "w", 2))


@asynchronous
async def test_who_takes_a_shard_knows_whether_its_last_owner_is_still_connected(settings):
    async def named(worker: str) -> Client:
        cluster = structs.replace(settings.cluster, lease=Seconds(0.3))
        return Client(structs.replace(settings, cluster=cluster), worker=worker)

    frozen, killed, heir = [await named(worker) for worker in ("frozen", "killed", "heir")]
    for number, client in enumerate((frozen, killed)):
        one = RedisClaims(client, ("frozen", "killed")[number], 2)
        await one.renew({}, {})
        assert len(await one.take([number], 1)) == 1
    await killed.close()
    await asyncio.sleep(0.5)
    taken = await RedisClaims(heir, "heir", 2).take([0, 1], 2)
    assert {claim.shard: claim.connected for claim in taken} == {0: True, 1: False}
    assert [claim.over_after(10.0) > 9 for claim in sorted(taken, key=lambda each: each.shard)] == [
        True,
        False,
    ]
    await frozen.close()
    await heir.close()

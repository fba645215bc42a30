"""Frontier, invariant 8: links of other shards wait in an outbox, or are sent as messages."""

from typing import Protocol

from msgspec.structs import replace

from skitter import urls
from skitter.model import Hints, Link, Purpose, Reason, State, Verdict
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, link

A = "https://a.example/"


def _foreign_to(host: str, shards: int) -> tuple[int, str]:
    """The shard of a host, and a host of another shard."""
    mine = urls.shard(urls.registrable_domain(host), shards)
    names = (f"other{number}.example" for number in range(1000))
    return mine, next(name for name in names if urls.shard(urls.registrable_domain(name), shards) != mine)


class FrontierOutboxContract:
    """The store keeps links of other shards until their owners have them. Needs a fixture `ground`."""

    @asynchronous
    async def test_links_of_other_shards_wait_in_the_outbox_until_they_are_forwarded(
        self, ground: Ground
    ) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        assert await owner.add(A + "1") == 1
        found = [link(f"https://{other}/{number}", depth=1, parent=A + "1") for number in range(3)]
        found[1] = replace(found[1], hints=Hints(lastmod=5.5, priority=0.25, rel=("next",)))
        await owner.store(await owner.lease_page(), links=[*found, link(A + "2")])
        owner = await owner.killed()
        waiting = await owner.frontier.outbox(10)
        assert [sent for _, sent in waiting] == found
        assert (await owner.frontier.counts()).outbox == 3
        assert len(await owner.frontier.outbox(2)) == 2
        assert await owner.frontier.outbox(10, after=waiting[0][0]) == waiting[1:]
        await owner.frontier.forwarded([number for number, _ in waiting[:2]])
        owner = await owner.killed()
        assert [sent for _, sent in await owner.frontier.outbox(10)] == found[2:]
        assert (await owner.frontier.counts()).outbox == 1
        await owner.frontier.forwarded([waiting[0][0]])
        assert (await owner.frontier.counts()).outbox == 1
        assert [visit.link.url for visit in await owner.lease_pages()] == [A + "2"]

    @asynchronous
    async def test_a_link_of_another_shard_is_sent_once(self, ground: Ground) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        for _ in range(2):
            assert await owner.add(f"https://{other}/", f"https://{other}/") == 0
            await owner.frontier.forwarded([number for number, _ in await owner.frontier.outbox(10)])
            owner = await owner.killed()
        counts = await owner.frontier.counts()
        assert (counts.seen, counts.known, counts.added, counts.outbox) == (3, 3, 0, 0)
        assert await owner.frontier.url(f"https://{other}/", other) is None

    @asynchronous
    async def test_what_another_shard_owns_is_sent_there_when_other_settings_want_it(
        self, ground: Ground
    ) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        far, deep = link(f"https://{other}/", depth=2), Reason("scope.depth", "too deep")
        await owner.frontier.judge_again(lambda _link, _reason: None, "narrow", owner.now)
        await owner.add(refused=[(far, deep)])
        assert await owner.frontier.judge_again(lambda _link, _reason: None, "wide", owner.now) == (1, 0)
        assert [one.url for _, one in await owner.frontier.outbox(9)] == [far.url]
        assert await owner.frontier.next_due(owner.now) is None
        assert (await owner.frontier.counts()).refused == {}

    @asynchronous
    async def test_a_robots_txt_hop_goes_to_the_shard_of_its_host_and_the_rules_come_back(
        self, ground: Ground
    ) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        await owner.add(A + "1")
        (visit,) = await owner.lease()
        hop = replace(
            link(f"https://{other}/robots.txt"), purpose=Purpose.ROBOTS, origin=visit.link.origin, hops=1
        )
        await owner.settle(visit, Verdict(state=State.QUEUED), again=hop)
        ((number, sent),) = await owner.frontier.outbox(10)
        assert (sent.url, sent.host, sent.purpose, sent.origin) == (
            hop.url,
            other,
            Purpose.ROBOTS,
            hop.origin,
        )
        await owner.frontier.forwarded([number])
        await owner.frontier.close()

        # The same store now acts as the other shard, whose host serves the hop.
        there = await Owner.of(ground, owner.now, shard=1 - mine, shards=2)
        await there.add(sent)
        (fetched,) = [visit for visit in await there.lease() if visit.link.host == other]
        assert (fetched.link.purpose, fetched.link.origin) == (Purpose.ROBOTS, hop.origin)
        copy = allowed(hop.origin, there.now + DAY)
        await there.settle(fetched, robots=copy)
        assert await there.frontier.robots(hop.origin) == copy  # the next try knows about this one
        ((number, back),) = await there.frontier.outbox(10)
        assert back.host == "a.example"
        await there.frontier.forwarded([number])
        await there.frontier.close()

        owner = await Owner.of(ground, there.now, shard=mine, shards=2)
        assert await owner.lease() == []
        await owner.add(back)
        assert await owner.frontier.robots(hop.origin) == copy
        assert [visit.link.url for visit in await owner.lease()] == [A + "1"]

    @asynchronous
    async def test_links_to_urls_of_other_shards_are_listed_too(self, ground: Ground) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        await owner.add(A)
        no = (link(A + "no"), Reason("trap"))
        found = [link(A + "1"), link(A), link(A + "1"), link(f"https://{other}/")]
        await owner.store(await owner.lease_page(), links=found, refused=[no])
        listed = [pair async for pair in owner.frontier.links()]
        assert sorted(listed) == sorted((A, url) for url in (A, A + "1", A + "no", f"https://{other}/"))


class MessageGround(Ground, Protocol):
    """A ground whose frontiers have a `Forwarding`."""

    sent: list[Link]  # what it has sent so far


class FrontierMessageContract:
    """Links of other shards are safe elsewhere before a verb is written. Needs a fixture `ground`."""

    @asynchronous
    async def test_links_of_other_shards_are_sent_and_leave_no_record(self, ground: MessageGround) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        assert await owner.add(A + "1") == 1
        found = [link(f"https://{other}/{number}", depth=1, parent=A + "1") for number in range(3)]
        found[1] = replace(found[1], hints=Hints(lastmod=5.5, priority=0.25, rel=("next",)))
        await owner.store(await owner.lease_page(), links=[*found, link(A + "2")])
        assert ground.sent == found
        assert await owner.add(*found) == 0
        assert ground.sent == found  # once is enough, as long as it is remembered
        owner = await owner.killed()
        counts = await owner.frontier.counts()
        assert (counts.added, counts.queued, counts.outbox) == (2, 1, 0)
        assert await owner.frontier.url(found[0].key, other) is None
        assert await owner.frontier.host(other) is None
        assert [visit.link.url for visit in await owner.lease_pages()] == [A + "2"]

    @asynchronous
    async def test_a_robots_txt_hop_is_sent_to_the_shard_of_its_host_and_the_rules_are_sent_back(
        self, ground: MessageGround
    ) -> None:
        mine, other = _foreign_to("a.example", 2)
        owner = await Owner.of(ground, shard=mine, shards=2)
        await owner.add(A + "1")
        (visit,) = await owner.lease()
        hop = replace(
            link(f"https://{other}/robots.txt"), purpose=Purpose.ROBOTS, origin=visit.link.origin, hops=1
        )
        await owner.settle(visit, Verdict(state=State.QUEUED), again=hop)
        (sent,) = ground.sent
        assert (sent.url, sent.host, sent.purpose, sent.origin) == (
            hop.url,
            other,
            Purpose.ROBOTS,
            hop.origin,
        )
        await owner.frontier.close()

        # The same store now acts as the other shard, whose host serves the hop.
        there = await Owner.of(ground, owner.now, shard=1 - mine, shards=2)
        await there.add(sent)
        (fetched,) = [visit for visit in await there.lease() if visit.link.host == other]
        copy = allowed(hop.origin, there.now + DAY)
        await there.settle(fetched, robots=copy)
        assert await there.frontier.robots(hop.origin) == copy  # the next try knows about this one
        back = ground.sent[-1]
        assert (back.host, len(ground.sent)) == ("a.example", 2)
        await there.frontier.close()

        owner = await Owner.of(ground, there.now, shard=mine, shards=2)
        assert await owner.lease() == []
        await owner.add(back)
        assert await owner.frontier.robots(hop.origin) == copy
        assert [visit.link.url for visit in await owner.lease()] == [A + "1"]

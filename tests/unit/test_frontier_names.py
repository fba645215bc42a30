"""Links offered before as the same objects: recognised without a look-up, and forgotten when that may be wrong."""

import asyncio

from skitter import urls
from skitter.frontier import names
from skitter.frontier.names import Names
from skitter.model import Reason, State, Verdict
from skitter.testing.contracts.owner import Owner, link
from skitter.testing.reference import MemoryStore
from tests.contract.grounds import RocksGround


def test_remembered_links_are_bounded(monkeypatch):
    monkeypatch.setattr(names, "_SAME", 10)
    made = Names(MemoryStore(), 0, 1, 100)
    links = [link(f"https://a.example/{number}") for number in range(11)]
    for same in (made.known, made.refused):
        for one in links[:10]:
            same.remember(one, one.key.encode())
            made.trim()
        assert [same.ids[id(one)] for one in links[:10]] == [one.key.encode() for one in links[:10]]
        same.remember(links[10], b"")
        made.trim()
        assert len(same) == 0


def test_the_same_link_to_another_shard_is_sent_once_and_the_same_refusal_kept_once(tmp_path):
    other = next(name for name in (f"o{n}.example" for n in range(99)) if urls.shard(name, 2) == 1)
    mine = next(name for name in (f"m{n}.example" for n in range(99)) if urls.shard(name, 2) == 0)

    async def crawl():
        owner = await Owner.of(RocksGround(tmp_path), shards=2)
        foreign, local = link(f"https://{other}/"), link(f"https://{mine}/")
        refusal = (link(f"https://{mine}/no"), Reason("trap"))
        for _ in range(4):
            await owner.add(foreign, local, foreign, refused=[refusal, refusal])
        counts = await owner.frontier.counts()
        assert [sent for _, sent in await owner.frontier.outbox(9)] == [foreign]
        assert (counts.outbox, counts.added, counts.refused) == (1, 1, {"trap": 1})
        assert (counts.seen, counts.known) == (4 + 8 + 8 - 1, 3 + 7 + 7)
        assert await owner.add(refusal[0]) == 1  # wanted after all
        assert (await owner.frontier.counts()).refused == {}

    asyncio.run(crawl())


def test_a_better_link_leaves_a_page_that_is_due_again_behind_those_never_fetched(tmp_path):
    ground = RocksGround(tmp_path)

    async def crawl():
        owner = await Owner.of(ground)
        page, other = "https://a.example/1", "https://a.example/2"
        urgent = link(page, score=9.0)
        await owner.add(page)
        visit = await owner.lease_page()
        await owner.settle(visit, Verdict(state=State.CRAWLED, due=owner.now + 10), status=200)
        for _ in range(3):
            await owner.add(urgent)
        assert len(owner.frontier._open_shard.names.known) == 1
        owner.now += 20
        await owner.add(link(other, score=5.0), link(other + "b", score=4.0))
        first = await owner.lease_page()  # with this lease the page waits again
        await owner.add(urgent)
        await owner.store(first)
        assert first.link.url == other
        assert await owner.crawl() == [other + "b", page]  # it has a queue of its own (decision 75)

    asyncio.run(crawl())

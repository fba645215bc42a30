"""The frontier of a cluster in rare moments: memory and engine still agree."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from skitter.frontier import ShardFrontier
from skitter.frontier.rows import PageRow
from skitter.frontier.store import LOOK
from skitter.model import Level, Place, Reason, Settlement, State, Verdict
from skitter.ports import EngineAway
from skitter.testing.contracts.owner import START, Owner, asynchronous, link, page
from skitter.testing.reference import MemoryStore
from tests.contract.grounds import FarGround, small_settings, with_ahead

A, B = "https://a.example/", "https://b.example/"


@pytest.fixture
def ground(tmp_path) -> FarGround:
    return FarGround(tmp_path / "hand")


@asynchronous
async def test_a_known_link_is_looked_up_after_its_rank_was_dropped(tmp_path):
    ground = FarGround(tmp_path / "hand", with_ahead(small_settings(window=500), 0.0))
    owner = await Owner.of(ground, delay=0.0)
    home = link(A)  # the same object on every page, as from the memo of links
    await owner.add(home, B + "1", "https://c.example/1")
    visits = {visit.link.url: visit for visit in await owner.lease_pages()}
    await owner.store(visits.pop(A))
    shard = owner.frontier._shard
    for number in range(10_000):
        if shard.seen.offer(shard.names.id_of(home), home.level, home.score) == LOOK:
            break
        await owner.add(*(link(f"https://z{number}.example/{page}") for page in range(5)), home)
    again = Verdict(state=State.QUEUED, due=owner.now + 10, reason=Reason("timeout"))
    failed, found = visits.values()
    stored = replace(page(found), archive=Place("f", 0, 10))
    settled = await owner.frontier.settle(
        [
            Settlement(visit=failed, verdict=again),
            Settlement(visit=found, verdict=Verdict(state=State.CRAWLED), page=stored, links=[home]),
        ],
        owner.mark,
        owner.now,
    )
    assert settled == [True, True]


@asynchronous
async def test_a_level_that_loses_all_its_links_at_once_has_no_head(ground):
    owner = await Owner.of(ground, delay=0.0)
    await owner.add(link(A + "1", score=5.0), link(A + "2", score=4.0))
    owner = await owner.killed()  # nothing of the queue is in memory
    await owner.add(*(link(A + page, level=Level.HIGH, score=5.0) for page in ("1", "2")), B)
    assert len(await owner.crawl()) == 3
    await owner.add(link(A + "late", score=-9.0), link(B + "good", score=3.0))
    assert await owner.crawl() == [B + "good", A + "late"]


class Moody(MemoryStore):
    """An engine that goes away once, when pages are listed for the second time."""

    lists = 0

    async def pages(self) -> AsyncIterator[PageRow]:
        self.lists += 1
        if self.lists == 2:
            raise EngineAway("gone for a moment")
        async for row in super().pages():
            yield row


@asynchronous
async def test_pages_that_repeat_a_lost_one_are_pending_again_wherever_that_was_interrupted(ground):
    owner = await Owner.of(ground, delay=0.0)
    await owner.add(A + "1", A + "2", A + "3")
    files = ("00-20260102030405-100000000.warc.gz", "00-20260102030405-200000000.warc.gz")
    await _stored(owner, await owner.lease_page(), files[0], 0)
    await _stored(owner, await owner.lease_page(), files[1], 1)
    await _stored(owner, await owner.lease_page(), files[1], 2, duplicate_of=A + "1", identical=True)
    ground.rows.epoch += 1
    frontier = ShardFrontier(Moody(ground.rows, ground.rows.epoch), ground.settings)
    await frontier.open(START)
    with pytest.raises(EngineAway):
        await frontier.reopen_files({files[0]}, START)
    await frontier.reopen_files({files[0]}, START)
    assert [stored.url async for stored in frontier.pages()] == [A + "2"]
    assert (await frontier.counts()).queued == 2


async def _stored(owner: Owner, visit, file: str, number: int, **more) -> None:
    found = replace(page(visit, digest=f"sha1:{visit.link.url}"), archive=Place(file, number, 1), **more)
    await owner.settle(visit, page=found, status=200)


@asynchronous
async def test_a_page_is_replaced_by_one_of_another_host_not_in_memory(ground):
    owner = await Owner.of(ground, delay=0.0)
    await owner.add(B + "1")
    visit = await owner.lease_page()
    await owner.settle(visit, Verdict(state=State.CRAWLED, due=owner.now + 10), page=page(visit), status=200)
    owner.now += 20
    visit = await owner.lease_page()
    moved = replace(visit.link, url="https://www.b.example/1", host="www.b.example", hops=1)
    await owner.settle(visit, Verdict(state=State.QUEUED), again=moved, status=301)
    owner = await owner.restarted()
    visit = await owner.lease_page()
    assert await owner.store(visit)
    assert [stored.host async for stored in owner.frontier.pages()] == ["www.b.example"]

"""Pages in files that the archive has lost: pending again, once, with what only repeats them, and the counts stay true."""

import pytest
from msgspec.structs import replace

from skitter.ports import Fenced, Mark
from skitter.testing.contracts.owner import Owner, asynchronous, page
from tests.contract.grounds import FarGround

A = "https://a.example/"
FILES = ("00-20260102030405-100000000.warc.gz", "00-20260102030405-200000000.warc.gz")


@pytest.fixture
def ground(tmp_path):
    return FarGround(tmp_path / "hand")


async def crawled(ground) -> Owner:
    """Three pages in the first file; in the second, one that repeats the second page, and one like none."""
    owner = await Owner.of(ground, delay=0.0)
    await owner.add(*(f"{A}{number}" for number in range(5)))
    for number in range(5):
        if number in (0, 3):
            owner.mark = Mark(FILES[number > 0], 0)
        visit = await owner.lease_page()
        repeats = number == 3
        found = page(visit, digest=f"sha1:{1 if repeats else number}")
        await owner.store(visit, replace(found, duplicate_of=f"{A}1", identical=True) if repeats else found)
    return owner


async def stored(owner: Owner) -> list[str]:
    return sorted([page.url async for page in owner.frontier.pages()])


@asynchronous
async def test_pages_of_a_lost_file_are_pending_again_with_what_repeats_them(ground):
    owner = await (await crawled(ground)).killed()
    before = await owner.frontier.counts()
    assert (before.pages, before.crawled, before.queued) == (5, 5, 0)
    assert await owner.frontier.reopen_files({FILES[0]}, owner.now) == 4
    counts = await owner.frontier.counts()
    assert (counts.pages, counts.crawled, counts.queued, counts.duplicates) == (1, 1, 4, 0)
    assert await stored(owner) == [f"{A}4"]
    assert await owner.frontier.twin("a.example", "sha1:1", None, 0) is None
    owner = await owner.killed()
    owner.mark = Mark("00-20260102030405-300000000.warc.gz", 0)
    assert sorted(await owner.crawl()) == [f"{A}{number}" for number in range(4)]
    counts = await owner.frontier.counts()
    assert (counts.pages, counts.crawled, counts.queued) == (5, 5, 0)


@asynchronous
async def test_to_say_it_again_changes_nothing(ground):
    """Whoever died between making them pending and saying so leaves it to the next owner."""
    owner = await (await crawled(ground)).killed()
    assert await owner.frontier.reopen_files({FILES[1]}, owner.now) == 2
    owner = await owner.killed()
    assert await owner.frontier.reopen_files({FILES[1]}, owner.now) == 0
    owner.mark = Mark("00-20260102030405-300000000.warc.gz", 0)
    assert len(await owner.crawl()) == 2
    assert await owner.frontier.reopen_files({FILES[1]}, owner.now) == 0
    assert await stored(owner) == [f"{A}{number}" for number in range(5)]


@asynchronous
async def test_who_is_not_the_owner_any_more_cannot_say_that_it_is_done(ground):
    owner = await (await crawled(ground)).killed()
    await Owner.of(ground, owner.now)
    for files in ({FILES[0]}, {"00-20260102030405-900000000.warc.gz"}):
        with pytest.raises(Fenced):
            await owner.frontier.reopen_files(files, owner.now)

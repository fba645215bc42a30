"""What pages need to be shown: kept apart from links, and leased alone when there are enough pages."""

from msgspec.structs import replace

from skitter import urls
from skitter.model import ASSET_SCORE, Level, Link, Purpose
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"


def asset(url: str) -> Link:
    """An asset as pages need it."""
    found = link(url, level=Level.BACKGROUND, score=ASSET_SCORE, parent=A)
    return replace(found, key=urls.asset_key(url), purpose=Purpose.ASSET)


class AssetContract:
    """Assets of pages."""

    @asynchronous
    async def test_a_page_and_an_asset_of_the_same_url_are_two(self, ground: Ground) -> None:
        owner = await Owner.of(ground, delay=0.0)
        assert await owner.add(asset(A + "1"), link(A + "1"), asset(A + "1")) == 2
        leased = {}
        for _ in range(2):
            visit = await owner.lease_page()
            leased[visit.link.purpose] = visit.link.url
            await owner.store(visit)
        assert leased == {Purpose.PAGE: A + "1", Purpose.ASSET: A + "1"}
        counts = await owner.frontier.counts()
        assert (counts.pages, counts.others) == (1, {"asset": 1})

    @asynchronous
    async def test_what_a_page_needs_is_no_link(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A))
        await owner.store(
            await owner.lease_page(), links=[link(A + "2"), asset(A + "a.css"), asset(B + "b.png")]
        )
        assert [pair async for pair in owner.frontier.links()] == [(A, A + "2")]
        needed = [pair async for pair in owner.frontier.assets()]
        assert needed == [(A, A + "a.css"), (A, B + "b.png")]

    @asynchronous
    async def test_assets_are_leased_alone_when_nothing_else_is_wanted(self, ground: Ground) -> None:
        owner = await Owner.of(ground, delay=0.0)
        await owner.add(link(A + "1"), link(A + "low", level=Level.BACKGROUND), asset(A + "a"))
        await owner.add(link(B + "1"), link(C + "1"), asset(C + "c"))
        await owner.frontier.lease_assets_only(owner.now)
        assert await _drained(owner) == {A + "a", C + "c"}
        assert await owner.frontier.next_due(owner.now) is None
        await owner.add(asset(B + "b"), link(B + "2"))  # found meanwhile
        assert await _drained(owner) == {B + "b"}
        assert await owner.frontier.next_due(owner.now) is None
        await owner.frontier.lease_assets_only(owner.now, only=False)
        assert await _drained(owner) == {A + "1", A + "low", B + "1", B + "2", C + "1"}

    @asynchronous
    async def test_nothing_is_lost_if_the_owner_dies_meanwhile(self, ground: Ground) -> None:
        owner = await Owner.of(ground, delay=0.0)
        await owner.add(link(A + "1"), asset(A + "a"), link(B + "1"), asset(C + "c"), link(C + "1"))
        await owner.frontier.lease_assets_only(owner.now)
        assert await owner.lease()  # in flight when it dies
        owner = await owner.killed(after=10)
        found = await _drained(owner)
        assert found == {A + "1", A + "a", B + "1", C + "c", C + "1"}


async def _drained(owner: Owner) -> set[str]:
    """Lease and settle until nothing is due."""
    found = set()
    for _ in range(20):
        due = await owner.frontier.next_due(owner.now)
        if due is None:
            break
        owner.now = max(owner.now, due)
        for visit in await owner.lease_pages():
            found.add(visit.link.url)
            await owner.store(visit)
    return found

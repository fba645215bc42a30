"""Cash (strategy opic): waiting URLs are ordered by what fetched pages passed on to them, and none of it is lost or doubled."""

from typing import Any

from msgspec.structs import replace

from skitter import urls
from skitter.model import TRUST, Cash, Hints, Link, Reason, State, Verdict
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link

A = "https://a.example/"
D = 0.85


async def _flowing(ground: Ground, **options: Any) -> Owner:  # noqa: ANN401  see Owner.of
    """An owner of a frontier with this strategy, and one URL that was given 1."""
    grounds: Any = ground
    schedule = replace(grounds.settings.schedule, strategy="opic", opic_damping=D)
    grounds.settings = replace(grounds.settings, schedule=schedule)
    owner = await Owner.of(ground, **({"delay": 0.0} | options))
    await owner.add(link(A, score=1.0, seed=True))
    return owner


async def _cash(owner: Owner, path: str) -> Cash:
    return (await owner.url(A + path)).cash or Cash()


def _near(one: float, other: float) -> bool:
    return abs(one - other) < 1e-9


async def _is_conserved(owner: Owner) -> bool:
    """What was given, and passed on, is what was received, or went to nobody."""
    counts = await owner.frontier.counts()
    found = [record.cash async for record in owner.frontier.urls() if record.cash is not None]
    received, passed = sum(cash.received for cash in found), sum(cash.passed for cash in found)
    return _near(received + counts.cash_sunk, counts.cash_given + D * passed)


def _links(*paths: str) -> list[Link]:
    return [link(A + path, depth=1, parent=A) for path in paths]


class FlowContract:
    """Needs a fixture `ground` with settings."""

    @asynchronous
    async def test_what_pages_pass_on_adds_up_and_decides_who_is_next(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        assert _near((await _cash(owner, "")).received, 1.0)
        await owner.store(await owner.lease_page(), links=_links("1", "2", "3", "1"))  # a link counts once
        assert [_near((await _cash(owner, path)).received, D / 3) for path in "123"] == [True] * 3
        first = await owner.lease_page()
        assert first.link.url == A + "1"
        await owner.store(first, links=_links("3", "4"))
        assert _near((await _cash(owner, "3")).received, D / 3 + D * D / 6)
        owner = await owner.restarted()  # what was leased ahead of time keeps its order until then
        assert await owner.crawl() == [A + "3", A + "2", A + "4"]
        assert await _is_conserved(owner)

    @asynchronous
    async def test_it_is_durable_with_the_settlement_and_passed_on_once(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        await owner.store(await owner.lease_page(), links=_links("1", "2"))
        await owner.lease_page()
        owner = await owner.killed(after=10.0)  # in flight: nothing of it was passed on
        assert await _is_conserved(owner)
        await owner.store(await owner.lease_page(), links=_links("2"))
        for _ in range(2):
            cash = await _cash(owner, "2")
            assert _near(cash.received, D / 2 + D * D / 2)
            assert (await owner.url(A + "2")).score == cash.received
            assert await _is_conserved(owner)
            owner = await owner.killed()
        counts = await owner.frontier.counts()
        assert _near(counts.cash_given, 1.0)
        assert _near(counts.cash_kept, (1 - D) * (1 + D / 2))

    @asynchronous
    async def test_what_comes_while_a_url_is_in_flight_is_not_lost(self, ground: Ground) -> None:
        owner = await _flowing(ground, per_host=2)
        await owner.store(await owner.lease_page(), links=_links("1", "2", "3"))
        flying = {visit.link.url: visit for visit in await owner.lease_pages(2)}
        assert sorted(flying) == [A + "1", A + "2"]
        await owner.store(flying[A + "1"], links=_links("2"))
        assert _near((await _cash(owner, "2")).received, D / 3 + D * D / 3)
        owner = await owner.killed(after=10.0)
        assert _near((await _cash(owner, "2")).received, D / 3 + D * D / 3)
        while (visit := await owner.lease_page()).link.url != A + "2":
            await owner.store(visit)
        await owner.store(visit, links=_links("4"))
        assert _near((await _cash(owner, "4")).received, D * (D / 3 + D * D / 3))
        assert A + "4" in await owner.crawl()
        assert await _is_conserved(owner)

    @asynchronous
    async def test_a_fetched_page_takes_note_and_is_not_queued(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        await owner.store(await owner.lease_page(), links=_links("1"))
        before = (await owner.frontier.counts()).cash_kept
        await owner.store(await owner.lease_page(), links=[*_links("1"), link(A)])
        assert await owner.crawl() == []
        cash = await _cash(owner, "")
        assert (_near(cash.received, 1 + D * D / 2), cash.passed) == (True, 1.0)
        kept = (await owner.frontier.counts()).cash_kept
        assert _near(kept, before + (1 - D) * (D + 2 * D * D / 2))
        assert await _is_conserved(owner)

    @asynchronous
    async def test_refused_links_have_their_share_and_nobody_gets_it(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        no = [(link(A + path), Reason("trap")) for path in ("no", "never")]
        await owner.store(await owner.lease_page(), links=_links("1", "2"), refused=no)
        assert _near((await _cash(owner, "1")).received, D / 4)
        assert _near((await owner.frontier.counts()).cash_sunk, D / 2)
        assert await _is_conserved(owner)

    @asynchronous
    async def test_a_retry_keeps_what_it_has_and_gets_more(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        await owner.store(await owner.lease_page(), links=_links("1", "2"))
        again = Verdict(state=State.QUEUED, reason=Reason("timeout"), due=owner.now + 5)
        await owner.settle(await owner.lease_page(), again)
        await owner.store(await owner.lease_page(), links=_links("1", "3"))
        assert _near((await _cash(owner, "1")).received, D / 2 + D * D / 4)
        owner.now += 10
        assert await owner.crawl() == [A + "3", A + "1"]  # behind what was not tried yet
        assert await _is_conserved(owner)

    @asynchronous
    async def test_nothing_is_given_twice(self, ground: Ground) -> None:
        owner = await _flowing(ground)
        for _ in range(2):
            await owner.add(link(A, score=1.0, seed=True), link(A + "new", score=1.0, seed=True))
            owner = await owner.killed()
        assert _near((await owner.frontier.counts()).cash_given, 2.0)
        carried = [
            replace(_links("x")[0], hints=Hints(given=(7, total))) for total in (0.25, 0.75, 0.5, 0.75)
        ]
        for one in carried:  # twice, and in any order
            await owner.add(one)
            owner = await owner.restarted()
        await owner.add(replace(carried[0], hints=Hints(given=(8, 0.125))))
        cash = await _cash(owner, "x")
        assert (cash.received, cash.given) == (0.875, {7: 0.75, 8: 0.125})
        assert (await owner.url(A + "x")).hints is None
        assert (await _cash(owner, "new")).given == {TRUST: 1.0}

    @asynchronous
    async def test_links_to_another_shard_carry_all_that_was_given_there(self, ground: Ground) -> None:
        mine = urls.shard("a.example", 2)
        names = (f"other{number}.example" for number in range(1000))
        other = f"https://{next(name for name in names if urls.shard(name, 2) != mine)}/"
        owner = await _flowing(ground, shard=mine, shards=2)
        abroad = link(other, depth=1, parent=A)
        await owner.store(await owner.lease_page(), links=[*_links("1"), abroad])
        assert await _brought(owner, ground, other) == D / 2
        owner = await owner.killed()
        await owner.store(await owner.lease_page(), links=[abroad])
        assert _near(await _brought(owner, ground, other), D / 2 + D * D / 2)
        await owner.add(link(f"{other}seed", score=1.0, seed=True))  # what it is given goes with it
        assert await _brought(owner, ground, f"{other}seed") == 1.0


async def _brought(owner: Owner, ground: Ground, url: str) -> float:
    """What the last message about a URL brings."""
    told: Any = ground
    sent: list[Link] = getattr(told, "sent", None) or [each for _, each in await owner.frontier.outbox(100)]
    last = [each for each in sent if each.url == url][-1]
    return last.score if last.hints is None or last.hints.given is None else last.hints.given[1]

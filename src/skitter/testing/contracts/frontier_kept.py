"""Frontier: what is kept of a URL besides its state, through every way it may go."""

from msgspec.structs import replace

from skitter.model import Hints, Link, Reason, State, Verdict
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link

A, B = "https://a.example/", "https://b.example/"
HINTS = Hints(lastmod=1_714_521_600.5, priority=0.8, rel=("next", "author"))


def hinted(url: str, hints: Hints = HINTS, **fields: float) -> Link:
    """A link about which something was said."""
    return replace(link(url), hints=hints, **fields)


class KeptContract:
    """Hints."""

    @asynchronous
    async def test_hints_come_back_with_every_visit_and_stay_in_the_record(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), link(A + "2", score=-1.0))
        owner = await owner.killed()
        first = await owner.lease_page()
        assert first.link.hints == HINTS
        await owner.settle(first, Verdict(state=State.QUEUED, due=owner.now + 5))  # tried again later
        plain = await owner.lease_page()
        assert plain.link.hints is None
        await owner.store(plain)
        owner = await owner.restarted(after=5)
        again = await owner.lease_page()
        assert (again.link.url, again.link.hints) == (A + "1", HINTS)
        await owner.store(again)
        owner = await owner.killed()
        assert (await owner.url(A + "1")).hints == HINTS
        assert (await owner.url(A + "2")).hints is None

    @asynchronous
    async def test_hints_of_refused_links_and_of_links_set_aside_are_kept(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), hinted(A + "2"), refused=[(hinted(B), Reason("scope.host", "no"))])
        aside = Verdict(state=State.FAILED, reason=Reason("x"), host_aside=Reason("retry-after", "a week"))
        await owner.settle(await owner.lease_page(), aside)
        owner = await owner.killed()
        for url in (A + "1", A + "2", B):
            assert (await owner.url(url)).hints == HINTS

    @asynchronous
    async def test_the_hints_of_the_first_link_to_a_url_stay(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(hinted(A + "1"), link(A + "2"))
        await owner.add(hinted(A + "1", Hints(priority=0.1)), hinted(A + "2", score=5.0))
        assert (await owner.url(A + "1")).hints == HINTS
        assert (await owner.url(A + "2")).hints is None

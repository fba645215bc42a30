"""A changed robots.txt is applied while the crawl goes on."""

from msgspec.structs import replace

from skitter.model import Reason, State
from skitter.testing.contracts.owner import Owner, asynchronous
from tests.contract.grounds import FarGround, small_settings

A, B = "https://a.example/", "https://b.example/"


@asynchronous
async def sweep_while_a_url_moves(hand):
    owner = await Owner.of(FarGround(hand, small_settings()))
    await owner.add(A + "private", B + "private")
    urls = owner.frontier._store.urls

    async def as_they_were():
        """Since they were read, a redirect has moved one to another host: only its spelling has changed."""
        async for row in urls():
            yield replace(row, host="a.example")

    owner.frontier._store.urls = as_they_were
    await owner.new_rules("https://b.example")
    for number in range(40):  # more hosts than there is room for
        await owner.add(f"https://h{number}.example/")
    forbidden = Reason("robots", "robots.txt line 2: Disallow: /private")

    async def rules(origins):
        return dict.fromkeys(origins, lambda url: forbidden if "private" in url else None)

    await owner.frontier.judge_by_rules(rules, owner.now)
    assert (await owner.url(B + "private")).state is State.REFUSED


def test_a_url_that_moves_to_another_host_meanwhile_is_judged_there(tmp_path):
    sweep_while_a_url_moves(tmp_path / "hand")

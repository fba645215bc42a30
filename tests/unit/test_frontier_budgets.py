"""Budgets in a frontier: what is counted together stays true and in memory, whatever happens to its owner."""

import asyncio

import pytest
from msgspec.structs import replace

from skitter import urls
from skitter.crawl.records import ShardedRecords
from skitter.frontier.counting import is_tally
from skitter.model import Reason, Settlement, State, Verdict
from skitter.politeness.budgets import group_tally, tally_name
from skitter.settings import BudgetSettings
from skitter.settings.file import build, from_toml
from skitter.testing.contracts.owner import DAY, START, Owner, asynchronous, exchange
from tests.contract.grounds import AtHandGround, FarGround, small_settings

A, B = "https://a.many.example/", "https://b.many.example/"
FAILED = Verdict(state=State.FAILED, reason=Reason("http.500"))


def budgeted(**limits):
    return replace(small_settings(), budget=BudgetSettings(**limits))


@pytest.fixture(params=[AtHandGround, FarGround])
def kind(request):
    return request.param


async def request(owner, visit, at=START):
    """A visit that was made, and brought no page."""
    sent = replace(exchange(visit.link.url), started=at, ended=at + 1)
    settlement = Settlement(visit=visit, verdict=FAILED, exchange=sent)
    await owner.frontier.settle([settlement], owner.mark, owner.now)


def test_what_was_handed_out_and_is_given_back_may_have_been_sent(kind, tmp_path):
    """Stopped at once, a request of today is neither made nor undone: it counts."""

    @asynchronous
    async def main():
        ground = kind(tmp_path / "hand", budgeted(host_requests_per_day=3, domain_requests_per_day=3))
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        visit = await owner.lease_page()
        used = (await owner.frontier.host("a.many.example")).usage
        before = used.requests if used else 0
        owner = await owner.restarted()
        after = await owner.frontier.host("a.many.example")
        assert after.usage.requests == before + 1
        assert visit.link.url == A + "1"

    main()


def test_memory_that_was_read_again_keeps_what_open_visits_need(tmp_path):
    """After the engine refused a write, hosts come and go; the visit in flight is settled like any other."""

    @asynchronous
    async def main():
        owner = await Owner.of(FarGround(tmp_path / "hand", budgeted(domain_pages=100)))
        await owner.add(A + "1")
        visit = await owner.lease_page()
        async with owner.frontier._verb():
            await owner.frontier._read_again(owner.now)
        for number in range(40):
            await owner.add(f"https://h{number}.example/")
        await request(owner, visit)
        assert (await owner.url(A + "1")).state is State.FAILED

    main()


def test_a_host_with_a_star_in_its_name_is_a_host_like_others(kind, tmp_path):
    """A page may link to one; nobody has to answer there."""

    @asynchronous
    async def main():
        owner = await Owner.of(kind(tmp_path / "hand", budgeted(domain_pages=100)))
        await owner.add("https://*.many.example/", A + "1")
        await owner.crawl()
        names = {host.host: host.pages for host in [host async for host in owner.frontier.hosts()]}
        assert names == {"*.many.example": 1, "a.many.example": 1}
        assert not is_tally("*.many.example")

    main()


def test_an_answer_of_the_evening_does_not_undo_the_count_of_the_morning(kind, tmp_path):
    @asynchronous
    async def main():
        ground = kind(tmp_path / "hand", budgeted(domain_requests_per_day=100))
        midnight = (START // DAY + 1) * DAY
        owner = await Owner.of(ground, midnight - 5)
        await owner.add(A + "1", B + "1")
        slow, quick = await owner.lease_page(), await owner.lease_page()
        owner.now = midnight + 10
        await request(owner, quick, midnight + 1)
        await request(owner, slow, midnight - 1)
        used = (await owner.frontier.host(tally_name("many.example"))).usage
        assert (used.day, used.requests) == (midnight // DAY, 1)

    main()


def test_a_group_with_other_hosts_has_used_what_these_have(tmp_path):
    """What its hosts of before have used is theirs."""

    def settings(hosts):
        words = f'[group.g]\nhosts = ["{hosts}"]\nrequests_per_day = 9\n'
        return replace(small_settings(), group=build(from_toml(words)).group)

    @asynchronous
    async def main():
        ground = AtHandGround(tmp_path / "hand", settings("a.many.example"))
        owner = await Owner.of(ground)
        await owner.frontier.judge_again(lambda _link, _reason: None, "1", owner.now)
        await owner.add(A + "1")
        await request(owner, await owner.lease_page())
        assert (await owner.frontier.host(group_tally("g"))).usage.requests == 1
        ground.settings = settings("elsewhere.example")
        owner = await owner.restarted()
        await owner.frontier.judge_again(lambda _link, _reason: None, "2", owner.now)
        assert (await owner.frontier.host(group_tally("g"))).usage.requests == 0

    main()


def test_what_a_domain_has_used_is_read_from_the_shard_of_its_hosts():
    """Also where the domain is an address, or a public suffix."""

    class Asked:
        async def host(self, name):
            return self, name

    shards = [Asked() for _ in range(64)]
    for host in ("www.example.org", "192.0.2.1", "co.uk"):
        domain = urls.registrable_domain(host)
        owner, name = asyncio.run(ShardedRecords(shards).host(tally_name(domain)))
        assert owner is shards[urls.shard(domain, 64)]
        assert is_tally(name)

"""Budgets that grow with links from other domains: what is over budget waits, and nothing of it is lost."""

from typing import Any

from msgspec.structs import replace

from skitter import reasons, urls
from skitter.model import Link, State, Verdict, Visit
from skitter.testing.contracts.frontier_commands import block, obey, unblock
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link

A = "https://a.example/"
NOTHING = Verdict(state=State.CRAWLED)


def _budgeted(ground: Ground, **chosen: Any) -> None:  # noqa: ANN401  see BudgetSettings
    grounds: Any = ground
    budget = replace(grounds.settings.budget, **chosen)
    # Hosts of a domain that answer nothing but errors would be parked, whatever their budget.
    learning = replace(grounds.settings.learning, patterns=False)
    grounds.settings = replace(grounds.settings, budget=budget, learning=learning)


async def _limited(ground: Ground, **options: Any) -> Owner:  # noqa: ANN401  see Owner.of
    """An owner of a frontier in which a domain has two pages, and two more for each that links to it."""
    _budgeted(ground, linked_first=2, linked_more=2, linked_most=7)
    return await Owner.of(ground, **({"delay": 0.0} | options))


def _links(number: int, base: str = A) -> list[Link]:
    return [link(f"{base}{each}", depth=1) for each in range(number)]


def _from(domain: str, url: str = f"{A}0") -> Link:
    """A link that a page of another domain has."""
    return link(url, depth=1, parent=f"https://{domain}/")


async def _refused(owner: Owner) -> int:
    return (await owner.frontier.counts()).refused.get(reasons.BUDGET_LINKED, 0)


async def _crawl(owner: Owner, stored: int = 200) -> list[str]:
    """Store pages until nothing is leased. What a budget puts off waits for a moment, as it does in a crawl."""
    found: list[str] = []
    for _ in range(1000):
        visits = await _wanted(owner)
        if not visits or len(found) == stored:
            return found
        found.append(visits[0].link.url)
        await owner.store(visits[0])
    raise AssertionError("it never ends")


async def _wanted(owner: Owner) -> list[Visit]:
    """The next visit that may be made."""
    for _ in range(1000):
        visits = await owner.lease_pages(1)
        if not visits or visits[0].spent is None:
            return visits
        spent = visits[0].spent
        assert spent.until > owner.now, "refused for good"
        later = Verdict(
            state=State.QUEUED, reason=spent.reason, due=spent.until, attempted=False, host_held=spent.until
        )
        await owner.settle(visits[0], later)
        owner.now = spent.until
    raise AssertionError("it is put off again and again")


class LinkedContract:
    """Needs a fixture `ground` with settings."""

    @asynchronous
    async def test_what_is_over_budget_waits_and_comes_back_with_links_from_other_domains(
        self, ground: Ground
    ) -> None:
        owner = await _limited(ground)
        await owner.add(*_links(9))
        assert len(await _crawl(owner)) == 2
        assert await owner.frontier.next_due(owner.now) is None  # the crawl is over
        assert await _refused(owner) == 7
        record = await owner.url(f"{A}5")
        assert (record.state, record.reason and record.reason.code) == (State.REFUSED, reasons.BUDGET_LINKED)
        await owner.add(_from("www.a.example"), _from("sub.b.example"))
        assert len(await _crawl(owner)) == 2
        await owner.add(_from("b.example"), _from("other.b.example"))  # the same domain
        assert await _crawl(owner) == []
        owner = await owner.killed()
        await owner.add(_from("c.example"), _from("d.example"), _from("e.example"))
        assert len(await _crawl(owner)) == 3  # seven in all, however many link there
        assert await _refused(owner) == 2

    @asynchronous
    async def test_links_of_settled_pages_count_also_if_their_targets_are_known(self, ground: Ground) -> None:
        owner = await _limited(ground)
        await owner.add(*_links(6))
        assert len(await _crawl(owner)) == 2
        counts = []
        for number, domain in enumerate(("b.example", "b.example", "c.example")):
            await owner.add(f"https://{domain}/{number}")
            visit = await owner.lease_page()
            assert visit.link.host == domain
            await owner.store(visit, links=[link(f"{A}0", depth=1), link(f"{A}1", depth=1)])
            owner = await owner.killed(after=1.0)
            counts.append(len(await _crawl(owner)))
        assert counts == [2, 0, 2]  # the same domain counts once
        assert await _refused(owner) == 0

    @asynchronous
    async def test_every_host_of_a_domain_gets_its_turn_and_none_is_lost(self, ground: Ground) -> None:
        owner = await _limited(ground)
        _budgeted(ground, linked_most=1000)
        owner = await owner.restarted()
        names = [f"h{number}.a.example" for number in range(30)]
        await owner.add(*(link(f"https://{name}/{page}", depth=1) for name in names for page in range(2)))
        found = await _crawl(owner)
        assert len(found) == 2
        assert await _refused(owner) == 58
        for number in range(40):
            await owner.add(_from(f"d{number}.example", f"https://{names[0]}/0"))
            found += await _crawl(owner)
            if number == 20:
                owner = await owner.killed()
        assert sorted(found) == sorted(f"https://{name}/{page}" for name in names for page in range(2))
        assert await _refused(owner) == 0

    @asynchronous
    async def test_visits_that_give_no_page_leave_their_place_to_others(self, ground: Ground) -> None:
        owner = await _limited(ground)
        names = [f"h{number}.a.example" for number in range(20)]
        await owner.add(*(link(f"https://{name}/", depth=1) for name in names))
        found = await _crawl(owner)
        await owner.add(_from("b.example", f"https://{names[0]}/"))
        gone = 0
        while visits := await _wanted(owner):
            await owner.settle(visits[0], NOTHING, status=404)
            gone += 1
        assert (len(found), gone, await _refused(owner)) == (2, 18, 0)

    @asynchronous
    async def test_what_is_added_to_a_host_that_waits_is_not_refused_for_good(self, ground: Ground) -> None:
        owner = await _limited(ground)
        await owner.add(*_links(3))
        assert len(await _crawl(owner)) == 2
        await owner.add(f"{A}new", link(f"{A}seed", seed=True))
        assert await _crawl(owner) == []
        await owner.add(_from("b.example"), _from("c.example"))
        assert sorted(await _crawl(owner)) == [f"{A}2", f"{A}new", f"{A}seed"]

    @asynchronous
    async def test_other_settings_let_all_that_wait_go_on(self, ground: Ground) -> None:
        owner = await _limited(ground)
        await owner.frontier.judge_again(lambda _link, _refused: None, "these", owner.now)
        await owner.add(*_links(5), *_links(4, "https://b.a.example/"))
        assert len(await _crawl(owner)) == 2
        _budgeted(ground, linked_first=4)
        owner = await owner.restarted()
        await owner.frontier.judge_again(lambda _link, _refused: None, "more", owner.now)
        assert len(await _crawl(owner)) == 2
        assert await _refused(owner) == 5
        _budgeted(ground, linked_first=None)
        owner = await owner.restarted()
        await owner.frontier.judge_again(lambda _link, _refused: None, "all", owner.now)
        assert len(await _crawl(owner)) == 5

    @asynchronous
    async def test_a_host_that_is_blocked_and_unblocked_meanwhile_waits_once(self, ground: Ground) -> None:
        owner = await _limited(ground)
        names = [f"h{number}.a.example" for number in range(4)]
        await owner.add(*(link(f"https://{name}/{page}", depth=1) for name in names for page in range(2)))
        found = await _crawl(owner)
        for _ in range(2):
            done = owner.frontier.obeyed()
            await obey(owner, block(done + 1, names[3]), unblock(done + 2, names[3]))
            found += await _crawl(owner)
        assert len(found) == 2
        await owner.add(*(_from(f"d{number}.example", f"https://{names[0]}/0") for number in range(5)))
        found += await _crawl(owner)
        assert len(found) == len(set(found)) == 7

    @asynchronous
    async def test_a_known_link_to_another_shard_is_sent_again_from_each_new_domain(
        self, ground: Ground
    ) -> None:
        mine = urls.shard("a.example", 2)
        names = [f"o{number}.example" for number in range(1000)]
        other = next(name for name in names if urls.shard(name, 2) != mine)
        own = [name for name in names if urls.shard(name, 2) == mine][:3]
        owner = await _limited(ground, shard=mine, shards=2)
        abroad = link(f"https://{other}/", depth=1, parent="https://somewhere.example/")
        for name in (*own, own[0]):
            await owner.add(f"https://{name}/{owner.mark.end}")
            await owner.store(await owner.lease_page(), links=[abroad])
        told: Any = ground
        sent = getattr(told, "sent", None) or [each for _, each in await owner.frontier.outbox(100)]
        parents = {urls.host(each.parent) for each in sent if each.url == abroad.url}
        assert parents >= set(own)

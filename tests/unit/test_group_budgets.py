"""Budgets of groups, between shards: nobody waits for what nobody holds, and nothing is spent while others are unknown."""

import asyncio
import random

import pytest

from skitter.backends.accounts import MemoryAccounts, SharedAccounts
from skitter.crawl.directory import CrawlDirectory
from skitter.model import Exchange, Settlement, State, Verdict, Visit
from skitter.politeness.budgets import DAY, Limits, limited_groups
from skitter.politeness.groups import GroupBudgets
from skitter.politeness.shares import Held
from skitter.ports import Account
from skitter.settings.file import build, from_toml
from skitter.settings.sites import sites_of
from skitter.testing.contracts.owner import link, page

A, B = "http://a.g.test/", "http://b.g.test/"


def budgets(words, accounts, shards=2):
    settings = build(from_toml(words))
    limits, sites = limited_groups(settings), sites_of(settings)
    return [GroupBudgets(limits, sites, accounts, shard) for shard in range(shards)]


def visit(url, now=0.0):
    return Visit(link(url), 1, now)


def settled(one, **more):
    return Settlement(visit=one, verdict=Verdict(state=State.CRAWLED), **more)


def answer(started, beyond=0):
    return Exchange(A, "192.0.2.1", started, started + 1, b"GET", b"h" * 10, b"", beyond=beyond)


def test_whoever_may_not_take_the_last_page_is_not_waited_for():
    """The visit that had it brought no page, so it is free again; the two must not wait for each other for ever."""
    first, second = budgets('[group.g]\nhosts = ["*.g.test"]\npages = 1\n', MemoryAccounts())

    async def main():
        mine, yours = visit(A), visit(B)
        assert await first.claim(mine, 0.0) is None
        assert (await second.claim(yours, 0.0)).reason.code == "budget.wait"
        await first.settled([settled(mine)])
        return [await first.claim(mine, 1.0), await second.claim(yours, 1.0)]

    assert [told is None for told in asyncio.run(main())] == [True, False]


def test_a_group_that_refuses_holds_nothing_of_the_others():
    words = (
        '[group.g]\nhosts = ["*.g.test"]\npages = 1\n[group.h]\nhosts = ["a.g.test"]\nrequests_per_day = 1\n'
    )
    first, second = budgets(words, MemoryAccounts())

    async def main():
        one = visit(A)
        assert await first.claim(one, 0.0) is None
        await first.settled([settled(one, exchange=answer(0.0))])
        assert (await first.claim(visit(A), 2.0)).reason.code == "budget.day"
        return await second.claim(visit(B), 3.0)

    assert asyncio.run(main()) is None


class Deaf(MemoryAccounts):
    """Accounts that cannot be reached now and then."""

    may_be_away = True
    away = False

    async def exchange(self, group, shard, own):
        return None if self.away else await super().exchange(group, shard, own)


def test_what_could_not_be_told_is_told_later():
    accounts = Deaf()
    first, second = budgets('[group.g]\nhosts = ["*.g.test"]\npages = 1\n', accounts)

    async def main():
        one = visit(A)
        await first.claim(one, 0.0)
        accounts.away = True
        await first.settled([settled(one)])
        accounts.away = False
        before = await second.claim(visit(B), 1.0)
        await first.tell(1.0)
        return before, await second.claim(visit(B), 2.0)

    before, after = asyncio.run(main())
    assert before.reason.code == "budget.wait"
    assert after is None


def test_an_answer_of_the_evening_does_not_undo_the_count_of_the_morning():
    (only,) = budgets('[group.g]\nhosts = ["*.g.test"]\nrequests_per_day = 2\n', MemoryAccounts(), 1)

    async def main():
        slow, quick, last = (visit(A) for _ in range(3))
        assert await only.claim(slow, DAY - 1) is None
        assert await only.claim(quick, DAY + 1) is None
        await only.settled([settled(quick, exchange=answer(DAY + 1))])
        await only.settled([settled(slow, exchange=answer(DAY - 1))])
        assert await only.claim(last, DAY + 9) is None
        await only.settled([settled(last, exchange=answer(DAY + 9))])
        return await only.claim(visit(A), DAY + 20)

    told = asyncio.run(main())
    assert told is not None
    assert (told.reason.code, told.until) == ("budget.day", 2 * DAY)


def test_what_a_large_sitemap_brings_counts_in_full():
    (only,) = budgets('[group.g]\nhosts = ["*.g.test"]\nbytes = "1MB"\n', MemoryAccounts(), 1)

    async def main():
        one = visit(A)
        await only.claim(one, 0.0)
        await only.settled([settled(one, exchange=answer(0.0, beyond=2_000_000))])
        return await only.claim(visit(A), 5.0)

    assert asyncio.run(main()).reason.code == "budget.group"


# ------------------------------------------------------------------------------------------------ shares


class Flaky(MemoryAccounts):
    """Accounts that some shards cannot reach, and that are slow: others get in between."""

    may_be_away = True

    def __init__(self, dice):
        super().__init__()
        self.dice = dice
        self.cut_off = set()

    async def exchange(self, group, shard, own):
        if shard in self.cut_off:
            return None
        await super().exchange(group, shard, own)
        for _ in range(self.dice.randrange(3)):
            await asyncio.sleep(0)
        return [account for other, account in self._groups[group].items() if other != shard]


def page_of(one):
    return settled(one, page=page(one), exchange=answer(one.leased_at))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("limit", ["pages = 60", "requests_per_day = 60"])
def test_shards_that_are_cut_off_spend_their_shares_and_never_more_than_the_budget(seed, limit):
    """Whoever is cut off, and whenever: what is used and in flight is within the budget, and nothing of it is lost."""
    dice = random.Random(seed)
    accounts = Flaky(dice)
    every = budgets(f'[group.g]\nhosts = ["*.g.test"]\n{limit}\n', accounts, 4)
    used, out, alone = 0, 0, 0

    async def one_visit(shard, now):
        nonlocal used, out, alone
        one = visit(A, now)
        if await every[shard].claim(one, now) is not None:
            return
        out += 1
        alone += shard in accounts.cut_off
        assert used + out <= 60
        await asyncio.sleep(0)
        is_page = dice.random() < 0.7 or "requests" in limit
        used, out = used + is_page, out - 1
        await every[shard].settled([page_of(one) if is_page else settled(one)])

    async def main():
        for shard in every:
            for name in shard._limits:
                await shard._exchange(name)
        for step in range(25):
            accounts.cut_off = {shard for shard in range(4) if dice.random() < 0.4}
            await asyncio.gather(*(one_visit(dice.randrange(4), float(step)) for _ in range(6)))
            await asyncio.gather(*(shard.tell(float(step)) for shard in every))
        accounts.cut_off = set()
        for step in range(100, 600, 10):
            await asyncio.gather(*(shard.tell(float(step)) for shard in every))
            await asyncio.gather(*(one_visit(shard, float(step)) for shard in range(4)))
        return (await every[0].claim(visit(B), 700.0)).reason.code

    assert asyncio.run(main()) in {"budget.group", "budget.day"}
    assert used == 60
    assert alone, "nobody was cut off with a share"


def test_a_share_that_others_have_no_room_for_is_not_taken():
    """Another has set aside more since: whoever reads last sees both."""
    held, limits = Held(), Limits(pages=10)
    held.weigh(limits, [Account(), Account()], held.turn, 0.0)
    assert (held.sure.visits, held.told.visits) == (0, 2)
    assert held.weigh(limits, [Account(share=2), Account(pages=4, share=5)], held.turn, 0.0)
    assert (held.sure.visits, held.told.visits) == (0, 0)


def test_a_visit_that_another_group_refuses_leaves_the_share_whole():
    words = (
        '[group.g]\nhosts = ["*.g.test"]\npages = 40\n[group.h]\nhosts = ["a.g.test"]\nrequests_per_day = 1\n'
    )
    accounts = Deaf()
    (only,) = budgets(words, accounts, 1)

    async def main():
        one = visit(B)
        assert await only.claim(one, 0.0) is None
        await only.settled([page_of(one)])
        accounts.away = True
        refused = [await only.claim(visit(A), 1.0) for _ in range(50)]
        return all(refused), await only.claim(visit(B), 2.0)

    assert asyncio.run(main()) == (True, None)


@pytest.mark.parametrize("limit", ['bytes = "8000B"', 'seconds = "80s"'])
def test_a_shard_that_is_cut_off_spends_its_share_of_bytes_and_seconds(limit):
    """Of two shards, the one that spends has a quarter of what is left; what is in flight comes on top."""
    accounts = Deaf()
    first, second = budgets(f'[group.g]\nhosts = ["*.g.test"]\n{limit}\n', accounts)

    async def one_visit(now):
        one = visit(A, now)
        if await first.claim(one, now) is not None:
            return False
        await first.settled([settled(one, exchange=answer(now, beyond=90))])  # 103 bytes in a second
        return True

    async def main():
        await second._exchange("g")
        assert await one_visit(0.0)
        accounts.away = True
        alone = [await one_visit(float(now)) for now in range(1, 60)]
        accounts.away = False
        waits = await second.claim(visit(B), 70.0)
        return sum(alone), waits

    alone, waits = asyncio.run(main())
    assert alone == pytest.approx(19.5, abs=0.5)
    assert waits is None


# ------------------------------------------------------------------------------------------------ of a fleet


@pytest.fixture
def directory(tmp_path):
    made = CrawlDirectory(tmp_path / "c")
    made.prepare()
    return made


def test_nothing_is_spent_until_every_shard_has_told_what_it_has_used(directory):
    """After a restart, a shard that is opened late may have used it all up."""
    path = directory.accounts_file(["g"])

    async def main():
        one, other = SharedAccounts(path, ["g"], 2), SharedAccounts(path, ["g"], 2)
        early = await one.exchange("g", 0, Account())
        await other.exchange("g", 1, Account(pages=9))
        return early, await one.exchange("g", 0, Account())

    assert asyncio.run(main()) == (None, [Account(pages=9)])


def test_workers_under_other_settings_leave_the_table_of_those_before_alone(directory):
    """Those that still finish what is in flight have it mapped: a shorter file would kill them."""

    async def main():
        names = [f"g{number}" for number in range(200)]
        before = SharedAccounts(directory.accounts_file(names), names, 2)
        directory.forget_accounts()
        after = SharedAccounts(directory.accounts_file(["g"]), ["g"], 2)
        await after.exchange("g", 0, Account(pages=1))
        await before.exchange("g199", 0, Account(pages=7))
        again = SharedAccounts(directory.accounts_file(names), names, 2)
        return await again.exchange("g199", 1, Account())

    assert asyncio.run(main()) is None

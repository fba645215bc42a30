"""Frontier, invariant 10: what a person commands is applied once, whatever happens meanwhile."""

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from skitter.model import HostRecord, Purpose, Reason, Settlement, State, Verdict
from skitter.ports import Command, Do
from skitter.testing.contracts.owner import DAY, Ground, Owner, allowed, asynchronous, exchange, link, page

A, B, ORIGIN = "https://a.example/", "https://b.example/", "https://a.example"
_FAILED = Verdict(state=State.FAILED, reason=Reason("timeout", "no answer"))
_FORBIDDEN = Verdict(state=State.REFUSED, reason=Reason("robots", "Disallow: /"), attempted=False)
_UNWANTED = Verdict(state=State.REFUSED, reason=Reason("scope.depth", "too deep"), attempted=False)
_NOT_NOW = Reason("retry-after", "not now")


def block(number: int, *hosts: str) -> Command:
    """A command to block hosts."""
    return Command(number, Do.BLOCK, hosts)


def unblock(number: int, *hosts: str) -> Command:
    """A command to unblock hosts."""
    return Command(number, Do.UNBLOCK, hosts)


def retry(number: int, *urls: str, failed: bool = False, hosts: tuple[str, ...] = ()) -> Command:
    """A command to retry URLs."""
    named = [(link(url).key, link(url).host) for url in urls]
    return Command(number, Do.RETRY, hosts, named, failed)


async def obey(owner: Owner, *commands: Command) -> list[tuple[int, int, int]]:
    """Apply commands, as the tuples of what they changed."""
    return [tuple(each) for each in await owner.frontier.obey(commands, owner.now)]  # type: ignore[misc]


async def host_of(owner: Owner, name: str = "a.example") -> HostRecord:
    """The record of a host, which must exist."""
    record = await owner.frontier.host(name)
    assert record is not None
    return record


class CommandContract:
    """Needs a fixture `ground`."""

    # -- once, in order ----------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_command_is_applied_once_whoever_owns_the_shard(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        assert owner.frontier.obeyed() == 0
        assert await obey(owner, block(1, "a.example"), unblock(2, "a.example")) == [(1, 1, 0), (2, 1, 0)]
        assert owner.frontier.obeyed() == 2
        assert await obey(owner, block(1, "a.example"), unblock(2, "a.example")) == []
        owner = await owner.killed(after=5)
        assert owner.frontier.obeyed() == 2
        assert await obey(owner, block(1, "a.example")) == []
        assert (await host_of(owner)).aside is None
        owner = await owner.restarted(after=5)
        assert await obey(owner, block(1, "a.example"), block(3, "a.example")) == [(3, 1, 0)]
        owner = await owner.killed(after=5)
        assert owner.frontier.obeyed() == 3
        assert await owner.lease() == []

    @asynchronous
    async def test_commands_that_change_nothing_here_are_applied_too(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        assert await obey(owner, Command(1, Do.PAUSE), Command(2, Do.CONTINUE)) == [(1, 0, 0), (2, 0, 0)]
        assert await obey(owner, unblock(3, "a.example"), retry(4, A + "1")) == [(3, 0, 1), (4, 0, 0)]
        owner = await owner.killed()
        assert owner.frontier.obeyed() == 4
        assert await owner.frontier.host("a.example") is None

    @asynchronous
    async def test_hosts_and_urls_of_other_shards_are_passed_over(self, ground: Ground) -> None:
        owner = await Owner.of(ground, shard=0, shards=2)
        names = [f"{letter}.example" for letter in "abcdefgh"]
        ((_, blocked, same),) = await obey(owner, block(1, *names))
        assert 0 < blocked < len(names)
        assert same == 0
        assert (await owner.frontier.counts()).hosts == blocked

    @asynchronous
    async def test_a_command_that_was_broken_off_is_applied_again(self, ground: Ground) -> None:
        """The log has the command, and the owner died before, while or after it wrote the changes."""
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", A + "3")
        for _ in range(3):
            await owner.settle(await owner.lease_page(), _FAILED)
            owner.now += 5
        owner = await owner.killed(after=5)
        command = retry(1, failed=True)
        assert await obey(owner, command) == [(1, 3, 0)]
        # As if the last write of the command had not been made: its number is new, its work is done.
        assert await obey(owner, replace(command, number=2)) == [(2, 0, 0)]
        owner = await owner.killed(after=5)
        assert sorted(await owner.crawl()) == [A + "1", A + "2", A + "3"]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed, counts.crawled, counts.failures) == (0, 0, 3, {})

    # -- blocking ----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_nothing_of_a_blocked_host_is_handed_out_and_nothing_is_lost(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", B + "1")
        assert await obey(owner, block(1, "a.example", "b.example", "a.example")) == [(1, 2, 1)]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.hosts_aside) == (0, {"blocked": 3}, 2)
        record = await owner.url(A + "1")
        assert (record.state, record.reason and record.reason.code) == (State.REFUSED, "blocked")
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        owner = await owner.killed(after=50)
        assert await owner.lease() == []
        assert await obey(owner, unblock(2, "a.example", "c.example")) == [(2, 1, 1)]
        assert sorted(await owner.crawl()) == [A + "1", A + "2"]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.hosts_aside) == (0, {"blocked": 1}, 1)

    @asynchronous
    async def test_links_to_a_blocked_host_wait_there_also_if_it_was_not_known(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        assert await obey(owner, block(1, "a.example")) == [(1, 1, 0)]
        counts = await owner.frontier.counts()
        assert (counts.hosts, counts.hosts_aside) == (1, 1)
        owner = await owner.killed()
        assert await owner.add(A + "1", A + "1", link(A + "seed", seed=True)) == 2
        counts = await owner.frontier.counts()
        assert (counts.added, counts.queued, counts.refused) == (2, 0, {"blocked": 2})
        assert await owner.lease() == []
        await obey(owner, unblock(2, "a.example"))
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused) == (2, {})
        assert sorted(await owner.crawl()) == [A + "1", A + "seed"]

    @asynchronous
    async def test_a_seed_does_not_unblock_a_host_but_waits_there(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", seed=True))
        await owner.settle(await owner.lease_page(), _FAILED)
        await obey(owner, block(1, "a.example"))
        assert await owner.add(link(A + "1", seed=True), link(A + "2", seed=True)) == 1
        assert await owner.lease() == []
        counts = await owner.frontier.counts()
        assert (counts.failed, counts.refused, counts.hosts_aside) == (0, {"blocked": 2}, 1)
        await obey(owner, unblock(2, "a.example"))
        owner.now += 5
        assert sorted(await owner.crawl()) == [A + "1", A + "2"]

    @asynchronous
    async def test_visits_in_flight_on_a_blocked_host_finish(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=2)
        await owner.add(A + "1", A + "2", A + "3")
        visit, other = await owner.lease_pages(2)
        await obey(owner, block(1, "a.example"))
        assert await owner.store(visit, links=[link(A + "4"), link(B + "1")])
        assert await owner.settle(other, Verdict(state=State.QUEUED, due=owner.now + 10, host_aside=_NOT_NOW))
        assert (await owner.url(A + "1")).state is State.CRAWLED
        aside = (await host_of(owner)).aside
        assert aside is not None
        assert aside.code == "blocked"  # whatever its last answer asks for
        owner.now += 100
        assert [each.link.url for each in await owner.lease_pages()] == [B + "1"]
        owner = await owner.killed(after=100)
        await obey(owner, unblock(2, "a.example"))
        owner.now += 100
        assert set(await owner.crawl()) == {A + "2", A + "3", A + "4", B + "1"}

    @asynchronous
    async def test_a_retry_that_came_due_while_its_host_was_blocked_comes_back_with_it(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.settle(await owner.lease_page(), Verdict(state=State.QUEUED, due=owner.now + 10))
        await obey(owner, block(1, "a.example"))
        owner.now += 1000
        assert await owner.lease() == []
        assert await owner.frontier.next_due(owner.now) is None
        owner = await owner.killed(after=1000)
        await obey(owner, unblock(2, "a.example"))
        assert await owner.crawl() == [A + "1"]

    @asynchronous
    async def test_a_host_set_aside_before_is_blocked_too_and_taken_back_when_it_is_unblocked(
        self, ground: Ground
    ) -> None:
        owner = await _with_host_aside(ground)
        assert await obey(owner, block(1, "a.example")) == [(1, 1, 0)]
        counts = await owner.frontier.counts()
        assert (counts.refused, counts.hosts_aside) == ({"blocked": 1}, 1)
        await owner.add(link(A + "waiting", seed=True))
        assert (await host_of(owner)).aside is not None
        assert await obey(owner, unblock(2, "a.example")) == [(2, 1, 0)]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.refused, counts.hosts_aside) == (1, {}, 0)
        assert await owner.lease() == []  # its clock still applies
        owner.now += 200
        (visit,) = await owner.lease()
        assert visit.link.purpose is Purpose.ROBOTS  # what could not be fetched is requested again

    @asynchronous
    async def test_only_blocked_hosts_are_unblocked(self, ground: Ground) -> None:
        owner = await _with_host_aside(ground)
        assert await obey(owner, unblock(1, "a.example")) == [(1, 0, 1)]
        assert (await host_of(owner)).aside == _NOT_NOW

    @asynchronous
    async def test_a_hop_that_waits_on_a_host_which_is_blocked_does_not_hold_up_its_origin(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(B + "1", B + "2")
        await owner.lease_page()  # keeps b.example busy while the hop waits there
        await owner.add(A + "1")
        (robots,) = await owner.lease()
        hop = replace(robots.link, url=B + "robots.txt", host="b.example", hops=1)
        moved = Settlement(visit=robots, verdict=Verdict(state=State.QUEUED, host_free=owner.now), again=hop)
        await owner.frontier.settle([moved], owner.mark, owner.now)
        await obey(owner, block(1, "b.example"))
        copy = await owner.frontier.robots(ORIGIN)
        assert copy is not None
        assert copy.access == "none"
        assert [visit.link.url for visit in await owner.lease()] == [A + "1"]

    # -- retrying ----------------------------------------------------------------------------------------------

    @asynchronous
    async def test_what_failed_waits_again_as_if_it_were_new(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2", B + "1")
        for _ in range(3):
            await owner.settle(await owner.lease_page(), _FAILED, status=500, exchange=exchange(A))
            owner.now += 5
        assert (await owner.frontier.counts()).failures == {"timeout": 3}
        owner = await owner.killed(after=5)
        assert await obey(owner, retry(1, failed=True)) == [(1, 3, 0)]
        counts = await owner.frontier.counts()
        assert (counts.added, counts.queued, counts.failed, counts.failures) == (3, 3, 0, {})
        record = await owner.url(A + "1")
        assert (record.state, record.reason, record.attempts, record.status) == (State.QUEUED, None, 0, 500)
        owner = await owner.killed(after=5)
        assert (await owner.lease_page()).attempt == 1
        owner = await owner.restarted(after=5)
        assert len(await owner.crawl()) == 3

    @asynchronous
    async def test_a_sweep_reaches_everything_that_failed(self, ground: Ground) -> None:
        owner = await _with_many_failed(ground, 1201)
        assert await obey(owner, retry(1, failed=True)) == [(1, 1201, 0)]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed) == (1201, 0)

    @asynchronous
    async def test_a_sweep_that_dies_in_the_middle_is_made_again_by_the_next_owner(
        self, ground: Ground
    ) -> None:
        owner = await _with_many_failed(ground, 1201)
        sweep = asyncio.ensure_future(owner.frontier.obey([retry(1, failed=True)], owner.now))
        while (await owner.frontier.counts()).failed == 1201:  # noqa: ASYNC110  it happens inside the store
            await asyncio.sleep(0)
        sweep.cancel()
        with suppress(asyncio.CancelledError):
            await sweep
        owner = await owner.killed(after=5)
        counts = await owner.frontier.counts()
        assert owner.frontier.obeyed() == 0
        assert (counts.queued + counts.failed, counts.failed > 0) == (1201, True)
        ((_, changed, _),) = await obey(owner, retry(1, failed=True))
        assert changed == counts.failed
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed, owner.frontier.obeyed()) == (1201, 0, 1)

    @asynchronous
    async def test_with_a_host_only_what_failed_there_waits_again(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1")
        for _ in range(2):
            await owner.settle(await owner.lease_page(), _FAILED)
        assert await obey(owner, retry(1, hosts=("b.example",))) == [(1, 1, 0)]
        assert (await owner.url(A + "1")).state is State.FAILED
        owner.now += 5
        assert await owner.crawl() == [B + "1"]

    @pytest.mark.parametrize("verdict", [_FAILED, _FORBIDDEN], ids=["failed", "forbidden"])
    @asynchronous
    async def test_a_named_url_waits_again_also_if_the_server_refused_it(
        self, ground: Ground, verdict: Verdict
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        await owner.settle(await owner.lease_page(), verdict)
        assert await obey(owner, retry(1, A + "1", A + "2", A + "unknown")) == [(1, 1, 0)]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed, counts.refused) == (2, 0, {})
        owner.now += 5
        assert sorted(await owner.crawl()) == [A + "1", A + "2"]

    @asynchronous
    async def test_a_named_page_with_an_error_is_fetched_again_and_one_without_is_not(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "gone", score=1.0), A + "fine")
        visit = await owner.lease_page()
        await owner.store(visit, page(visit, status=404), exchange=exchange(A))
        owner.now += 5
        await owner.store(await owner.lease_page())
        assert await obey(owner, retry(1, failed=True)) == [(1, 0, 0)]
        assert await obey(owner, retry(2, A + "gone", A + "fine")) == [(2, 1, 0)]
        owner.now += 5
        visit = await owner.lease_page()
        assert visit.link.url == A + "gone"
        await owner.store(visit, page(visit))
        counts = await owner.frontier.counts()
        assert (counts.crawled, counts.pages, counts.queued) == (2, 2, 0)

    @asynchronous
    async def test_what_the_settings_refused_is_not_tried_again(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", refused=[(link(A + "2"), Reason("scope.depth", "too deep"))])
        await owner.settle(await owner.lease_page(), _UNWANTED)
        assert await obey(owner, retry(1, A + "1", A + "2", failed=True)) == [(1, 0, 0)]
        assert (await owner.frontier.counts()).refused == {"scope.depth": 2}

    @asynchronous
    async def test_what_is_in_flight_or_waits_is_not_touched(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", B + "1", B + "2")
        flying, retried = sorted(await owner.lease_pages(), key=lambda visit: visit.link.url)
        await owner.settle(retried, Verdict(state=State.QUEUED, due=owner.now + 60))
        assert await obey(owner, retry(1, A + "1", B + "1", B + "2", failed=True)) == [(1, 0, 0)]
        assert (await owner.url(B + "1")).attempts == 1
        assert await owner.store(flying)

    @pytest.mark.parametrize("by", ["host", "url"])
    @asynchronous
    async def test_a_host_that_was_set_aside_for_a_while_is_taken_back_when_it_is_named(
        self, ground: Ground, by: str
    ) -> None:
        owner = await _with_host_aside(ground)
        assert await obey(owner, retry(1, failed=True)) == [(1, 0, 0)]
        assert (await host_of(owner)).aside == _NOT_NOW
        command = retry(2, hosts=("a.example",)) if by == "host" else retry(2, A + "failed")
        owner = await owner.killed(after=200)
        assert await obey(owner, command) == [(2, 1, 0)]
        counts = await owner.frontier.counts()
        assert (counts.queued, counts.failed, counts.refused, counts.hosts_aside) == (2, 0, {}, 0)
        (visit,) = await owner.lease()
        assert visit.link.purpose is Purpose.ROBOTS
        await owner.settle(visit, robots=allowed(ORIGIN, owner.now + DAY))
        owner.now += 5
        assert sorted(await owner.crawl()) == [A + "failed", A + "waiting"]

    @asynchronous
    async def test_what_is_retried_on_a_blocked_host_waits_there(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1")
        await owner.settle(await owner.lease_page(), _FAILED)
        assert await obey(owner, block(1, "a.example"), retry(2, failed=True)) == [(1, 1, 0), (2, 1, 0)]
        assert await owner.lease() == []
        counts = await owner.frontier.counts()
        assert (counts.failed, counts.queued, counts.refused) == (0, 0, {"blocked": 1})


async def _with_many_failed(ground: Ground, many: int) -> Owner:
    owner = await Owner.of(ground, delay=0.0)
    await owner.add(*(f"{A}{number}" for number in range(many)))
    left = many
    while left:
        visits = await owner.lease_pages()
        failed = [Settlement(visit=visit, verdict=_FAILED) for visit in visits]
        await owner.frontier.settle(failed, owner.mark, owner.now)
        left -= len(visits)
        owner.now += 1
    return owner


async def _with_host_aside(ground: Ground) -> Owner:
    """A host set aside for a while, with a page that waits and one that failed; free after 100 s."""
    owner = await Owner.of(ground)
    await owner.add(link(A + "failed", score=1.0), A + "waiting")
    ban = replace(allowed(ORIGIN, owner.now + DAY), access="none", tries=1)
    await owner.settle((await owner.lease())[0], robots=ban)
    (visit,) = await owner.lease()
    verdict = replace(_FAILED, host_free=owner.now + 100, host_aside=_NOT_NOW)
    await owner.settle(visit, verdict)
    return owner

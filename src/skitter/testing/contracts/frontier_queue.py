"""Frontier, invariants 1 and 9: each URL once, in the right order."""

from collections import Counter

from skitter.frontier.levels import RULER
from skitter.model import Level, Reason, State
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link

A = "https://a.example/"


class QueueContract:
    """What `add` accepts, and in which order `lease` returns it."""

    @asynchronous
    async def test_a_url_is_accepted_once_however_often_it_is_added(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        assert await owner.add(A + "1", A + "2", A + "1") == 2
        assert await owner.add(A + "1") == 0
        assert sorted(await owner.crawl()) == [A + "1", A + "2"]
        assert await owner.add(A + "1", A + "2") == 0
        assert await owner.crawl() == []

    @asynchronous
    async def test_the_key_decides_and_the_first_spelling_is_fetched(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        assert await owner.add(A + "1#first", A + "1#second") == 1
        assert await owner.crawl() == [A + "1#first"]

    @asynchronous
    async def test_one_key_on_two_hosts_of_a_domain_is_one_url(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        with_www = link("https://www.a.example/1")
        assert await owner.add(link(A + "1")) == 1
        folded = type(with_www)(url=with_www.url, key=A + "1", host=with_www.host)
        assert await owner.add(folded) == 0

    @asynchronous
    async def test_what_was_accepted_stays_known_after_a_restart_and_after_a_kill(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "2")
        assert await owner.crawl(1) == [A + "1"]
        owner = await owner.restarted()
        assert await owner.add(A + "1", A + "2") == 0
        owner = await owner.killed()
        assert await owner.add(A + "1", A + "2", A + "3") == 1

    @asynchronous
    async def test_links_are_counted_as_seen_added_and_known(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", A + "1", A + "2")
        counts = await owner.frontier.counts()
        assert (counts.seen, counts.added, counts.known, counts.queued, counts.hosts) == (3, 2, 1, 2, 1)

    @asynchronous
    async def test_a_refused_link_is_recorded_with_its_reason_and_never_handed_out(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        reason = Reason("scope.host", "another host")
        assert await owner.add(refused=[(link(A + "no"), reason), (link(A + "no"), reason)]) == 0
        record = await owner.url(A + "no")
        assert (record.state, record.reason) == (State.REFUSED, reason)
        counts = await owner.frontier.counts()
        assert (counts.seen, counts.known, counts.refused) == (2, 1, {"scope.host": 1})
        assert await owner.lease() == []

    @asynchronous
    async def test_a_refused_link_is_accepted_when_somebody_wants_it(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(refused=[(link(A + "1"), Reason("depth", "too deep"))])
        assert await owner.add(A + "1") == 1
        assert (await owner.frontier.counts()).refused == {}
        assert await owner.crawl() == [A + "1"]

    @asynchronous
    async def test_refusing_a_link_that_waits_changes_nothing(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A + "1", refused=[(link(A + "1"), Reason("trap", "a trap"))])
        assert (await owner.url(A + "1")).state is State.QUEUED
        assert await owner.crawl() == [A + "1"]

    @asynchronous
    async def test_inside_a_level_the_better_score_comes_first_then_the_older_link(
        self, ground: Ground
    ) -> None:
        owner = await Owner.of(ground)
        scores = {"low": -2.5, "old": 0.0, "new": 0.0, "high": 1e9, "minus": -1e9}
        await owner.add(*(link(A + name, score=score) for name, score in scores.items()))
        assert await owner.crawl() == [A + name for name in ("high", "old", "new", "low", "minus")]

    @asynchronous
    async def test_hosts_are_drawn_by_the_score_of_their_first_link(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        for number, score in enumerate((1.0, 3.0, 2.0)):
            await owner.add(link(f"https://h{number}.example/", score=score))
        hosts = [visit.link.host for visit in await owner.lease()]
        assert hosts == ["h1.example", "h2.example", "h0.example"]

    @asynchronous
    async def test_a_waiting_link_moves_forward_when_added_with_a_better_place(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(link(A + str(number), score=-number) for number in range(6)))
        assert await owner.add(link(A + "5", score=10.0)) == 0
        await owner.add(link(A + "4", level=Level.CRITICAL, score=-100.0))
        assert await owner.crawl() == [A + name for name in "450123"]

    @asynchronous
    async def test_a_waiting_link_never_moves_back(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", score=5.0), link(A + "2", score=4.0))
        await owner.add(link(A + "1", score=-5.0), link(A + "1", level=Level.LOW, score=99.0))
        assert await owner.crawl() == [A + "1", A + "2"]

    @asynchronous
    async def test_a_leased_link_is_not_moved_and_not_handed_out_twice(self, ground: Ground) -> None:
        owner = await Owner.of(ground, per_host=4)
        await owner.add(link(A + "1", score=0.0))
        visit = await owner.lease_page()
        await owner.add(link(A + "1", level=Level.CRITICAL, score=9.0))
        assert await owner.lease() == []
        assert await owner.store(visit)

    @asynchronous
    async def test_a_link_found_on_a_shorter_way_takes_its_depth_when_it_moves(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", depth=7, parent=A + "deep", score=-7.0))
        await owner.add(link(A + "1", depth=2, parent=A + "near", score=-2.0))
        record = await owner.url(A + "1")
        assert (record.depth, record.parent, record.score) == (2, A + "near", -2.0)

    @asynchronous
    async def test_levels_are_drawn_by_weight_inside_a_host(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(*(link(f"{A}{level.name}{n}", level=level) for level in Level for n in range(40)))
        order = await owner.crawl(len(RULER))
        drawn = Counter(url.removeprefix(A).rstrip("0123456789") for url in order)
        assert drawn == {"CRITICAL": 16, "HIGH": 8, "NORMAL": 4, "LOW": 2, "BACKGROUND": 1}

    @asynchronous
    async def test_levels_are_drawn_by_weight_between_hosts(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        names = [(level, number) for level in Level for number in range(40)]
        await owner.add(
            *(link(f"https://{level.name.lower()}{n}.example/", level=level) for level, n in names)
        )
        drawn = Counter(
            visit.link.host.removesuffix(".example").rstrip("0123456789") for visit in await owner.lease(31)
        )
        assert sorted(drawn.values(), reverse=True) == [16, 8, 4, 2, 1]

    @asynchronous
    async def test_no_level_starves_while_better_ones_keep_coming(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "humble", level=Level.BACKGROUND))
        for number in range(2 * len(RULER)):
            await owner.add(link(f"{A}{number}", level=Level.CRITICAL, score=number))
            if await owner.crawl(1) == [A + "humble"]:
                return
        raise AssertionError("a background link was never drawn")

    @asynchronous
    async def test_order_survives_many_links_and_a_restart_in_between(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        scores = [(number * 7919) % 101 for number in range(101)]
        await owner.add(*(link(f"{A}{score}", score=score) for score in scores))
        first = await owner.crawl(40)
        await owner.add(link(A + "late", score=60.5))
        owner = await owner.restarted()
        await owner.add(link(A + "later", score=1.5))
        rest = await owner.crawl()
        expected = [*range(100, -1, -1)]
        assert first == [f"{A}{score}" for score in expected[:40]]
        last = [A + "late", *(f"{A}{score}" for score in expected[40:-2]), A + "later", A + "1", A + "0"]
        assert rest == last

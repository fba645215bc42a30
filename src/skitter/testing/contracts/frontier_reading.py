"""Frontier, the read side."""

from msgspec.structs import replace

from skitter import urls
from skitter.model import Level, Reason, State, Verdict
from skitter.testing.contracts.owner import START, Ground, Owner, asynchronous, link, page

A = "https://a.example/"


class ReadingContract:
    """Records, twins and links."""

    @asynchronous
    async def test_a_url_record_tells_where_it_came_from_and_what_became_of_it(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(link(A + "1", level=Level.HIGH, score=2.5, depth=4, parent=A))
        record = await owner.url(A + "1")
        assert (record.url, record.key, record.depth, record.parent) == (A + "1", A + "1", 4, A)
        assert (record.level, record.score, record.first_seen) == (Level.HIGH, 2.5, START)
        owner.now += 5
        await owner.store(await owner.lease_page())
        record = await owner.url(A + "1")
        assert (record.state, record.status, record.last_crawl, record.crawl_count) == (
            State.CRAWLED,
            200,
            owner.now,
            1,
        )
        assert await owner.frontier.url(A + "unknown", "a.example") is None
        assert await owner.frontier.page(A + "unknown", "a.example") is None
        assert await owner.frontier.host("unknown.example") is None

    @asynchronous
    async def test_what_a_seed_said_reaches_the_visit(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        seed = replace(
            link(A), seed=True, meta={"project": 7, "tags": ["x"]}, requested="http://a.example/", hops=2
        )
        await owner.add(seed)
        owner = await owner.killed()
        assert (await owner.lease_page()).link == seed

    @asynchronous
    async def test_hosts_urls_and_pages_are_all_listed(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        names = [f"https://h{number}.example/" for number in range(20)]
        await owner.add(*names, refused=[(link("https://no.example/"), Reason("scope"))])
        for visit in await owner.lease_pages(5):
            await owner.store(visit)
        frontier = owner.frontier
        assert sorted([record.url async for record in frontier.urls()]) == sorted(
            [*names, "https://no.example/"]
        )
        assert len([stored async for stored in frontier.pages()]) == 5
        hosts = {record.host: record async for record in frontier.hosts()}
        assert sorted(hosts) == sorted(urls.host(name) for name in names)
        assert sum(record.pages for record in hosts.values()) == 5
        assert hosts["h3.example"].domain == "h3.example"

    @asynchronous
    async def test_links_between_stored_pages_and_urls_are_listed(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A)
        no = (link(A + "no"), Reason("trap"))
        found = [link(A + "1"), link(A), link(A + "1")]
        await owner.store(await owner.lease_page(), links=found, refused=[no])
        listed = [pair async for pair in owner.frontier.links()]
        assert sorted(listed) == sorted((A, url) for url in (A, A + "1", A + "no"))

    @asynchronous
    async def test_the_metrics_tell_what_is_leased(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A)
        assert owner.frontier.metrics().queue.leases == 0
        await owner.lease_page()
        measured = owner.frontier.metrics()
        assert (measured.queue.leases, measured.hosts.states) == (1, 1)

    # -- twins -------------------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_page_with_the_same_digest_is_found_in_its_domain(self, ground: Ground) -> None:
        owner = await _with_pages(ground, [("sha1:one", None), ("sha1:one", None), ("sha1:two", None)])
        owner = await owner.killed()
        twin = await owner.frontier.twin("a.example", "sha1:one", None, 3)
        assert twin is not None
        stored = await owner.frontier.page(A + "0", "a.example")
        assert stored is not None
        assert (twin.url, twin.digest, twin.fetched_at, twin.place) == (
            A + "0",
            "sha1:one",
            START,
            stored.archive,
        )
        assert await owner.frontier.twin("b.example", "sha1:one", None, 3) is None
        assert await owner.frontier.twin("a.example", "sha1:three", None, 3) is None

    @asynchronous
    async def test_the_nearest_page_is_found_within_the_distance(self, ground: Ground) -> None:
        base = 0x0123_4567_89AB_CDEF
        owner = await _with_pages(
            ground, [("sha1:a", base), ("sha1:b", base ^ 0b11), ("sha1:c", base ^ (0xF << 30))]
        )
        frontier = owner.frontier
        far = (1 << 63) | (1 << 40) | (1 << 20)
        for simhash, distance, expected in (
            (base, 0, A + "0"),
            (base ^ 0b1, 3, A + "0"),  # one bit from both: the older
            (base ^ 0b111, 3, A + "1"),
            (base ^ far, 3, A + "0"),
            (base ^ (1 << 63 | 1 << 40 | 1 << 2), 3, A + "0"),  # only the second block agrees
            (base ^ (1 << 63 | 1 << 20 | 1 << 2), 3, A + "0"),  # only the third block agrees
            (base ^ (1 << 40 | 1 << 20 | 1 << 2), 3, A + "0"),  # only the fourth block agrees
            (base ^ far, 2, None),
            (base ^ far ^ (1 << 5), 3, None),
        ):
            twin = await frontier.twin("a.example", "sha1:none", simhash, distance)
            assert (twin and twin.url) == expected, (hex(simhash), distance)
        assert await frontier.twin("b.example", "sha1:none", base, 3) is None

    @asynchronous
    async def test_the_same_digest_is_preferred_to_a_near_page(self, ground: Ground) -> None:
        owner = await _with_pages(ground, [("sha1:near", 0b1), ("sha1:same", 0xFF)])
        twin = await owner.frontier.twin("a.example", "sha1:same", 0b1, 3)
        assert twin is not None
        assert twin.url == A + "1"

    @asynchronous
    async def test_an_error_page_is_never_a_twin(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A)
        visit = await owner.lease_page()
        await owner.store(visit, page(visit, status=404, digest="sha1:error", simhash=1))
        assert await owner.frontier.twin("a.example", "sha1:error", 1, 3) is None

    @asynchronous
    async def test_a_page_that_changed_is_found_by_what_it_is_now(self, ground: Ground) -> None:
        owner = await Owner.of(ground)
        await owner.add(A)
        visit = await owner.lease_page()
        old = page(visit, digest="sha1:old", simhash=7)
        await owner.settle(visit, Verdict(state=State.CRAWLED, due=owner.now + 1), page=old, status=200)
        owner.now += 1
        visit = await owner.lease_page()
        await owner.store(visit, page(visit, digest="sha1:new", simhash=0xFF00))
        assert await owner.frontier.twin("a.example", "sha1:old", 7, 3) is None
        assert await owner.frontier.twin("a.example", "sha1:new", None, 3) is not None


async def _with_pages(ground: Ground, contents: list[tuple[str, int | None]]) -> Owner:
    owner = await Owner.of(ground)
    await owner.add(*(link(f"{A}{number}", score=-number) for number in range(len(contents))))
    for number, (digest, simhash) in enumerate(contents):
        visit = await owner.lease_page()
        await owner.store(visit, page(visit, digest=digest, simhash=simhash, at=START + number))
    return owner

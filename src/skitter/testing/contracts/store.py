"""The contract of `skitter.frontier.store.Store`, executable.

class TestMyStore(StoreContract):
    @pytest.fixture
    def ground(self) -> MyGround: ...  # an empty shard, see StoreGround

A store that others may take adds `EpochContract`, one behind a network `TripContract` and `LateContract`, one that keeps links for
other shards `OutboxContract`.
"""

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from skitter.frontier.crashes import Suspicion
from skitter.frontier.rows import (
    CRAWLED,
    QUEUED,
    RECRAWL,
    RETRY,
    Batch,
    Extra,
    Heads,
    HostExtra,
    HostRow,
    Meta,
    PageRow,
    Span,
    Spot,
    Standing,
    Times,
    UrlRow,
    Wanted,
    standing,
)
from skitter.frontier.store import Store
from skitter.model import (
    Content,
    Counts,
    Directives,
    Hints,
    Pace,
    Page,
    Place,
    Purpose,
    Reason,
    Statement,
    Visit,
)
from skitter.ports import Fenced, Mark
from skitter.schedule.learning.learned import Learned, Pattern
from skitter.schedule.learning.patterns import of_domain
from skitter.testing.contracts.owner import allowed, asynchronous, link

HOST = "a.example"
A = f"https://{HOST}/"


class StoreGround(Protocol):
    """One empty shard on an engine."""

    async def claim(self) -> Store:
        """Take the shard under a new epoch, whoever owns it. A store that only one process can open is closed now."""
        ...


class StoreContract:
    """Every numbered invariant of the port. Needs a fixture `ground`."""

    @asynchronous
    async def test_what_is_written_is_loaded_and_what_is_deleted_is_not(self, ground: StoreGround) -> None:
        store = await ground.claim()
        url, host, page = full_url(1), a_host("b.example", b"\x01p"), a_page(2)
        copy = allowed("https://a.example", 5.0)
        batch = Batch(Meta(), urls={url.id: url}, hosts={host.name: host}, pages={page.id: page})
        batch.robots = {copy.origin: replace(copy, body=b"\x00\xff")}
        batch.placed[host.name] = b""
        await store.write(batch)
        every = Wanted(
            urls=[url.id, ident(9)], hosts=[host.name, "no.example"], pages=[page.id], robots=[copy.origin]
        )
        found = await store.load(every)
        assert (found.urls, found.hosts, found.pages) == ({url.id: url}, {host.name: host}, {page.id: page})
        assert found.robots == batch.robots
        gone = Batch(Meta(), urls={url.id: None}, pages={page.id: None}, robots={copy.origin: None})
        gone.replaced[page.id] = page
        gone.stood[url.id] = must(standing(url))
        await store.write(gone)
        found = await store.load(every)
        assert (found.urls, found.pages, found.robots) == ({}, {}, {})
        await store.close()

    @asynchronous
    async def test_a_waiting_url_keeps_what_few_have_and_most_have_nothing(self, ground: StoreGround) -> None:
        """It may be packed in a shorter form than others, which must not lose anything."""
        store = await ground.claim()
        plain = UrlRow(
            store.domain_prefix(HOST) + store.hash_key(b"1", store.secret), A, A, HOST, HOST, seq=1
        )
        if len(plain.id) < len(ident(1)):
            plain.id = ident(1)
        told = replace(plain, id=plain.id[:-1] + b"2", seq=2, extra=Extra(Hints(priority=0.5)))
        await put(store, plain, told)
        found = await store.load(Wanted(urls=[plain.id, told.id], heads=[Heads(HOST, 2, None, 9)]))
        assert found.urls == {plain.id: plain, told.id: told}
        assert found.heads == [[plain, told]]
        await store.close()

    @asynchronous
    async def test_a_host_keeps_what_was_learnt_of_it_and_most_have_nothing(
        self, ground: StoreGround
    ) -> None:
        store = await ground.claim()
        plain, known = a_host("b.example", b"\x01p"), a_host("c.example", b"\x01q")
        known.extra = HostExtra(Pace(8.0, 0.25, 0.125, 5, 3, 2, "429", 1.5, 4, 1))
        await put(store, plain, known)
        expected = {plain.name: plain, known.name: known}
        found = await store.load(Wanted(hosts=[*expected], agenda=[Span(b"", b"\xff" * 9, 9)]))
        assert found.hosts == expected
        assert found.agenda == [[plain, known]]
        assert {host.name: host async for host in store.hosts()} == expected
        known.extra = None
        await store.write(Batch(Meta(), hosts={known.name: known}))
        assert (await store.load(Wanted(hosts=[known.name]))).hosts[known.name].extra is None
        await store.close()

    @asynchronous
    async def test_what_was_learned_of_a_host_is_kept_apart_from_its_row(self, ground: StoreGround) -> None:
        store = await ground.claim()
        host = a_host("b.example", b"")
        one = Learned("b.example", {"/{n}?page={n}": Pattern(40, 1), "/ä/{word}": Pattern(3, 3)})
        all_hosts = Learned(of_domain("b.example"))
        batch = Batch(Meta(), hosts={host.name: host}, learned={one.name: one, all_hosts.name: all_hosts})
        await store.write(batch)
        found = await store.load(Wanted(learned=[one.name, all_hosts.name, "c.example"]))
        assert found.learned == {one.name: one, all_hosts.name: all_hosts}
        found.learned[one.name].patterns.clear()  # it belongs to the caller
        await store.write(Batch(Meta(), hosts={host.name: host}, learned={all_hosts.name: None}))
        assert (await store.load(Wanted(learned=[one.name, all_hosts.name]))).learned == {one.name: one}
        assert [row async for row in store.learned()] == [one]
        await store.close()

    @asynchronous
    async def test_rows_belong_to_the_caller(self, ground: StoreGround) -> None:
        store = await ground.claim()
        await put(store, url := full_url(1))
        loaded = (await store.load(Wanted(urls=[url.id]))).urls[url.id]
        loaded.score = 1e9
        assert (await store.load(Wanted(urls=[url.id]))).urls[url.id].score == url.score
        await store.close()

    @asynchronous
    async def test_a_batch_may_be_written_twice(self, ground: StoreGround) -> None:
        store = await ground.claim()
        await put(store, full_url(1, score=1.0))
        moved = Batch(Meta(seq=5), urls={ident(1): full_url(1, score=2.0)}, hosts={HOST: a_host(HOST, b"b")})
        moved.stood[ident(1)] = must(standing(full_url(1, score=1.0)))
        moved.placed[HOST] = b""
        await store.write(moved)
        await store.write(moved)
        found = await store.load(Wanted(heads=[Heads(HOST, 2, None, 9)], agenda=[Span(b"", b"\xff" * 9, 9)]))
        assert found.heads == [[full_url(1, score=2.0)]]
        assert found.agenda == [[a_host(HOST, b"b")]]
        await store.close()

    # -- lists -------------------------------------------------------------------------------------------------

    @asynchronous
    async def test_a_level_of_a_host_is_ordered_by_score_then_age(self, ground: StoreGround) -> None:
        store = await ground.claim()
        scores = {1: 0.0, 2: 1e300, 3: -2.5, 4: 0.0, 5: -1e300}
        other = [full_url(6, level=1), replace(full_url(7), host="b.example"), full_url(8, due=5.0)]
        over = replace(full_url(9), state=CRAWLED)
        await put(store, *(full_url(n, score=score) for n, score in scores.items()), *other, over)
        asks = [
            Heads(HOST, 2, None, 9),
            Heads(HOST, 2, (0.0, 1), 2),
            Heads(HOST, 1, None, 9),
            Heads("b.example", 2, None, 9),
            Heads("no.example", 2, None, 9),
        ]
        found = await store.load(Wanted(heads=asks))
        assert [[row.seq for row in rows] for rows in found.heads] == [[2, 1, 4, 3, 5], [4, 3], [6], [7], []]
        await store.close()

    @asynchronous
    async def test_a_url_stands_in_one_list_at_a_time(self, ground: StoreGround) -> None:
        store = await ground.claim()
        states = [
            full_url(1),
            full_url(1, level=4),
            full_url(1, due=5.0),
            replace(full_url(1, due=5.0), parked=True),
            replace(full_url(1, due=6.0), state=CRAWLED),
            replace(full_url(1), state=CRAWLED),
            replace(full_url(1), host="b.example"),
        ]
        asks = Wanted(
            heads=[Heads(HOST, 2, None, 9), Heads(HOST, 4, None, 9), Heads("b.example", 2, None, 9)],
            times=[Times(RETRY, None, 9), Times(RECRAWL, None, 9)],
            parked=[HOST],
        )
        places = []
        for before, now in zip([None, *states], states, strict=False):
            batch = Batch(Meta(), urls={now.id: now})
            if before is not None and (stood := standing(before)) is not None:
                batch.stood[now.id] = stood
            await store.write(batch)
            found = await store.load(asks)
            lists = [*found.heads, *found.times, found.parked.get(HOST, [])]
            assert all(rows in ([], [now]) for rows in lists)
            places.append([bool(rows) for rows in lists].index(True) if any(lists) else None)
        assert places == [0, 1, 3, 5, 4, None, 2]
        await store.close()

    @asynchronous
    async def test_times_are_ordered_and_read_on_from_anywhere(self, ground: StoreGround) -> None:
        store = await ground.claim()
        await put(store, *(full_url(n, due=float(due)) for n, due in ((1, 30), (2, 10), (3, 20), (4, 20))))
        found = await store.load(
            Wanted(times=[Times(RETRY, None, 3), Times(RETRY, (20.0, ident(3)), 9), Times(RECRAWL, None, 9)])
        )
        assert [[row.seq for row in rows] for rows in found.times] == [[2, 3, 4], [4, 1], []]
        await store.close()

    @asynchronous
    async def test_the_agenda_is_ordered_by_place(self, ground: StoreGround) -> None:
        store = await ground.claim()
        places = {
            "a.example": b"\x01\x00\xff",
            "b.example": b"\x01\x00\x00",
            "c.example": b"",
            "d.example": b"\xff\x05",
        }
        await put(store, *(a_host(name, place) for name, place in places.items()))
        asks = [
            Span(b"\x01", b"\x02", 9),
            Span(b"\x01\x00\x00", b"\x02", 9),
            Span(b"\x00", b"\xff\xff", 1),
            Span(b"\xff", b"\xff\xff", 9),
        ]
        found = await store.load(Wanted(agenda=asks))
        names = [[row.name[0] for row in rows] for rows in found.agenda]
        assert names == [["b", "a"], ["a"], ["b"], ["d"]]
        await store.write(
            Batch(
                Meta(), hosts={"a.example": a_host("a.example", b"")}, placed={"a.example": b"\x01\x00\xff"}
            )
        )
        found = await store.load(Wanted(agenda=asks[:1], hosts=["a.example"]))
        assert [row.name for row in found.agenda[0]] == ["b.example"]
        assert found.hosts["a.example"].place == b""
        await store.close()

    @asynchronous
    async def test_pages_are_found_by_digest_and_simhash(self, ground: StoreGround) -> None:
        store = await ground.claim()
        high = (1 << 64) - 1
        rows = [
            a_page(1, "sha1:x", high),
            a_page(2, "sha1:y", 5, by_digest=False),
            a_page(3, "sha1:z", 6, by_simhash=False),
        ]
        await put(store, *rows)
        asks = Wanted(
            digests=[(HOST, "sha1:x"), (HOST, "sha1:y"), ("b.example", "sha1:x")],
            simhashes=[(HOST, high), (HOST, 6), ("b.example", high)],
            domains=[(HOST, 9), ("b.example", 9)],
        )
        found = await store.load(asks)
        assert found.digests == {(HOST, "sha1:x"): rows[0]}
        assert found.simhashes == {(HOST, high): rows[0]}
        assert {domain: sorted(values) for domain, values in found.domains.items() if values} == {
            HOST: [5, high]
        }
        assert len((await store.load(Wanted(domains=[(HOST, 1)]))).domains[HOST]) == 1
        changed = a_page(1, "sha1:new", 8)
        await store.write(Batch(Meta(), pages={changed.id: changed}, replaced={changed.id: rows[0]}))
        found = await store.load(asks)
        assert (found.digests, found.simhashes, sorted(found.domains[HOST])) == ({}, {}, [5, 8])
        await store.close()

    # -- a new owner, and readers ------------------------------------------------------------------------------

    @asynchronous
    async def test_a_new_owner_gets_everything_that_is_open(self, ground: StoreGround) -> None:
        store = await ground.claim()
        counts = Counts(seen=3, refused={"x": 2}, statuses={200: 1}, elapsed=1.5)
        meta = Meta(7, Mark("00-00001.warc.gz", 55), counts, {"topic": "17-0"}, 9.5, "0a1b")
        lease = Visit(link("https://a.example/1"), 2, 5.5, alone=True, host_pages=3, host_free=4.5)
        batch = Batch(meta, leases={ident(1): lease, ident(2): lease}, suspects={ident(1): Suspicion(2, 1)})
        await store.write(batch)
        await store.write(Batch(meta, leases={ident(2): None}))
        assert await store.meta() == meta
        await store.close()
        new = await ground.claim()
        opening = await new.open()
        assert (opening.meta, opening.leases) == (meta, {ident(1): lease})
        assert opening.suspects == {ident(1): Suspicion(2, 1)}
        await new.close()

    @asynchronous
    async def test_iterators_return_every_row(self, ground: StoreGround) -> None:
        store = await ground.claim()
        rows = [full_url(n) for n in range(1, 2500)]
        await put(store, *rows)
        await put(store, a_page(1), a_page(2), *(a_host(f"h{n}.example", b"") for n in range(30)))
        assert {row.id async for row in store.urls()} == {row.id for row in rows}
        assert {row.id async for row in store.pages()} == {ident(1), ident(2)}
        assert len({row.name async for row in store.hosts()}) == 30
        await store.close()


class EpochContract:
    """Invariant 2, if others may take a shard. Needs a fixture `ground`."""

    @asynchronous
    async def test_a_former_owner_changes_nothing(self, ground: StoreGround) -> None:
        old = await ground.claim()
        await put(old, url := full_url(1))
        new = await ground.claim()
        with pytest.raises(Fenced):
            await old.write(Batch(Meta(seq=99), urls={url.id: None, ident(2): full_url(2)}))
        assert (await new.meta()).seq == 0
        assert list((await new.load(Wanted(urls=[url.id, ident(2)]))).urls) == [url.id]
        await put(new, full_url(3))
        await old.close()
        await new.close()


class OutboxContract:
    """The contract of `skitter.frontier.store.Outbox`. Needs a fixture `ground`."""

    @asynchronous
    async def test_the_outbox_is_read_from_the_oldest(self, ground: StoreGround) -> None:
        store: Any = await ground.claim()
        links = {number: link(f"https://b.example/{number}") for number in (300, 2, 10)}
        await store.write(Batch(Meta(), outbox=dict(links)))
        assert await store.outbox(2, 0) == [(2, links[2]), (10, links[10])]
        assert await store.outbox(9, 2) == [(10, links[10]), (300, links[300])]
        await store.write(Batch(Meta(), outbox={10: None, 11: None}))
        assert [number for number, _ in await store.outbox(9, 0)] == [2, 300]
        await store.close()


class TripContract:
    """Invariant 4, if a load is a round trip. Needs a fixture `ground`."""

    @asynchronous
    async def test_round_trips_are_counted_and_one_is_enough_for_any_number_of_keys(
        self, ground: StoreGround
    ) -> None:
        store = await ground.claim()
        await put(store, *(full_url(n) for n in range(1, 1500)))
        before = store.metrics()
        heads = [Heads(HOST, level, None, 5) for level in range(5)]
        found = await store.load(
            Wanted(urls=[ident(n) for n in range(2000)], hosts=[HOST] * 10, heads=heads, parked=[HOST])
        )
        assert len(found.urls) == 1499
        after = store.metrics()
        assert after.reads - before.reads == 1
        assert after.writes == 1
        await store.close()


class LateContract:
    """Invariant 3, if tries can overtake each other. Needs a fixture `ground`."""

    @asynchronous
    async def test_a_try_that_was_given_up_and_arrives_late_changes_nothing(
        self, ground: StoreGround
    ) -> None:
        store = await ground.claim()
        first = Batch(Meta(seq=1), 1, urls={ident(1): full_url(1, score=1.0)})
        second = Batch(Meta(seq=2), 2, urls={ident(1): full_url(1, score=2.0)})
        second.stood[ident(1)] = must(standing(full_url(1, score=1.0)))
        for batch in (first, second, second, first):
            await store.write(batch)
        found = await store.load(Wanted(urls=[ident(1)], heads=[Heads(HOST, 2, None, 9)]))
        assert found.urls[ident(1)].score == 2.0
        assert [row.score for row in found.heads[0]] == [2.0]
        assert (await store.meta()).seq == 2
        new = await ground.claim()  # its numbers start over
        await new.write(Batch(Meta(seq=3), 1))
        assert (await store.meta()).seq == 3
        await store.close()
        await new.close()


# ------------------------------------------------------------------------------------------------ values


def ident(number: int) -> bytes:
    """An id that sorts like its number, with all kinds of bytes in it."""
    return b"\x00\xff\r\n " + number.to_bytes(11, "big")


def full_url(number: int, *, score: float = 0.0, level: int = 2, due: float | None = None) -> UrlRow:
    """A row with a value in every field."""
    return UrlRow(
        id=ident(number),
        url=f"https://{HOST}/{number}#é\u2028",
        key=f"https://{HOST}/{number}",
        host=HOST,
        domain=HOST,
        state=QUEUED,
        level=level,
        score=score,
        seq=number,
        depth=3,
        parent=f"https://{HOST}/",
        first_seen=1.25,
        last_crawl=2.5,
        due=due,
        crawl_count=1,
        attempts=2,
        crashes=1,
        status=503,
        reason=Reason("busy", 'it\'s "busy"'),
        requested="http://a.example/",
        hops=2,
        seed=True,
        meta={"a": [1, None, "x"]},
        extra=Extra(Hints(1.5, 0.25, ("next", "author")), Purpose.ASSET),
    )


def a_host(name: str, place: bytes) -> HostRow:
    """A host somewhere in the agenda."""
    heads: list[Spot | None] = [None, (-1.5, 7), None, (0.0, 2), None, None, None, None, (-2.5, 9), None]
    return HostRow(
        name, name, [0, 1, 0, 1, 0, 0, 0, 0, 1, 0], heads, 5.5, 0.0, 1.0, place=place, aside=Reason("x", "y")
    )


def a_page(
    number: int,
    digest: str = "sha1:d",
    simhash: int | None = None,
    *,
    by_digest: bool = True,
    by_simhash: bool = True,
) -> PageRow:
    """A page that represents its digest and SimHash."""
    page = Page(
        url=f"https://{HOST}/{number}",
        requested_url=f"https://{HOST}/{number}",
        key=f"https://{HOST}/{number}",
        host=HOST,
        domain=HOST,
        status=200,
        fetched_at=1.5,
        headers=[("content-type", "text/plain")],
        digest=digest,
        simhash=simhash,
        archive=Place("00-00001.warc.gz", 5, 10),
        etag='W/"a\x00b"',
        last_modified="yesterday",
        purpose=Purpose.ASSET,
        robots=Directives(
            archive=False, snippet=5, unavailable_after=7.5, rules=("noarchive", "max-snippet:5")
        ),
        statements=(Statement("tdmrep.json", "a\x00b", {"tdm": "n"}, 2.5), Statement("meta robots", "", {})),
        alternates={"de": "https://a.example/de"},
        media={"pages": 3, "dates": ["2026-01-02"]},
        content=Content("a\x00b", "# a", structured={"og": {"type": "article"}}),
    )
    return PageRow(ident(number), page, ident(5) + ident(6), by_digest, by_simhash)


async def put(store: Store, *rows: UrlRow | HostRow | PageRow) -> None:
    """Write new rows."""
    batch = Batch(Meta())
    for row in rows:
        if isinstance(row, UrlRow):
            batch.urls[row.id] = row
        elif isinstance(row, HostRow):
            batch.hosts[row.name] = row
            batch.placed[row.name] = b""
        else:
            batch.pages[row.id] = row
    await store.write(batch)


def must(value: Standing | None) -> Standing:
    """An index entry that must exist."""
    assert value is not None
    return value

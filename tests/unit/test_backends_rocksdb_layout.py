"""Keys in RocksDB: what belongs together is found together, in the order that the frontier needs."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from skitter.backends.rocksdb.layout import after, queue_end, queue_start
from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier.levels import QUEUES
from skitter.frontier.rows import CRAWLED, Batch, Extra, Heads, Meta, UrlRow
from skitter.model import Hints, Level, Reason


@given(st.binary(min_size=1, max_size=9), st.binary(max_size=20))
def test_nothing_with_a_prefix_lies_behind_its_end(prefix, rest):
    assert prefix + rest < after(prefix)


def test_a_queue_ends_before_the_next_begins():
    host8 = b"\xff" * 8
    starts = [queue_start(host8, queue, None) for queue in range(QUEUES)]
    assert starts == sorted(starts)
    assert [queue_end(host8, queue) for queue in range(QUEUES - 1)] == starts[1:]
    assert queue_start(host8, 3, (-1e300, 2**63)) < queue_end(host8, 3)


def test_links_wait_by_score_then_age_and_are_read_on_from_any_of_them(tmp_path):
    spots = ((2.0, 9), (1.0, 1), (1.0, 2), (0.0, 5), (-1.0, 3))

    async def main():
        store = RocksStore(tmp_path, 1 << 20)
        await store.open()
        rows = [
            UrlRow(
                store.domain_prefix("a.example") + store.hash_key(url.encode(), store.secret),
                *(url, url, "a.example", "a.example"),
                level=level,
                score=score,
                seq=seq,
            )
            for score, seq in reversed(spots)
            for level in (Level.NORMAL, Level.NORMAL + 1)
            for url in (f"https://a.example/{score}/{seq}/{level}",)
        ]
        await store.write(Batch(Meta(), urls={row.id: row for row in rows}))
        for number in range(len(spots) + 1):
            behind = None if not number else (-spots[number - 1][0], spots[number - 1][1])
            found = store.heads(Heads("a.example", Level.NORMAL, behind, 9))
            assert [(-order, seq) for (order, seq), _, _ in found] == list(spots[number:])
            rows = [store.unpacked(packed) for _, _, packed in found if isinstance(packed, bytes)]
            assert {row.level for row in rows} <= {Level.NORMAL}
            assert [store.url(id16) for _, id16, _ in found] == rows
        await store.close()

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ rows

# What a link found on a page does not have before its first visit; its row is stored without these fields.
TRIED = {
    "last_crawl": 0.0,
    "due": 5.0,
    "crawl_count": 1,
    "attempts": 1,
    "crashes": 1,
    "status": 404,
    "reason": Reason("failed", "why"),
    "parked": True,
    "requested": "https://a.example/other",
    "hops": 1,
    "seed": True,
    "meta": {},
    "origin": "https://a.example",
    "extra": Extra(Hints(priority=0.5)),
}


def test_a_row_comes_back_whole_whichever_of_its_fields_is_set(tmp_path):
    fields = UrlRow.__struct_fields__
    assert list(TRIED) == list(fields[fields.index("first_seen") + 1 :])

    async def main():
        store = RocksStore(tmp_path, 1 << 20)
        await store.open()
        for number, (name, value) in enumerate({"": None, **TRIED}.items()):
            for state in (0, CRAWLED):
                url = f"https://www.a.example/{name}/{state}"
                id16 = store.domain_prefix("a.example") + store.hash_key(url.encode(), store.secret)
                row = UrlRow(
                    id16,
                    url,
                    url,
                    "www.a.example",
                    "a.example",
                    state,
                    3,
                    0.5,
                    number + 1,
                    2,
                    "https://a.example/",
                    7.0,
                )
                if name:
                    setattr(row, name, value)
                await store.write(Batch(Meta(), urls={id16: row}))
                assert store.url(id16) == row, name
        await store.close()

    asyncio.run(main())

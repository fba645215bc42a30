"""Which stored page a new one repeats, in memory or on disk; and which pages an archive has lost."""

import asyncio
import random

import pytest

from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier.pages import Nearby, is_behind, pages_alike
from skitter.frontier.rows import Batch, Meta, PageRow
from skitter.frontier.sortable import number8
from skitter.model import Page, Place
from skitter.ports import Likeness, Mark

DOMAIN = "a.test"


@pytest.fixture
def store(tmp_path):
    opened = RocksStore(tmp_path / "state", 1 << 20)
    asyncio.run(opened.open())
    yield opened
    asyncio.run(opened.close())


class Pages:
    """Pages with similar SimHashes, so that many are near each other."""

    def __init__(self, store, nearby, seed):
        self.store, self.nearby, self.dice = store, nearby, random.Random(seed)
        self.made = 0
        self.simhashes = set()

    def make(self, count):
        batch, centres = Batch(Meta()), [self.dice.getrandbits(64) for _ in range(3)]
        for _ in range(count):
            simhash = self.dice.choice(centres)
            for _ in range(self.dice.randint(0, 5)):
                simhash ^= 1 << self.dice.randrange(64)
            row = self._page(simhash)
            batch.pages[row.id] = row
            if row.by_simhash:
                self.simhashes.add(simhash)
                self.nearby.add(DOMAIN, simhash)
        asyncio.run(self.store.write(batch))
        return centres

    def _page(self, simhash):
        self.made += 1
        page = Page(
            url=f"http://a.test/{self.made}", requested_url="", key="", host=DOMAIN, domain=DOMAIN, status=200,
            fetched_at=float(self.dice.randint(0, 5)), digest=f"sha1:{self.made}", simhash=simhash,
        )  # fmt: skip
        return PageRow(number8(self.made) * 2, page, by_digest=True, by_simhash=simhash not in self.simhashes)


def twin(store, nearby, simhash):
    asked = [Likeness(DOMAIN, "", simhash)]
    return asyncio.run(pages_alike(store.load, asked, 3, nearby, {}, store))[0]


@pytest.mark.parametrize("held", [10_000, 40], ids=["all in memory", "too many for memory"])
def test_the_nearest_page_is_the_same_in_memory_and_on_disk(store, held):
    nearby, on_disk = Nearby(held), Nearby(0)
    twin(store, nearby, 0)
    pages, answers = Pages(store, nearby, 5), 0
    for _ in range(3):
        for centre in pages.make(60):
            for _ in range(40):
                asked = centre ^ (1 << pages.dice.randrange(64)) ^ (1 << pages.dice.randrange(64))
                found = twin(store, on_disk, asked)
                assert twin(store, nearby, asked) == found
                nearest = min((simhash ^ asked).bit_count() for simhash in pages.simhashes)
                assert (found is None) == (nearest > 3)
                assert found is None or (found.simhash ^ asked).bit_count() == nearest
                answers += found is not None
        assert (nearby.of(DOMAIN).size >= nearby.per_domain) == (held == 40)
    assert answers > 100


def test_near_pages_in_memory_are_bounded_and_read_again(store, monkeypatch):
    monkeypatch.setattr("skitter.frontier.pages._IN_ALL", 100)
    nearby = Nearby()
    Pages(store, nearby, 6).make(30)
    for number in range(50):
        nearby.hold(f"{number}.test", [])
        assert len(nearby._domains) <= 13
    twin(store, nearby, 0)
    assert nearby.of(DOMAIN).size > 20


@pytest.mark.parametrize(
    ("place", "behind"),
    [
        (None, False),
        (Place("00-00002", 0, 100), False),
        (Place("00-00002", 1, 100), True),
        (Place("00-00002", 100, 1), True),
        (Place("00-00001", 5000, 1), False),
        (Place("00-00003", 0, 1), True),
    ],
)
def test_records_behind_the_end_of_an_archive(place, behind):
    assert is_behind(place, Mark("00-00002", 100)) is behind

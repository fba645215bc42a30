"""The parts of the frontier on RocksDB: keys that sort, windows that do not miss, a seen set that forgets nothing."""

import asyncio
import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter import urls
from skitter.backends.rocksdb import twins
from skitter.backends.rocksdb.layout import after, spot24
from skitter.backends.rocksdb.nearby import Nearby
from skitter.backends.rocksdb.records import Stored, encode
from skitter.backends.rocksdb.seen import RANKS, Same, Seen
from skitter.backends.rocksdb.store import Batch, Store
from skitter.backends.rocksdb.table import ABSENT, Table
from skitter.backends.rocksdb.window import Window
from skitter.frontier import rules
from skitter.frontier.bounded import Bounded
from skitter.frontier.sortable import number8, number_of, score8, time8, time_of
from skitter.model import Level, Page, Place, Reason, State, Verdict
from skitter.ports import Mark
from skitter.testing.contracts.owner import Owner, link
from tests.contract.grounds import RocksGround

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "state", 1 << 20)
    yield opened
    opened.close()


# ------------------------------------------------------------------------------------------------ keys


@given(finite, finite)
def test_larger_scores_sort_first(one, other):
    assert (score8(one) < score8(other)) == (one > other)


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_times_sort_by_size(one, other):
    assert (time8(one) < time8(other)) == (one < other)
    assert time_of(b"x" + time8(one)) == one


@given(st.integers(0, 2**64 - 1))
def test_numbers_come_back(number):
    assert number_of(number8(number)) == number


@given(st.binary(min_size=1, max_size=9), st.binary(max_size=20))
def test_nothing_with_a_prefix_lies_behind_its_end(prefix, rest):
    assert prefix + rest < after(prefix)


def test_spots_order_by_score_then_age():
    spots = [spot24(score, seq, b"i" * 16) for score, seq in ((2.0, 9), (1.0, 1), (1.0, 2), (-1.0, 0))]
    assert spots == sorted(spots)


# ------------------------------------------------------------------------------------------------ windows


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "take", "drop", "commit"]), st.integers(0, 99)),
        max_size=80,
    )
)
def test_a_window_always_knows_the_first_key(tmp_path_factory, steps):
    store = Store(tmp_path_factory.mktemp("window") / "state", 1 << 20)
    batch, truth = Batch(store), set()
    window = Window("queue", b"p", after(b"p"), 3)
    batch.put("queue", b"o-before")
    batch.put("queue", b"q-behind")
    for step, number in steps:
        key = b"p%03d" % number
        if step == "add" and key not in truth:
            truth.add(key)
            batch.put("queue", key)
            window.push(key)
        elif step == "drop" and key in truth:
            truth.discard(key)
            batch.delete("queue", key)
            window.discard(key)
        elif step == "take":
            first = window.first(batch)
            assert first == min(truth, default=None)
            if first is not None:
                truth.discard(first)
                batch.delete("queue", first)
                window.discard(first)
        elif step == "commit":
            store.commit(batch)
        assert len(window) <= 6
    assert window.first(batch) == min(truth, default=None)
    store.close()


def test_a_batch_reads_its_own_writes(store):
    batch = Batch(store)
    batch.put("urls", b"k", b"1")
    assert batch.get("urls", b"k") == b"1"
    assert store.get("urls", b"k") is None
    store.commit(batch)
    batch.delete("urls", b"k")
    assert batch.get("urls", b"k") is None
    assert store.get("urls", b"k") == b"1"
    store.commit(batch)
    assert store.get("urls", b"k") is None


def test_a_scan_ends_where_it_was_told_to_also_when_that_key_is_forgotten(store):
    batch = Batch(store)
    for number in range(100):
        batch.put("urls", b"k%03d" % number, b"v")
    store.commit(batch)
    rows = store.scan("urls", b"k", b"k" + b"%03d" % 10)
    others = [store.scan("urls", b"k", b"\xff" * number) for number in range(1, 200)]
    assert [key for key, _ in rows] == [b"k%03d" % number for number in range(10)]
    assert len(others) == 199


def test_a_scan_reads_what_there_was_when_it_began(store):
    batch = Batch(store)
    batch.put("urls", b"1", b"v")
    store.commit(batch)
    rows = store.scan_all("urls")
    batch.put("urls", b"2", b"v")
    store.commit(batch)
    assert list(rows) == [(b"1", b"v")]


def test_a_bounded_dictionary_forgets_what_came_first_and_only_when_trimmed():
    bounded = Bounded(10)
    bounded.update((number, number) for number in range(15))
    assert len(bounded) == 15
    bounded.trim()
    assert list(bounded) == [10, 11, 12, 13, 14]
    bounded.trim()
    assert len(bounded) == 5


# ------------------------------------------------------------------------------------------------ the seen set

fingerprints = st.integers(0, 2**64 - 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(fingerprints, st.integers(0, 0xFFFF)), max_size=60),
    st.integers(0, 255),
    st.integers(0, 60),
)
def test_a_table_knows_what_it_was_given_one_by_one_or_at_once(given_ranks, part, split):
    truth = {}
    table = Table()
    crowded = [(number << 8 & 2**64 - 256 | part, rank) for number, rank in given_ranks]  # all in one part
    for fingerprint, rank in crowded[:split]:
        table.put(fingerprint, rank)
    if crowded[split:]:
        names, ranks = zip(*crowded[split:], strict=True)
        table.put_all(array("Q", names).tobytes(), array("H", ranks).tobytes())
    for fingerprint, rank in crowded:
        truth[fingerprint >> 16 or 1] = rank
    for fingerprint, _ in crowded:
        assert table.find(fingerprint) == truth[fingerprint >> 16 or 1]
    assert len(table) == len(truth)


def test_a_table_that_grows_forgets_nothing_and_never_takes_a_stranger_for_known():
    dice = random.Random(7)
    table, truth = Table(), {}
    for _ in range(60_000):
        fingerprint, rank = dice.getrandbits(64), dice.randrange(1 << 16)
        table.put(fingerprint, rank)
        truth[fingerprint] = rank
    assert len(table) == len(truth)
    assert all(table.find(fingerprint) == rank for fingerprint, rank in truth.items())
    assert all(table.find(dice.getrandbits(64)) == ABSENT for _ in range(60_000))
    assert len(table) <= table.capacity < table.slots < 4 * len(table)


def test_a_table_goes_on_beyond_what_is_laid_out_one_by_one_and_comes_back_from_the_disk():
    dice = random.Random(8)
    table, again = Table(), Table()
    crowd = {dice.getrandbits(56) << 8 | 7: dice.randrange(1 << 16) for _ in range(20_000)}  # all in one part
    for fingerprint, rank in crowd.items():
        table.put(fingerprint, rank)
    for part, words in enumerate(table.dump()):
        again.restore(part, words)
    for each in (table, again):
        assert len(each) == len(crowd)
        assert all(each.find(fingerprint) == rank for fingerprint, rank in crowd.items())
        assert all(each.find(dice.getrandbits(56) << 8 | 7) == ABSENT for _ in range(20_000))


def test_a_table_whose_fingerprints_all_belong_at_its_end_grows_instead_of_running_over():
    table = Table()
    crowd = [2**64 - (number << 16) - 1 for number in range(200)]
    for fingerprint in crowd:
        table.put(fingerprint, 3)
    assert all(table.find(fingerprint) == 3 for fingerprint in crowd)


@given(st.sampled_from(Level), st.sampled_from(Level), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_rank_that_is_no_better_is_never_taken_for_better_and_a_better_one_is_never_overlooked(
    level, other_level, score, other
):
    stored, offered = RANKS[score][level][0], RANKS[other][other_level][1]
    assert 0 < offered < 0xFFFF
    if rules.better(other_level, other, level, score):
        assert offered < stored


@pytest.mark.parametrize("score", [0.0, -0.0, 1.0, -1.0, 5.0, -17.0, 255.0, -256.0, 0.5, 3.25])
def test_an_equal_rank_is_known_to_be_no_better(score):
    for level in Level:
        later, sooner = RANKS[score][level]
        assert later == sooner


def offered(seen, count, start=0):
    return [seen.find(number * 0x9E37_79B9_7F4A_7C15 % 2**64) for number in range(start, start + count)]


def offer(store, seen, count, start=0):
    batch = Batch(store)
    for number in range(start, start + count):
        seen.add(number * 0x9E37_79B9_7F4A_7C15 % 2**64, 1 + number % 7)
    seen.save(batch)
    store.commit(batch)
    seen.saved(batch)
    store.commit(batch)  # what notes a snapshot
    seen.saved(batch)


def test_the_seen_set_is_read_again_from_its_log(store):
    seen = Seen(store)
    offer(store, seen, 100)
    offer(store, seen, 100, start=100)
    again = Seen(store)
    assert offered(again, 200) == offered(seen, 200) == [1 + number % 7 for number in range(200)]
    assert again.find(12345) == ABSENT
    assert again.statistics()["seen"]["log"] == 200


def test_the_seen_set_is_read_from_its_snapshot_and_the_log_behind_it(store, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(store)
    for start in range(0, 700, 70):
        offer(store, seen, 70, start)
    (file,) = store.path.glob("seen-*.table")  # earlier ones are gone
    again = Seen(store)
    assert again.statistics()["seen"]["log"] < 300
    assert offered(again, 700) == [1 + number % 7 for number in range(700)]
    assert again.find(12345) == ABSENT
    assert file.exists()


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_snapshot_that_cannot_be_used_is_not(store, monkeypatch, damage):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(store)
    offer(store, seen, 150)
    (file,) = store.path.glob("seen-*.table")
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-8] if damage == "cut" else content[:-8] + b"\x07" * 8)
    assert offered(Seen(store), 150) == [1 + number % 7 for number in range(150)]


def test_a_snapshot_that_was_not_noted_before_the_end_is_removed(store):
    (store.path / "seen-9.table").write_bytes(b"half")
    Seen(store)
    assert not list(store.path.glob("seen-*.table"))


def test_a_snapshot_that_cannot_be_written_leaves_the_log(store, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(store)
    (store.path / "seen-1.table").mkdir()
    offer(store, seen, 150)
    (store.path / "seen-1.table").rmdir()
    assert offered(Seen(store), 150) == [1 + number % 7 for number in range(150)]


def test_links_that_are_remembered_are_bounded(monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SAME", 10)
    same = Same()
    links = [link(f"https://a.example/{number}") for number in range(11)]
    for one in links[:10]:
        same.remember(one, one.key.encode())
        same.trim()
    assert [same.ids[id(one)] for one in links[:10]] == [one.key.encode() for one in links[:10]]
    same.remember(links[10], b"")
    same.trim()
    assert len(same) == 0


def test_the_same_link_to_another_shard_is_sent_once_and_the_same_refusal_kept_once(tmp_path):
    other = next(name for name in (f"o{n}.example" for n in range(99)) if urls.shard(name, 2) == 1)
    mine = next(name for name in (f"m{n}.example" for n in range(99)) if urls.shard(name, 2) == 0)

    async def crawl():
        owner = await Owner.of(RocksGround(tmp_path), shards=2)
        foreign, local = link(f"https://{other}/"), link(f"https://{mine}/")
        refusal = (link(f"https://{mine}/no"), Reason("trap"))
        for _ in range(4):
            await owner.add(foreign, local, foreign, refused=[refusal, refusal])
        counts = await owner.frontier.counts()
        assert [sent for _, sent in await owner.frontier.outbox(9)] == [foreign]
        assert (counts.outbox, counts.added, counts.refused) == (1, 1, {"trap": 1})
        assert (counts.seen, counts.known) == (4 + 8 + 8 - 1, 3 + 7 + 7)
        assert await owner.add(refusal[0]) == 1  # somebody wants it after all
        assert (await owner.frontier.counts()).refused == {}

    asyncio.run(crawl())


def test_a_link_that_changed_nothing_moves_the_page_forward_once_it_waits_again(tmp_path):
    ground = RocksGround(tmp_path)

    async def crawl():
        owner = await Owner.of(ground)
        page, other = "https://a.example/1", "https://a.example/2"
        urgent = link(page, score=9.0)
        await owner.add(page)
        visit = await owner.lease_page()
        await owner.settle(visit, Verdict(state=State.CRAWLED, due=owner.now + 10), status=200)
        for _ in range(3):
            await owner.add(urgent)
        assert len(owner.frontier._open_shard.seen.wanted) == 1
        owner.now += 20
        await owner.add(link(other, score=5.0), link(other + "b", score=4.0))
        first = await owner.lease_page()  # with this lease the page waits again
        await owner.add(urgent)
        await owner.store(first)
        assert first.link.url == other
        assert await owner.crawl() == [page, other + "b"]

    asyncio.run(crawl())


# ------------------------------------------------------------------------------------------------ near pages


def _index_some(store, nearby, dice, count):
    """Pages with SimHashes that lie close together, so that many are near each other."""
    batch, centres = Batch(store), [dice.getrandbits(64) for _ in range(3)]
    for number in range(count):
        simhash = dice.choice(centres)
        for _ in range(dice.randint(0, 5)):
            simhash ^= 1 << dice.randrange(64)
        page = Page(
            url=f"http://a.test/{number}", requested_url="", key="", host="a.test", domain="a.test", status=200,
            fetched_at=float(dice.randint(0, 5)), digest=f"sha1:{number}", simhash=simhash,
        )  # fmt: skip
        id16 = number8(number) * 2
        batch.put("pages", id16, encode(Stored(page, b"")))
        twins.index(batch, nearby, b"a.test..", id16, page)
    store.commit(batch)
    return centres


@pytest.mark.parametrize("held", [10_000, 40], ids=["all in memory", "too many for memory"])
def test_the_nearest_page_is_the_same_whether_it_is_looked_for_in_memory_or_on_disk(store, monkeypatch, held):
    monkeypatch.setattr("skitter.backends.rocksdb.nearby._PER_DOMAIN", held)
    dice, nearby = random.Random(5), Nearby(store)
    nearby.of(b"a.test..", b"a.test..0")
    answers = 0
    for _ in range(3):
        for centre in _index_some(store, nearby, dice, 60):
            for _ in range(40):
                asked = centre ^ (1 << dice.randrange(64)) ^ (1 << dice.randrange(64))
                on_disk = twins.find(store, None, b"a.test..", "", asked, 3)
                assert twins.find(store, nearby, b"a.test..", "", asked, 3) == on_disk
                answers += on_disk is not None
        assert (nearby.of(b"a.test..", b"a.test..0") is None) == (held == 40)
    assert answers > 100


def test_near_pages_in_memory_are_bounded_and_read_again(store, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.nearby._IN_ALL", 100)
    nearby = Nearby(store)
    _index_some(store, nearby, random.Random(6), 30)
    for number in range(50):
        nearby.of(number8(number), number8(number) + b"0")
        assert len(nearby._domains) <= 13
    held = nearby.of(b"a.test..", b"a.test..0")
    assert held is not None
    assert held.size > 20


# ------------------------------------------------------------------------------------------------ rules


def test_the_ruler_draws_by_the_weights_and_skips_what_is_empty():
    weights = [rules.RULER.count(level) for level in Level]
    assert weights == [16, 8, 4, 2, 1]
    turn, drawn = 0, []
    for _ in range(6):
        level, turn = rules.DRAW[0b01010][turn]
        drawn.append(level)
    assert drawn == [1, 1, 3, 1, 1, 1]
    assert rules.DRAW[0][5] == (-1, 5)


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
def test_what_lies_behind_the_end_of_an_archive(place, behind):
    assert rules.behind(place, Mark("00-00002", 100)) is behind

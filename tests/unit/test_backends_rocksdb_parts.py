"""The parts of the frontier on RocksDB: keys that sort, windows that do not miss, a filter that never says no wrongly."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.backends import rules
from skitter.backends.rocksdb.bounded import Bounded
from skitter.backends.rocksdb.layout import after, number8, number_of, score8, spot24, time8, time_of
from skitter.backends.rocksdb.seen import Seen
from skitter.backends.rocksdb.store import Batch, Store
from skitter.backends.rocksdb.window import Window
from skitter.model import Level, Place
from skitter.ports import Mark
from skitter.testing.contracts.owner import Owner
from tests.contract.grounds import RocksGround, small_settings

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


def test_a_bounded_dictionary_forgets_what_came_first_and_only_when_trimmed():
    bounded = Bounded(10)
    bounded.update((number, number) for number in range(15))
    assert len(bounded) == 15
    bounded.trim()
    assert list(bounded) == [10, 11, 12, 13, 14]
    bounded.trim()
    assert len(bounded) == 5


# ------------------------------------------------------------------------------------------------ the filter


def ids(count, prefix=b"d" * 8):
    return [prefix + number.to_bytes(8, "big") for number in range(count)]


def test_the_filter_never_denies_what_it_was_given_also_when_it_has_grown(store):
    seen = Seen(store, Batch(store), expected=100)
    given_ids = ids(1000)
    for id16 in given_ids:
        seen.add(id16)
    assert all(seen.perhaps(id16) for id16 in given_ids)
    others = ids(2000, b"e" * 8)
    wrong = sum(seen.perhaps(id16) for id16 in others)
    assert wrong < 200
    numbers = seen.statistics()["seen"]
    assert numbers["items"] == 1000
    assert numbers["capacity"] == 100 + 200 + 400 + 800
    assert numbers["spared"] == 2000 - wrong
    assert 0 < numbers["false_positive_rate"] < 0.05
    assert 0 < numbers["fill"] < 0.6


def test_a_saved_filter_is_used_once(store):
    batch = Batch(store)
    seen = Seen(store, batch, expected=100)
    for id16 in ids(150):
        batch.put("urls", id16)
        seen.add(id16)
    seen.save(batch)
    store.commit(batch)
    again = Seen(store, batch, expected=100)
    assert again.complete
    assert all(again.perhaps(id16) for id16 in ids(150))
    store.commit(batch)
    after_a_crash = Seen(store, batch, expected=100)
    assert not after_a_crash.complete


def test_without_a_saved_filter_everything_is_possible_until_it_is_built_again(store, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SLICE", 40)
    batch = Batch(store)
    for id16 in ids(100):
        batch.put("urls", id16)
    store.commit(batch)
    seen = Seen(store, batch, expected=100)
    slices = 0
    while not seen.complete:
        assert seen.perhaps(b"never offered 16")
        seen.rebuild()
        slices += 1
    assert slices == 3
    assert all(seen.perhaps(id16) for id16 in ids(100))
    assert not seen.perhaps(b"never offered 16")


def test_a_filter_that_cannot_be_saved_is_built_again(store):
    batch = Batch(store)
    seen = Seen(store, batch, expected=100)
    batch.put("urls", ids(1)[0])
    seen.add(ids(1)[0])
    (store.path / "seen-0.bloom").mkdir()
    seen.save(batch)
    store.commit(batch)
    again = Seen(store, batch, expected=100)
    assert not again.complete
    again.rebuild()
    assert again.perhaps(ids(1)[0])


def test_a_saved_filter_that_is_cut_short_is_built_again(store):
    batch = Batch(store)
    seen = Seen(store, batch, expected=100)
    batch.put("urls", ids(1)[0])
    seen.add(ids(1)[0])
    seen.save(batch)
    store.commit(batch)
    (store.path / "seen-0.bloom").write_bytes(b"")
    again = Seen(store, batch, expected=100)
    assert not again.complete
    again.rebuild()
    assert again.perhaps(ids(1)[0])


def test_known_links_stay_known_while_the_filter_is_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SLICE", 10)
    ground = RocksGround(tmp_path, small_settings())

    async def crawl():
        owner = await Owner.of(ground)
        names = [f"https://a.example/{number}" for number in range(100)]
        await owner.add(*names)
        owner = await owner.killed()
        assert owner.frontier.statistics()["seen"]["complete"] == 0.0
        for name in names:
            assert await owner.add(name) == 0
        assert owner.frontier.statistics()["seen"]["complete"] == 1.0
        assert await owner.add("https://a.example/new") == 1
        owner = await owner.restarted()
        assert owner.frontier.statistics()["seen"]["complete"] == 1.0
        assert await owner.add(*names) == 0

    asyncio.run(crawl())


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

"""The part of a store's list in memory: windows that never miss the first key."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier.memory import Far, Lacking, Through, Window
from skitter.frontier.rows import Span


class List:
    """Part of the agenda in a store, and changes not written yet."""

    def __init__(self, path):
        self.store = RocksStore(path, 1 << 20)
        asyncio.run(self.store.open())
        self.changes = {}

    def change(self, key, value):
        self.changes[key] = value

    def commit(self):
        self.store.db.commit({"agenda": self.changes})
        self.changes = {}

    def read_on(self, window):
        """Like a shard: the store shows what is written, and later changes override it."""
        ask = Span(window.horizon, b"q", window.size)
        found = [place for place, _ in self.store.agenda(ask)]
        horizon = found[-1] if len(found) >= ask.limit else None
        end = ask.before if horizon is None else horizon
        keys = [key for key in found if key not in self.changes]
        keys += [key for key, value in self.changes.items() if value and ask.after < key <= end]
        window.fill([(key, key) for key in keys], horizon)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "take", "drop", "commit"]), st.integers(0, 99)),
        max_size=80,
    )
)
def test_a_window_always_knows_the_first_key(tmp_path_factory, steps):
    kept, truth = List(tmp_path_factory.mktemp("window") / "state"), set()
    window = Window(b"p", 3, kept.read_on)
    kept.change(b"o-before", b"v")
    kept.change(b"q-behind", b"v")
    for step, number in steps:
        key = b"p%03d" % number
        if step == "add" and key not in truth:
            truth.add(key)
            kept.change(key, b"v")
            window.push(key, key)
        elif step == "drop" and key in truth:
            truth.discard(key)
            kept.change(key, None)
            window.discard(key)
        elif step == "take":
            first = window.first()
            assert (first and first[0]) == min(truth, default=None)
            if first is not None:
                truth.discard(first[0])
                kept.change(first[0], None)
                window.discard(first[0])
        elif step == "commit":
            kept.commit()
        assert len(window) <= 6
    first = window.first()
    assert (first and first[0]) == min(truth, default=None)
    asyncio.run(kept.store.close())


def test_a_window_reads_on_until_enough_keys_or_all_are_known(tmp_path):
    kept = List(tmp_path)
    for number in range(5):
        kept.change(b"p%03d" % number, b"v")
    kept.commit()
    window = Window(b"p", 2, kept.read_on)
    assert window.lacks(1)
    window.has(3)
    assert [key for key, _ in window.in_memory(9)] == [b"p000", b"p001", b"p002", b"p003"]
    assert window.lacks(5)
    window.has(9)
    assert not window.lacks(9)
    assert len(window) == 5
    asyncio.run(kept.store.close())


def test_a_dictionary_reads_missing_entries_once_and_drops_the_oldest():
    asked = []

    def read(key):
        asked.append(key)
        return key.upper() if key != "none" else None

    through = Through(read, capacity=4)
    assert [through[key] for key in ("a", "none", "a", "none")] == ["A", None, "A", None]
    assert asked == ["a", "none"]
    assert through.get("b") is None
    assert "b" not in through
    for key in "bcd":
        assert through[key] == key.upper()
    through.trim()
    assert list(through) == ["c", "d"]
    assert through["a"] == "A"
    assert asked == ["a", "none", "b", "c", "d", "a"]


def test_behind_a_network_a_missing_entry_raises_lacking():
    far = Far()
    for through, key, field in (
        (Through(far.url), b"1" * 16, "urls"),
        (Through(far.host), "a.example", "hosts"),
        (Through(far.robots), "https://a.example", "robots"),
        (Through(far.page), b"1" * 16, "pages"),
        (Through(far.digest), ("a.example", "sha1:1"), "digests"),
        (Through(far.simhash), ("a.example", 1), "simhashes"),
        (Through(far.parked), "a.example", "parked"),
    ):
        with pytest.raises(Lacking) as lacking:
            through[key]
        assert getattr(lacking.value.wanted, field) == [key]
        assert key not in through

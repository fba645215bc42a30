"""Every URL ever offered, in memory: tables that forget nothing, ranks that never hide a move, and back from the disk."""

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.backends.rocksdb.database import Database, no_changes
from skitter.backends.rocksdb.seen import ABSENT, RANKS, Seen, Table
from skitter.frontier.levels import better
from skitter.frontier.store import KNOWN, LOOK, NEW
from skitter.model import Level

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
    if better(other_level, other, level, score):
        assert offered < stored


@pytest.mark.parametrize("score", [0.0, -0.0, 1.0, -1.0, 5.0, -17.0, 255.0, -256.0, 0.5, 3.25])
def test_an_equal_rank_is_known_to_be_no_better(score):
    for level in Level:
        later, sooner = RANKS[score][level]
        assert later == sooner


# ------------------------------------------------------------------------------------------------ the seen set


@pytest.fixture
def db(tmp_path):
    opened = Database(tmp_path / "state", 1 << 20)
    yield opened
    opened.close()


def id_of(number):
    return bytes(8) + (number * 0x9E37_79B9_7F4A_7C15 % 2**64).to_bytes(8, "big")


def place_of(number):
    return number % len(Level), float(number % 7)


def found(seen, count):
    """The ranks of the first URLs."""
    return [seen.find(int.from_bytes(id_of(number)[8:], "big")) for number in range(count)]


def ranks(count):
    """What they should be."""
    return [RANKS[score][level][0] for level, score in map(place_of, range(count))]


def commit(db, seen):
    """As the store does it."""
    changes = no_changes()
    seen.save(changes)
    db.commit(changes)
    seen.saved()


def offer(db, seen, count, start=0):
    for number in range(start, start + count):
        assert seen.offer(id_of(number), *place_of(number)) == NEW
    commit(db, seen)
    commit(db, seen)  # what notes a snapshot


def test_a_link_is_new_once_and_then_known_unless_it_is_more_urgent(db):
    seen, one = Seen(db), id_of(1)
    assert seen.offer(one, Level.NORMAL, 1.0) == NEW
    assert seen.offer(one, Level.NORMAL, 1.0) == KNOWN
    assert seen.offer(one, Level.LOW, 9.0) == KNOWN
    assert seen.offer(one, Level.NORMAL, 2.0) == LOOK
    assert seen.offer(one, Level.HIGH, 0.0) == LOOK
    assert seen.waits(one, Level.HIGH, 0.0)
    assert not seen.waits(one, Level.HIGH, 0.0)
    assert seen.offer(one, Level.NORMAL, 2.0) == KNOWN
    assert seen.refuse(one, 0) == KNOWN


def test_what_is_refused_changes_something_for_whoever_wants_it_or_refuses_it_sooner(db):
    seen, one = Seen(db), id_of(1)
    assert seen.refuse(one, 3) == NEW
    assert seen.refuse(one, 3) == KNOWN
    assert seen.refuse(one, 2) == LOOK
    assert seen.offer(one, Level.BACKGROUND, -1e9) == LOOK
    seen.refused(one, 2)
    assert seen.refuse(one, 2) == KNOWN
    assert seen.refuse(id_of(2), 1 << 40) == NEW
    assert seen.refuse(id_of(2), 1 << 41) == KNOWN


def test_what_is_over_changes_nothing_until_it_waits_again(db):
    seen, one = Seen(db), id_of(1)
    seen.offer(one, Level.NORMAL, 1.0)
    seen.ended(one)
    assert seen.offer(one, Level.CRITICAL, 1e300) == KNOWN
    assert seen.refuse(one, 0) == KNOWN
    assert seen.waits(one, Level.NORMAL, 1.0)
    assert seen.offer(one, Level.CRITICAL, 1e300) == LOOK


def test_what_was_refused_or_moved_is_so_after_the_next_start(db):
    seen = Seen(db)
    offer(db, seen, 3)
    seen.refused(id_of(0), 5)
    seen.waits(id_of(1), Level.CRITICAL, 4.0)
    seen.ended(id_of(2))
    commit(db, seen)
    again = Seen(db)
    assert [again.refuse(id_of(0), 5), again.refuse(id_of(0), 4)] == [KNOWN, LOOK]
    assert [again.offer(id_of(1), Level.CRITICAL, score) for score in (4.0, 5.0)] == [KNOWN, LOOK]
    assert again.offer(id_of(2), Level.CRITICAL, 9.0) == LOOK  # that it is over, its row will show


def test_the_seen_set_is_read_again_from_its_log(db):
    seen = Seen(db)
    offer(db, seen, 100)
    offer(db, seen, 100, start=100)
    again = Seen(db)
    assert found(again, 200) == found(seen, 200) == ranks(200)
    assert again.find(12345) == ABSENT
    assert again.metrics().log == 200


def test_the_seen_set_is_read_from_its_snapshot_and_the_log_behind_it(db, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(db)
    for start in range(0, 700, 70):
        offer(db, seen, 70, start)
    (file,) = db.path.glob("seen-*.table")  # earlier ones are gone
    again = Seen(db)
    assert again.metrics().log < 300
    assert found(again, 700) == ranks(700)
    assert again.find(12345) == ABSENT
    assert file.exists()


@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_snapshot_that_cannot_be_used_is_not(db, monkeypatch, damage):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(db)
    offer(db, seen, 150)
    (file,) = db.path.glob("seen-*.table")
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-8] if damage == "cut" else content[:-8] + b"\x07" * 8)
    assert found(Seen(db), 150) == ranks(150)


def test_a_snapshot_that_was_not_noted_before_the_end_is_removed(db):
    (db.path / "seen-9.table").write_bytes(b"half")
    Seen(db)
    assert not list(db.path.glob("seen-*.table"))


def test_a_snapshot_that_cannot_be_written_leaves_the_log(db, monkeypatch):
    monkeypatch.setattr("skitter.backends.rocksdb.seen._SNAPSHOT_AT_LEAST", 100)
    seen = Seen(db)
    (db.path / "seen-1.table").mkdir()
    offer(db, seen, 150)
    (db.path / "seen-1.table").rmdir()
    assert found(Seen(db), 150) == ranks(150)

"""A RocksDB directory: what is committed together, and what a scan sees."""

import pytest

from skitter.backends.rocksdb.database import Database


@pytest.fixture
def db(tmp_path):
    opened = Database(tmp_path / "state", 1 << 20)
    yield opened
    opened.close()


def test_what_is_committed_is_there_and_what_is_deleted_is_not(db):
    assert db.get("urls", b"k") is None
    db.commit({"urls": {b"k": b"1"}, "pages": {b"k": b"2"}})
    assert (db.get("urls", b"k"), db.get("pages", b"k")) == (b"1", b"2")
    db.commit({"urls": {b"k": None}, "pages": {}})
    assert (db.get("urls", b"k"), db.get("pages", b"k")) == (None, b"2")


def test_a_scan_ends_where_it_was_told_to_also_when_that_key_is_forgotten(db):
    db.commit({"urls": {b"k%03d" % number: b"v" for number in range(100)}})
    rows = db.scan("urls", b"k", b"k" + b"%03d" % 10)
    others = [db.scan("urls", b"k", b"\xff" * number) for number in range(1, 200)]
    assert [key for key, _ in rows] == [b"k%03d" % number for number in range(10)]
    assert len(others) == 199


def test_a_scan_reads_what_there_was_when_it_began(db):
    db.commit({"urls": {b"1": b"v"}})
    rows = db.scan_all("urls")
    db.commit({"urls": {b"2": b"v"}})
    assert list(rows) == [(b"1", b"v")]

"""One RocksDB directory: its column families, their options, and the only way to change it.

`commit` writes a set of changes to the log, atomically. Every commit passes the log to the operating system, which is
enough against `kill -9`; `sync` brings it to the disk.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rocksdict
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
)

from skitter.backends.rocksdb import summary
from skitter.backends.rocksdb.layout import FAMILIES
from skitter.backends.rocksdb.mirror import mirror
from skitter.ports import StateError
from skitter.runtime import durable

FORMAT = b"3"
_READERS = {
    b"1": "Skitter 0.1",
    b"2": "Skitter 0.1",
}  # which version of Skitter wrote, and reads, an earlier format

# Measured with benchmarks/frontier.py. Compression doubled the CPU time of the background threads. Write
# buffers that fit into the processor's cache cut the cost of a write by a third; flushing them more often
# costs a tenth of that.
_MEMTABLE = {"urls": 4 << 20, "queue": 8 << 20, "pages": 8 << 20}
_SMALL_MEMTABLE = 2 << 20
_ALL_MEMTABLES = (
    40 << 20
)  # for all together: one limit each would let memory grow for the first hundred thousand pages
_LOG_LIMIT = 64 << 20  # what a start after a crash reads again, in a second at most
_UNIVERSAL_TRIGGER = 8
_FILTER_BITS = 10
_MEMTABLE_FILTER = 0.05  # of the write buffer
_OPEN_TRIES = 5  # a reader may hit the moment in which the owner replaces a file
_OPEN_PAUSE = 0.1


Changes = dict[str, dict[bytes, bytes | None]]
"""Changes that become durable together, by family; `None` deletes a key."""


def no_changes() -> Changes:
    """Room for some."""
    return {name: {} for name in (*FAMILIES, "default")}


class Database:
    """An open directory. `get` and `scan` read committed data."""

    def __init__(self, path: Path, block_cache: int, *, read_only: bool = False, make: bool = True) -> None:
        """`make`: create the store if it does not exist."""
        self.path = path
        self._failed = False  # a write has failed, and the caller knows
        self._mirror: TemporaryDirectory[str] | None = None
        if read_only:
            self._db, self._mirror = _open_to_read(path, block_cache)
        else:
            self._db = _open(path, block_cache)
        self._summarizer = None if read_only else summary.Summarizer(path)
        opened_at = self._db.latest_sequence_number()  # nothing after it is synced yet
        self._families: dict[str, Any] = {name: self._db.get_column_family(name) for name in FAMILIES}
        self._families["default"] = self._db
        self._handles = {name: self._db.get_column_family_handle(name) for name in (*FAMILIES, "default")}
        try:
            self.secret = self._check_format(make=make and not read_only)
            self._summarize(opened_at, {})
        except StateError:
            self.close()
            raise

    def _check_format(self, *, make: bool) -> int:
        found, secret = self.get("default", b"format"), self.get("default", b"secret")
        if found is None and make:
            found, secret = FORMAT, os.urandom(8)
            self.commit({"default": {b"format": found, b"secret": secret}})
        if found is None or secret is None:
            raise StateError(f"{self.path} holds no crawl state yet; start the crawl first")
        if found != FORMAT:
            reader = _READERS.get(found, "another version of Skitter")
            raise StateError(
                f"the state in {self.path} has format {found.decode(errors='replace')}, which {reader} reads; this "
                f"version reads format {FORMAT.decode()}; go on with the one that began the crawl, or begin a new one with -o"
            )
        return int.from_bytes(secret, "big")

    def get(self, family: str, key: bytes) -> bytes | None:
        """The committed value."""
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise _unreadable(error, self.path) from error
        return value

    def scan(self, family: str, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Committed keys from `start` (included) to `end` (excluded), in order, as of now."""
        return self._walk(self._rows(family, start, end), end)

    def scan_all(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Every committed key of a family."""
        return self.scan(family, b"", b"\xff" * 64)

    def _walk(self, rows: rocksdict.RdictIter, _end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """rocksdict's iterator does not keep its upper bound alive; `_end` does."""
        try:
            while rows.valid():
                yield rows.key(), rows.value()
                rows.next()
            rows.status()
        except Exception as error:
            raise _unreadable(error, self.path) from error

    def _rows(self, family: str, start: bytes, end: bytes) -> rocksdict.RdictIter:
        bounds = rocksdict.ReadOptions()
        bounds.set_iterate_upper_bound(end)  # so that deleted keys behind the end are not read either
        try:
            rows: rocksdict.RdictIter = self._families[family].iter(bounds)
            rows.seek(start)
        except Exception as error:
            raise _unreadable(error, self.path) from error
        return rows

    def commit(self, changes: Changes) -> None:
        """Make changes durable, all or none."""
        writes = rocksdict.WriteBatch(raw_mode=True)
        put, delete = writes.put, writes.delete
        for family, rows in changes.items():
            if not rows:
                continue
            handle = self._handles[family]
            for key, value in rows.items():
                if value is None:
                    delete(key, handle)
                else:
                    put(key, value, handle)
        try:
            self._db.write(writes)
        except Exception as error:  # rocksdict raises plain exceptions
            raise self._unwritable(error) from error

    def sync(self) -> None:
        """Bring the log to the disk, and record how far it goes."""
        sequence, logs = (
            self._db.latest_sequence_number(),
            self._summarizer.look() if self._summarizer else {},
        )
        try:
            self._db.flush_wal(True)  # noqa: FBT003  the name of this flag is `sync`
        except Exception as error:
            raise self._unwritable(error) from error
        self._summarize(sequence, logs)

    def _summarize(self, sequence: int, logs: dict[str, int], *, closed: bool = False) -> None:
        if self._summarizer is None:
            return
        try:
            self._summarizer.write(sequence, logs, closed=closed)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> StateError:
        self._failed = True
        return StateError(
            f"{self.path} cannot be written: {error}; make room on its disk and open the crawl again, what was settled is safe"
        )

    def close(self) -> None:
        """Close the directory. RocksDB keeps its lock until the last handle is gone."""
        self._families.clear()
        self._handles.clear()
        sequence = self._db.latest_sequence_number()
        try:
            self._db.close()
        except Exception as error:
            if not self._failed:  # else this is the same error again, and must not hide the first one
                raise self._unwritable(error) from error
        if self._mirror is not None:
            self._mirror.cleanup()
        if not self._failed and self._summarizer is not None:
            self._summarize(sequence, self._summarizer.look(), closed=True)


def _open(path: Path, block_cache: int) -> Rdict:
    durable.make_folder(path)
    written = summary.read(path)
    _refuse(path, summary.damage(path, written))
    if written is not None and not written.closed:
        # After a crash, the log is read to see how far it goes. Opened for writing, RocksDB would drop what
        # it cannot read.
        _open_to_read(path, block_cache)[0].close()
    try:
        return Rdict(str(path), whole_options(), column_families=_families(Cache(block_cache)))
    except Exception as error:
        raise _explained(error, path) from error


def _open_to_read(path: Path, block_cache: int) -> tuple[Rdict, TemporaryDirectory[str] | None]:
    """An open store, and the folder through which it is read if need be."""
    if not (path / "CURRENT").exists():
        raise StateError(f"there is no crawl state in {path}; name the directory of a crawl that has begun")
    for attempt in range(_OPEN_TRIES):
        written = summary.read(path)
        _refuse(path, summary.damage(path, written))
        try:
            access = AccessType.read_only(error_if_log_file_exist=False)
            families, folder = _families(Cache(block_cache)), mirror(path)
            where = str(path) if folder is None else folder.name
            db = Rdict(where, Options(raw_mode=True), column_families=families, access_type=access)
        except Exception as error:
            if attempt == _OPEN_TRIES - 1:
                raise _explained(error, path) from error
            time.sleep(_OPEN_PAUSE)
            continue
        if behind := summary.behind(written, db.latest_sequence_number()):
            db.close()
            _refuse(path, behind)
        return db, folder
    raise AssertionError


def _refuse(path: Path, damage: str) -> None:
    if damage:
        raise StateError(
            f"{path} is damaged: {damage}; bring it back from a backup, or mend what can be mended with: "
            f"skitter check {path.parent.parent} --repair"
        )


def _explained(error: Exception, path: Path) -> StateError:
    """rocksdict raises plain exceptions with RocksDB's messages."""
    if "lock" in str(error).lower():
        return StateError(
            f"{path} is in use by another crawl; stop that one first, or name another directory"
        )
    return StateError(
        f"{path} cannot be opened: {error}; is the disk full, or the directory damaged or not ours?"
    )


def _unreadable(error: Exception, path: Path) -> StateError:
    return StateError(f"{path} cannot be read: {error}; is its disk in order?")


def whole_options() -> Options:
    """The options of a store, without those of its families."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003  rocksdict takes its flags by position
    options.create_missing_column_families(True)  # noqa: FBT003  see above
    options.set_max_total_wal_size(_LOG_LIMIT)
    options.set_db_write_buffer_size(_ALL_MEMTABLES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_skip_stats_update_on_db_open(True)
    options.set_write_buffer_size(1 << 20)
    return options


def _families(cache: Cache) -> dict[str, Options]:
    return {name: _family_options(name, cache) for name in FAMILIES}


def _family_options(name: str, cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_MEMTABLE.get(name, _SMALL_MEMTABLE))
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    # Index and filters stay outside the block cache: inside a small one, single reads took 200 µs.
    table.set_cache_index_and_filter_blocks(False)
    # A lease reads consecutive rows of the queue; small blocks would need an index of 20 MB at 10 million.
    table.set_block_size(16 << 10 if name == "queue" else 4 << 10)
    if name not in ("queue", "due", "agenda", "outbox", "log"):  # these are only read in order
        table.set_bloom_filter(_FILTER_BITS, False)  # noqa: FBT003  see above
    options.set_block_based_table_factory(table)
    if name == "twins":  # most pages have none, and each is looked up three times: 1.5 to 0.8 µs
        options.set_memtable_prefix_bloom_ratio(_MEMTABLE_FILTER)
        options.set_memtable_whole_key_filtering(True)
    if name == "queue":
        options.set_compaction_style(DBCompactionStyle.universal())
        options.set_level_zero_file_num_compaction_trigger(_UNIVERSAL_TRIGGER)
    return options

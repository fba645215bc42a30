"""What a store held when it was last synced, in a small file beside it, so that a truncated store is noticed.

RocksDB takes a truncated MANIFEST for the end of a write torn by a crash, opens what is left, and deletes the tables
that it no longer names. It also creates a new, empty store if CURRENT is missing. Its own guard against lost logs
(`track_and_verify_wals_in_manifest`) cannot be set from Python. So the size and digest of the MANIFEST, the sizes of
the logs and the last sequence number are recorded after every sync, and compared before and after the store is
opened.
"""

import os
import re
import threading
from pathlib import Path

import xxhash
from msgspec import Struct
from msgspec.json import decode, encode

FILE = "summary"
_LOG = re.compile(r"\d+\.log")
_OF_A_STORE = re.compile(r"MANIFEST-\d+|\d+\.(?:log|sst)|" + FILE)
_PIECE = 1 << 20


class Summary(Struct, frozen=True):
    """The store at one moment."""

    manifest: str
    size: int  # of the manifest
    digest: int  # of that part of it
    sequence: int  # of the last write
    logs: dict[str, int]  # sizes by name
    closed: bool  # nothing was written afterwards


class Summarizer:
    """Writes the summary of a store that this process has open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._manifest, self._size, self._digest = "", 0, xxhash.xxh3_64()
        self._written: Summary | None = None
        self._one_at_a_time = threading.Lock()  # syncs run in threads

    def look(self) -> dict[str, int]:
        """The logs as they are now. Call before the sync that brings them to the disk."""
        return _logs(self._path)

    def write(self, sequence: int, logs: dict[str, int], *, closed: bool = False) -> None:
        """Replace the file. It is not synced itself: an older summary is true as well, and a torn one is not used."""
        with self._one_at_a_time:
            self._read_on(_current(self._path))
            summary = Summary(
                self._manifest, self._size, self._digest.intdigest(), sequence, logs, closed=closed
            )
            if summary == self._written:  # an idle shard
                return
            body = encode(summary)
            draft = self._path / f"{FILE}.new"
            draft.write_bytes(b"%016x %b\n" % (xxhash.xxh3_64_intdigest(body), body))
            draft.replace(self._path / FILE)
            self._written = summary

    def _read_on(self, manifest: str) -> None:
        """Add the new part of the manifest; RocksDB only ever appends to it."""
        if manifest != self._manifest:
            self._manifest, self._size, self._digest = manifest, 0, xxhash.xxh3_64()
        with (self._path / manifest).open("rb") as file:
            if os.fstat(file.fileno()).st_size == self._size:
                return
            os.fsync(file.fileno())  # after a power loss it must not be shorter than recorded
            file.seek(self._size)
            while piece := file.read(_PIECE):
                self._digest.update(piece)
                self._size += len(piece)


def read(path: Path) -> Summary | None:
    """The summary of the store in a directory; None if there is no usable one."""
    try:
        digest, _, body = (path / FILE).read_bytes().rstrip(b"\n").partition(b" ")
    except FileNotFoundError:
        return None
    if digest != b"%016x" % xxhash.xxh3_64_intdigest(body):
        return None
    return decode(body, type=Summary)


def damage(path: Path, summary: Summary | None) -> str:
    """What the files of a store lack before it is opened, in words; empty if nothing looks wrong."""
    present = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
    if "CURRENT" not in present:
        left = sorted(name for name in present if _OF_A_STORE.fullmatch(name))
        return f"its file CURRENT is gone, and {left[0]} is there" if left else ""
    if summary is None:
        return ""
    current = _current(path)
    if current != summary.manifest:
        # Each opening starts another manifest; an older one is of an earlier moment. RocksDB itself refuses
        # other names.
        older = current.startswith("MANIFEST-") and _number(current) < _number(summary.manifest)
        return f"CURRENT names {current}, and {summary.manifest} was written after it" if older else ""
    return _manifest_damage(path / current, summary) or _log_damage(path, summary)


def _manifest_damage(manifest: Path, summary: Summary) -> str:
    try:
        file = manifest.open("rb")
    except FileNotFoundError:
        return f"{manifest.name} is gone"
    digest, left = xxhash.xxh3_64(), summary.size
    with file:
        while left and (piece := file.read(min(_PIECE, left))):
            digest.update(piece)
            left -= len(piece)
    if left:
        return f"{manifest.name} has {summary.size - left} bytes, and {summary.size} were written"
    return "" if digest.intdigest() == summary.digest else f"{manifest.name} is not what was written"


def _log_damage(path: Path, summary: Summary) -> str:
    logs = _logs(path)
    if (path / summary.manifest).stat().st_size != summary.size:
        return ""  # a log may be deleted after the manifest has grown; then the sequence number must tell
    for name, size in summary.logs.items():
        if logs.get(name, 0) < size:
            is_now = f"has {logs[name]} bytes" if name in logs else "is gone"
            return f"{name} {is_now}, and {size} were written"
    return ""


def behind(summary: Summary | None, sequence: int) -> str:
    """That an open store has less than was written, in words; empty if it has everything."""
    if summary is None or sequence >= summary.sequence:
        return ""
    return f"its log can be read up to write {sequence}, and {summary.sequence} were made"


def _number(manifest: str) -> int:
    digits = manifest.removeprefix("MANIFEST-")
    return int(digits) if digits.isdecimal() else -1


def _current(path: Path) -> str:
    return (path / "CURRENT").read_bytes().decode("ascii", "replace").strip()


def _logs(path: Path) -> dict[str, int]:
    sizes = {}
    for entry in os.scandir(path):
        if _LOG.fullmatch(entry.name):
            try:
                sizes[entry.name] = entry.stat().st_size
            except FileNotFoundError:  # RocksDB has just removed it
                continue
    return sizes

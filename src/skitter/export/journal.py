"""What an export to a folder has written so far, so that it can be continued after `kill -9` or a power loss.

An export consists of items: pages, the links of a page, tables. The journal knows which of them are in files that are whole,
not in which order they came: stores have no order that stays. An item that comes again is left out; one that has come since is
written too. Lines of the file, as JSON:

    {"export": …}                                     what is exported, and how: another export does not continue this one
    {"begun": "pages-00003.jsonl"}                    a file, before it is created
    {"items": "…", "files": 3, …}                     every file begun until here is whole and synced

Files that were begun after the last line of the third kind are removed before the export goes on.
"""

import fcntl
import os
import shutil
import time
from array import array
from base64 import b85decode, b85encode
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec
from xxhash import xxh3_64_intdigest

from skitter.ports import StateError
from skitter.runtime import durable

_EVERY = 1.0  # seconds between two notes that everything is whole; each syncs folders


class _Whole(msgspec.Struct, omit_defaults=True):
    """A line of the third kind. `items` have eight octets each; `parts` are items of which so many lines are written."""

    items: str
    files: int
    parts: dict[int, int] = {}
    flawed: bool = False


class Journal:
    """The journal of one export, which is locked while it is open."""

    def __init__(self, file: Path, folder: Path, export: Mapping[str, Any], name: str) -> None:
        """Read it if there is one, and make the folder fit. StateError if it is of another export, or in use."""
        self.files = 0  # that are whole
        self.flawed = False  # whether something was missing from what is written
        self._path, self._folder = file, folder
        self._there: array[int] = array("Q")  # items that are whole since an earlier run, sorted
        self._parts: dict[int, int] = {}  # lines of items that are there in part
        self._finished: array[int] = array("Q")
        self._item = 0
        self._names: set[str] = set()
        self._noted = time.monotonic()
        self._file = file.open("a+b")
        try:
            self._begin(export, name)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, export: Mapping[str, Any], name: str) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(f"{name}: another export is writing there; wait for it, or stop it") from None
        self._file.seek(0)
        end, begun = self._read(self._file, export, name) if self._folder.is_dir() else (0, [])
        for each in begun:
            (self._folder / each).unlink(missing_ok=True)
        self._file.truncate(end)
        if not end:
            if self._folder.is_dir():
                shutil.rmtree(self._folder)
            self._folder.mkdir()
            self._add({"export": export})
            os.fsync(self._file.fileno())

    def _read(self, lines: IO[bytes], export: Mapping[str, Any], name: str) -> tuple[int, list[str]]:
        """Where it is cut off, and the files that are not known to be whole."""
        end, at, items, begun = 0, 0, bytearray(), list[str]()
        for line in lines:
            at += len(line)
            try:
                said = msgspec.json.decode(line)
            except msgspec.DecodeError:  # cut off by a crash
                break
            if "export" in said:
                if said["export"] != export:
                    raise StateError(
                        f"{name}: what is there was begun by another export, or for other settings; remove "
                        f"{self._folder} and {self._path} to start over, or name another folder"
                    )
                end = at
            elif "begun" in said:
                begun.append(said["begun"])
            else:
                whole = msgspec.convert(said, _Whole, strict=False)  # the keys of JSON are strings
                items += b85decode(whole.items)
                self.files, self._parts, self.flawed = whole.files, whole.parts, whole.flawed
                end, begun = at, []
        found: array[int] = array("Q")
        found.frombytes(items)
        self._there = array("Q", sorted(found))
        return end, begun

    def _add(self, line: object) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    # -- what the export says ------------------------------------------------------------------------------------

    def has(self, item: str) -> bool:
        """Whether all of an item is in files that are whole since an earlier run."""
        return self._known(_hashed(item))

    def _known(self, hashed: int) -> bool:
        at = bisect_left(self._there, hashed)
        return at < len(self._there) and self._there[at] == hashed

    def starts(self, item: str) -> int:
        """What is written from here on is of this item; returns how many lines of it are there already."""
        hashed = _hashed(item)
        if hashed == self._item:
            return 0
        if self._item:
            self._finished.append(self._item)
            self._parts.pop(self._item, None)
        self._item = hashed
        return self._parts.get(hashed, 0)

    def begun(self, name: str) -> None:
        """A file is about to be created."""
        self._names.add(name)
        self._add({"begun": name})

    def whole(self, files: int, lines: int, *, flawed: bool) -> None:
        """Every file begun so far is complete and synced, with so many lines of the item. It is noted about once a second."""
        now = time.monotonic()
        if now - self._noted < _EVERY:
            return
        folders = {parent for name in self._names for parent in PurePosixPath(name).parents}
        for folder in folders:
            durable.sync_folder(self._folder / folder)
        if lines:
            self._parts[self._item] = lines
        self._add(_Whole(b85encode(self._finished.tobytes()).decode(), files, self._parts, flawed))
        os.fsync(self._file.fileno())
        self._names.clear()
        del self._finished[:]
        self._noted = now

    def close(self) -> None:
        """Let go of it."""
        self._file.close()

    def remove(self) -> None:
        """The export is complete."""
        self._path.unlink(missing_ok=True)


def _hashed(item: str) -> int:
    return xxh3_64_intdigest(item.encode("utf-8", "surrogatepass")) or 1

"""Repairs a damaged store from what is left of it. The result is used only if it is consistent."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import rocksdict

from skitter.backends.rocksdb import summary
from skitter.backends.rocksdb.checking import StoreCheck
from skitter.backends.rocksdb.database import Database, whole_options
from skitter.backends.rocksdb.store import RocksStore
from skitter.ports import StateError


def mend(path: Path, block_cache: int) -> str:
    """Replace a damaged store by a repaired one, and keep the damaged one beside it. Returns what was done, in words.

    First try: all tables, whatever the manifest says. If that is not consistent, the store as RocksDB opens it: as of
    the moment before the first unreadable write.
    """
    aside = path.parent.parent / "repair"  # in state/ each folder is a shard
    aside.mkdir(exist_ok=True)
    draft, kept = aside / f"{path.name}.mended", aside / f"{path.name}.damaged"
    name = f"{path.parent.name}/{path.name}"
    for how, attempt in (("rebuilt from its tables", _rebuild), ("taken as of an earlier moment", _leave)):
        if path.is_dir() and _made(path, draft, attempt, block_cache):
            shutil.rmtree(kept, ignore_errors=True)
            path.rename(kept)
            draft.rename(path)
            return f"{name}: {how}; what it was is in repair/{kept.name}"
    return (
        f"{name}: cannot be mended; bring it back from a backup, or begin another crawl with -o. The files in archive/ "
        "are not touched and can be read without it"
    )


def _made(path: Path, draft: Path, attempt: Callable[[Path], None], block_cache: int) -> bool:
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(path, draft, copy_function=_take_over)
    (draft / summary.FILE).unlink(missing_ok=True)
    try:
        attempt(draft)
        Database(draft, block_cache, make=False).close()
        store = RocksStore(draft, block_cache, read_only=True)
    except StateError:
        shutil.rmtree(draft)
        return False
    try:
        sound = not any(StoreCheck(store, lambda _rows: None).problems())
    finally:
        store.db.close()
    if not sound:
        shutil.rmtree(draft)
    return sound


def _take_over(source: str, target: str) -> None:
    """Tables never change, so they are linked, not copied."""
    (os.link if source.endswith(".sst") else shutil.copy2)(source, target)


def _rebuild(path: Path) -> None:
    try:
        rocksdict.Rdict.repair(str(path), whole_options())
    except Exception as error:  # rocksdict raises plain exceptions
        raise StateError(str(error)) from error


def _leave(path: Path) -> None:
    """Opened unchanged."""
    if not (path / "CURRENT").exists():
        raise StateError("there is no manifest to open")

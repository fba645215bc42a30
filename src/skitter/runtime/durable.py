"""Files and folders that survive a power loss.

Writing a file is not enough: its bytes, and the directory entry that names it, stay in memory for up to half
a minute. On ext4 a power loss in that time leaves an empty file, or none.
"""

import os
from pathlib import Path


def write(path: Path, octets: bytes) -> None:
    """Replace a file atomically. It is synced when this returns."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def write_private(path: Path, octets: bytes) -> None:
    """Write a new file that nobody else can read, not even for a moment. FileExistsError if there is one."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents. Their directory entries are synced when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder: files created, renamed or removed in it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Sync a file that somebody else has written."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

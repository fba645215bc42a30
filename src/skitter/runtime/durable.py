"""Files and folders that are still there after a loss of power.

`write` of a file is not enough: its bytes, and the entry in its folder that names it, stay in memory for up to half a
minute. On ext4 a loss of power in that time leaves a file of no bytes, or none.
"""

import os
from pathlib import Path


def write(path: Path, octets: bytes) -> None:
    """Replace a file, whole or not at all. It is on the disk when this returns."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing. Their entries are on the disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Bring the entries of a folder to the disk: files in it that were made, renamed or removed."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""A folder of links to the files of a store, for readers who may not write where the store lies.

RocksDB and rocksdict write a log and a small file of settings also where a store is only read. On a read-only file system,
and in a directory of somebody else, they write into this folder instead; tables and logs are read where they are.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

_WRITTEN = ("LOG", "LOCK", "rocksdict-config.json")  # and their like: what a reader would write to


def mirror(path: Path) -> TemporaryDirectory[str] | None:
    """Such a folder, to be kept for as long as the store is open; None where the store can be opened as it is."""
    if os.access(path, os.W_OK):
        return None
    folder = TemporaryDirectory(prefix="skitter-")
    for entry in os.scandir(path.resolve()):
        if entry.name.startswith(_WRITTEN):
            continue
        (Path(folder.name) / entry.name).symlink_to(entry.path)
    return folder

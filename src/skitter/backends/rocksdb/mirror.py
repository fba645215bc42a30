"""A folder of links to the files of a store, for readers without write access to its directory.

RocksDB and rocksdict write a log and a small file of settings even when a store is only read. On a read-only file
system, or in a directory of another user, they write into this folder instead; tables and logs are read in place.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

_WRITTEN = ("LOG", "LOCK", "rocksdict-config.json")  # and similar ones: files a reader would write to


def mirror(path: Path) -> TemporaryDirectory[str] | None:
    """Such a folder, to be kept while the store is open; None if the store can be opened in place."""
    if os.access(path, os.W_OK):
        return None
    folder = TemporaryDirectory(prefix="skitter-")
    for entry in os.scandir(path.resolve()):
        if entry.name.startswith(_WRITTEN):
            continue
        (Path(folder.name) / entry.name).symlink_to(entry.path)
    return folder

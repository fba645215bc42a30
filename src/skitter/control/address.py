"""The address of a socket in the file system, also if its path is longer than an address may be (about 100 bytes)."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 100  # bytes; Linux allows 107, others 103
_HANDLES = Path("/proc/self/fd")


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """A name of the path that a socket can be bound or connected to, good until the end of the block."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    if _HANDLES.is_dir():
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield str(_HANDLES / str(handle) / path.name)
        finally:
            os.close(handle)
        return
    with tempfile.TemporaryDirectory(prefix="sk") as folder:
        short = Path(folder) / "d"
        short.symlink_to(path.parent.absolute())
        yield str(short / path.name)

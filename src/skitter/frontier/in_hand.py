"""The one visit whose bytes are being worked on, left where whoever opens the shard after a crash can read it.

Sixteen bytes of shared memory backed by a file: writing them costs no system call, and the kernel keeps them when the
process dies, whatever it died of.
"""

import mmap
from pathlib import Path

_SIZE = 16
_EMPTY = bytes(_SIZE)


class Hand:
    """What is in hand. Its file is opened when it is first used: until then it may not have a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: mmap.mmap | None = None

    @property
    def _bytes(self) -> mmap.mmap:
        if self._opened is None:
            with self._path.open("a+b") as file:
                # Written, not only made this long: a hole in a file on a full disk would end the process with SIGBUS.
                file.write(bytes(max(0, _SIZE - file.tell())))
                file.flush()
                self._opened = mmap.mmap(file.fileno(), _SIZE)
        return self._opened

    def read(self) -> bytes:
        """The id that stands there; zeros for none."""
        return self._bytes[:]

    def write(self, id16: bytes | None) -> None:
        """Take one, or put it down."""
        self._bytes[:] = _EMPTY if id16 is None else id16

    def close(self) -> None:
        """Let go of the file."""
        if self._opened is not None:
            self._opened.close()

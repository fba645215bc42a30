"""The seam of exports: what a format is, where it writes to, and whom it tells how far it is.

A format is one `Format`: its name, a sentence for `--help`, and a writer. The writer asks the destination for binary
files by name, and tells the listener what is done. To add one, write it in a module of its own, and name it in the table
`formats.FORMATS`.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from pathlib import Path
from types import coroutine
from typing import IO, Any, Protocol

from msgspec import Struct

from skitter.export.source import Source
from skitter.model import Page

TURN = 64  # lines after which the event loop gets a turn


class Destination(Protocol):
    """Where an export goes: one file or stream, or a folder of files."""

    @property
    def split(self) -> int | None:
        """The most octets that a file of lines may have, before compression; None: there is one file."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """A new file of this name in a folder, or in folders of it (a/b/c); otherwise the one file there is, whatever its name.

        The writer may close it; if not, it is closed at the end.
        """
        ...

    def path(self, name: str) -> Path:
        """Where a new file of this name is to be written, for libraries that write files themselves.

        Only a file or a folder has such a place; OSError for anything else.
        """
        ...

    # -- so that it can be continued: an export consists of items (pages, say), each with a name of its own

    @property
    def files(self) -> int:
        """How many files there are, with those of an earlier run that is continued."""
        ...

    def has(self, item: str) -> bool:
        """Whether all of an item was written by an earlier run that is continued: it is not to be written again."""
        ...

    def starts(self, item: str) -> int:
        """What is written from here on is of this item; returns how many lines of it an earlier run has written."""
        ...

    def whole(self, lines: int = 0) -> None:
        """No file is open, and so many lines of the item are written: none of that need be written again."""
        ...


class Listener(Protocol):
    """Hears how far an export is."""

    def expect(self, total: int | None, one: str, many: str = "") -> None:
        """About this many are to be written, if that is known; `one` and `many` are what they are called."""
        ...

    def done(self, number: int = 1) -> None:
        """So many more are written."""
        ...

    def remark(self, text: str) -> None:
        """Something is missing from the export."""
        ...

    def left_out(self, why: str) -> None:
        """A page is left out on purpose, for one of a few reasons."""
        ...


class Format(Struct, frozen=True, kw_only=True):
    """An export format."""

    name: str
    about: str  # one sentence, for --help
    write: Callable[[Source, Destination, Listener], Coroutine[Any, Any, None]]
    streams: bool = True  # it may go to standard output
    lines: bool = True  # it consists of lines: it may be split and compressed
    tree: bool = False  # it is a folder of files, always
    archive_alone: bool = (
        False  # it is made from the archive alone: of pages in other places it knows nothing
    )
    suffix: str = ""  # how the name of its file must end, because other programs go by it
    resumes: bool = (
        False  # it tells its destination of items; if it is a folder of files, it can be continued
    )


@coroutine
def turn() -> Generator[None, None, None]:
    """Give the event loop a turn, so that an interrupt is heard. (`--help` does without asyncio.)"""
    yield


class Lines:
    """Writes lines into a file, or into numbered files of limited size, each beginning with the same head."""

    def __init__(self, into: Destination, stem: str, suffix: str, head: str = "") -> None:
        self._into = into
        self._stem = stem
        self._suffix = suffix
        self._head = head.encode()
        self._size = self._lines = 0  # of the file
        self._item = ""
        self._there = False  # the item is
        self._skips = 0  # lines of the item that are
        self._of_item = 0  # lines of the item
        self._file = self._begun()

    def _begun(self) -> IO[bytes]:
        file = self._into.open(f"{self._stem}-{self._into.files + 1:05d}{self._suffix}")
        file.write(self._head)
        self._size, self._lines = len(self._head), 0
        return file

    async def write(self, line: str, item: str = "") -> None:
        """Add a line of an item; it includes its end. One that is longer than the limit has a file of its own."""
        if item != self._item:
            self._item, self._there = item, self._into.has(item)
            self._skips = self._of_item = 0 if self._there else self._into.starts(item)
        if self._there or self._skips:
            self._skips = max(0, self._skips - 1)
            await turn()
            return
        octets = line.encode("utf-8", "backslashreplace")
        limit = self._into.split
        if limit is not None and self._lines and self._size + len(octets) > limit:
            self._file.close()
            self._into.whole(self._of_item)
            self._file = self._begun()
        self._file.write(octets)
        self._of_item += 1
        self._size += len(octets)
        self._lines += 1
        if not self._lines % TURN:
            await turn()


async def remaining(pages: AsyncIterator[Page], into: Destination, told: Listener) -> AsyncIterator[Page]:
    """The pages that an earlier run has not written."""
    number = 0
    async for page in pages:
        if not into.has(page.key):
            yield page
            continue
        told.done()
        number += 1
        if not number % TURN:
            await turn()

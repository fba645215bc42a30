"""The members of a zip file, as Office documents and books are: opened with limits, read in pieces.

A zip bomb ends the reading when its members together, or one of them compared to its size in the file, become too large.
"""

import io
import time
import zipfile
import zlib
from collections.abc import Iterator

from skitter.parse.elements import End, Start, Stop, read

_PIECE = 2**16
_MOST_MEMBERS = 20_000
_MOST_UNPACKED = 100 * 2**20  # bytes of all members that are read, each time they are
_RATIO = 200  # times what a member takes in the file; text that people wrote has 5, tables have 50
_ALLOWED_ANYWAY = 10 * 2**20  # bytes of a member, whatever its ratio
_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_SHARE = 0.6  # of the deadline, after which nothing more is read


class Unreadable(Exception):  # noqa: N818  the document's fault, and a value in the end
    """The file cannot be read at all, with the reason."""


class Container:
    """A zip file open for reading."""

    def __init__(self, content: bytes, deadline: float) -> None:
        """Unreadable if it is none, or encrypted."""
        self._until = time.monotonic() + deadline * _SHARE
        self._unpacked = 0
        self.problem = ""  # the first reason why something was not read
        if content.startswith(_OLE):
            raise Unreadable("the document is encrypted, or in a format of before 2007")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
            members = self._zip.infolist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError, EOFError):
            raise Unreadable("the document is damaged or cut short, and cannot be read") from None
        if len(members) > _MOST_MEMBERS:
            raise Unreadable(f"the document has {len(members)} members, more than {_MOST_MEMBERS}")
        self._members = {member.filename: member for member in members}
        if any(member.flag_bits & 1 for member in members):
            raise Unreadable("the document is encrypted and needs a password")

    def names(self) -> list[str]:
        """The members, in their order."""
        return list(self._members)

    def walk(self, name: str, start: Start, end: End, text: "Text") -> None:
        """Read a member as XML, if it is there."""
        if name in self._members:
            self._note(read(self._pieces(name), start, end, text.add))

    def whole(self, name: str, most: int) -> bytes:
        """A member, up to a size; nothing if it is not there or damaged."""
        found = bytearray()
        if name in self._members:
            try:
                for piece in self._pieces(name):
                    found += piece
                    if len(found) > most:
                        break
            except Stop as stop:
                self._note(str(stop))
        return bytes(found[:most])

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _pieces(self, name: str) -> Iterator[bytes]:
        member = self._members[name]
        if member.compress_type not in _METHODS:
            raise Stop("it is compressed in an unusual way")
        most = max(_ALLOWED_ANYWAY, _RATIO * member.compress_size)
        size = 0
        try:
            with self._zip.open(member) as file:
                while piece := file.read(_PIECE):
                    size += len(piece)
                    self._unpacked += len(piece)
                    if size > most or self._unpacked > _MOST_UNPACKED:
                        raise Stop("it unpacks to more than a document can have")
                    if time.monotonic() > self._until:
                        raise Stop("it takes too long to read")
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError) as error:
            raise Stop(f"a member is damaged: {error}") from None


class Text:
    """Collects the text of a document, up to a limit."""

    def __init__(self, most: int) -> None:
        self._pieces: list[str] = []
        self._room = most
        self._hidden = 0  # elements around, whose text is not part of the document
        self.on = False  # whether text is listened to

    def add(self, text: str) -> None:
        """A text, if it counts."""
        if self.on and not self._hidden:
            self.put(text)

    def put(self, text: str) -> None:
        """A text or a separator. Stop if there is no more room."""
        self._pieces.append(text[: self._room])
        self._room -= len(text)
        if self._room <= 0:
            raise Stop("its text is longer than parse.max_text")

    def hide(self, by: int) -> None:
        """An element begins (1) or ends (-1) whose text does not count."""
        self._hidden += by

    def mark(self) -> int:
        """How far the text is, for `since`."""
        return len(self._pieces)

    def since(self, mark: int) -> str:
        """The text since a mark."""
        return "".join(self._pieces[mark:])

    def take(self) -> str:
        """The text since the last time."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

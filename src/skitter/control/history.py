"""What happened to a crawl on one machine, kept: one line for each event that people are told of.

Only the process that holds the lock of the directory writes. A reader says how far it has read by an offset in the file,
which stays the same for good: so nothing is read twice or missed, whoever is restarted in between. A crash may leave the
beginning of a line; readers skip it, and the next writer cuts it off.
"""

import time
from contextlib import suppress
from os import SEEK_END
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from skitter.events import Deferred, Event, Opened, ScopeWidened, SetAside, Stopped, Warned
from skitter.runtime.durable import cut_torn_line

KEPT = (Opened, Deferred, SetAside, ScopeWidened, Warned, Stopped)

_encode = msgspec.json.Encoder().encode


class Happened(Struct, frozen=True):
    """One event, and when it was noticed."""

    at: float
    event: Opened | Deferred | SetAside | ScopeWidened | Warned | Stopped


_decode = msgspec.json.Decoder(Happened).decode


class Entry(NamedTuple):
    """An event, and the offset after it, which is its id."""

    id: int
    happened: Happened


class History:
    """The file, written by the process that holds the lock. Without room on the disk, events are not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._whole = False  # what a crash may have left was cut off

    def __call__(self, event: Event) -> None:
        """Keep an event. There are few, so the file is open for a moment only."""
        if not isinstance(event, KEPT):
            return
        line = _encode(Happened(time.time(), event)) + b"\n"
        with suppress(OSError), self._path.open("a+b", buffering=0) as file:
            if not self._whole:
                cut_torn_line(file)
                self._whole = True
            file.write(line)


def read(path: Path, after: int = 0, limit: int = 1000) -> list[Entry]:
    """Events behind an offset, in order. An offset inside of a line means the beginning of the next one."""
    found: list[Entry] = []
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return found
    with file:
        if after > file.seek(0, SEEK_END):
            return found
        at = file.seek(max(0, after - 1))
        if after:  # the line before, or the rest of one
            at += len(file.readline())
        while len(found) < limit and (line := file.readline()).endswith(b"\n"):
            at += len(line)
            try:
                found.append(Entry(at, _decode(line)))
            except msgspec.DecodeError:  # of another version
                continue
    return found

"""The WARC files of one shard: append, cut, sync.

Only the shard's committer calls this, one call at a time. A group is written with one write to a file opened
for appending; if that fails (disk full), the file is truncated to its previous end, so that it never ends
inside a record while we are alive. `cut` drops what a killed process left after the last settled mark at the
next start. An existing file is only continued at the end that `cut` has established; without a cut a new one
is started.

File names are NN-YYYYMMDDHHMMSS-SSSSS.warc.gz: shard, time of creation, serial number. The serial orders
them, because a clock may be set back.
"""

import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from skitter.backends.warc import records
from skitter.backends.warc.reading import Reader, Record, members
from skitter.model import Exchange, Page, Place, Rendering
from skitter.ports import Clock, Mark, Packed, Twin
from skitter.runtime import durable
from skitter.settings import ArchiveSettings

_NAME = re.compile(r"(\d{2,})-\d{14}-(\d{5,})\.warc\.gz")
_MAGIC = b"\x1f\x8b\x08"  # RFC 1952 2.3.1: how every gzip member begins
_LAST_OF_VISIT = (b"WARC/1.1\r\nWARC-Type: metadata\r\n", b"WARC/1.1\r\nWARC-Type: warcinfo\r\n")
_LARGE = 4 * 2**20  # bytes compressed at once: 5 ms, and a group of ordinary visits has fewer
_NEW = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_OLD = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class WarcArchive:
    """ports.Archive on WARC files. `software` and `user_agent` go into the warcinfo record, as does the operator."""

    def __init__(
        self,
        directory: Path,
        shard: int,
        settings: ArchiveSettings,
        clock: Clock,
        *,
        software: str = "",
        user_agent: str = "",
        contact: str = "",
    ) -> None:
        self._directory = directory
        self._shard = shard
        self._max_file: int = settings.max_file
        self._clock = clock
        self._reader = Reader(directory)
        self._file = ""
        self._end = 0
        self._serial = -1
        self._first = 0  # no serial is lower
        self._fd = -1
        self._left: list[int] = []  # closed files that are not synced yet
        self._renames = 0  # files created and removed: the directory has to be synced too, from time to time
        self._renames_synced = 0
        self._syncing = asyncio.Lock()
        self._about = {
            "software": software,
            "format": "WARC File Format 1.1",
            "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
            "robots": "obey RFC 9309",
            "operator": settings.operator or contact,
            "http-header-user-agent": user_agent,
            "isPartOf": directory.absolute().parent.name,
        }

    def pack(
        self, exchange: Exchange, page: Page | None, twin: Twin | None, rendering: Rendering | None = None
    ) -> Packed:
        """Build the records of one exchange. With a twin, an identical payload is not stored again."""
        return records.pack(exchange, page, twin, rendering)

    def mark(self) -> Mark:
        """The current end of the archive."""
        return Mark(self._file, self._end)

    def read(self, place: Place) -> bytes:
        """The HTTP message (head and body as received) at a place. For a revisit, only its head."""
        return self._reader.read(place)

    def settled(self) -> None:
        """Everything appended so far is settled. Local files do not need to know."""

    def gaps(self) -> list[int]:
        """The serial numbers missing before the current file."""
        return sorted(set(range(self._serial)) - set(_files(self._directory, self._shard)))

    # -- files as segments, which are uploaded ---------------------------------------------------------------

    def segmented(self, first: int) -> None:
        """From now on only `leave` closes a file, whatever its size, and serials are at least `first`."""
        self._max_file, self._first = sys.maxsize, first

    def leave(self) -> None:
        """Close the current file: it will not grow any more, and the next group starts another one."""
        if self._fd >= 0:
            os.fsync(self._fd)  # no mark will point into it again, so a lost tail would go unnoticed
            self._left.append(self._fd)
            self._fd = -1

    # -- writing ---------------------------------------------------------------------------------------------

    async def append(self, packs: Sequence[Packed]) -> list[Place]:
        """Append records; one place per pack. All of them, or an OSError and none.

        They are compressed here, many in a row: interleaved with parsing, neither would find its tables in
        the CPU cache (a whole crawl would cost 6 % more).
        """
        if not packs:
            return []
        written = await _compressed(packs)
        before = self._file, self._end, self._fd
        if self._fd >= 0:
            _take_back(self._fd, self._end)
        opening = self._begin() if self._fd < 0 or self._end > self._max_file else b""
        group, places, end = [opening], [], self._end + len(opening)
        for pack, compressed in zip(packs, written, strict=True):
            for index, member in enumerate(compressed):
                if index == pack.main:
                    behind = compressed[index + 1 : index + 1 + pack.beside] if pack.beside else ()
                    places.append(Place(self._file, end, len(member), tuple(map(len, behind))))
                end += len(member)
                group.append(member)
        try:
            _write(self._fd, b"".join(group))
        except OSError:
            self._undo(*before)
            raise
        if opening and before[2] >= 0:
            # The mark moves on to the next file, so a tail of this one lost in a power failure would go
            # unnoticed.
            os.fsync(before[2])
            self._left.append(before[2])
        self._end = end
        return places

    def _begin(self) -> bytes:
        """Create the next file; returns its warcinfo record, which is written together with the first group."""
        durable.make_folder(self._directory)
        now = self._clock.now()
        serial = max(
            [self._first, self._serial + 1, *(1 + one for one in _files(self._directory, self._shard))]
        )
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(now))
        name = f"{self._shard:02d}-{stamp}-{serial:05d}.warc.gz"
        self._fd = os.open(self._directory / name, _NEW, 0o644)
        self._file, self._end, self._serial = name, 0, serial
        self._renames += 1
        return records.warcinfo(name, now, self._about)

    def _undo(self, file: str, end: int, fd: int) -> None:
        """After a failed write: restore the files as they were. If even that fails, the next append does it."""
        with suppress(OSError):
            if fd == self._fd:
                _take_back(fd, end)
            else:
                os.close(self._fd)
                (self._directory / self._file).unlink()
        self._file, self._end, self._fd = file, end, fd

    async def sync(self) -> None:
        """Make everything appended survive a power loss."""
        async with self._syncing:
            left, renames = list(self._left), self._renames
            directory = self._directory if renames > self._renames_synced else None
            await asyncio.to_thread(_sync, [*left, self._fd] if self._fd >= 0 else left, directory)
            self._renames_synced = renames
            for fd in left:
                self._left.remove(fd)
                os.close(fd)

    async def close(self) -> None:
        """Close the current file."""
        await self.sync()
        self._let_go()

    def _let_go(self) -> None:
        for fd in (*self._left, self._fd):
            if fd >= 0:
                os.close(fd)
        self._left.clear()
        self._fd = -1

    # -- cutting ---------------------------------------------------------------------------------------------

    async def cut(self, mark: Mark) -> Mark:
        """Drop everything after the mark. Returns the new end of the archive: before the mark if something is missing.

        Never cuts inside a record, nor between the records of one visit.
        """
        async with self._syncing:
            self._let_go()
            await asyncio.to_thread(self._cut, mark)
        return self.mark()

    def _cut(self, mark: Mark) -> None:
        files = _files(self._directory, self._shard)
        serial = _serial(mark.file, self._shard) if mark.file else -1
        path = self._directory / mark.file
        end = _whole_end(path, mark.end) if mark.file and path.is_file() else 0
        for number, other in files.items():
            if number > serial or (number == serial and not end):
                other.unlink()
                self._renames += 1
        self._file, self._end, self._serial = mark.file, end, serial
        if end:
            self._fd = os.open(path, _OLD)
            os.ftruncate(self._fd, end)


async def _compressed(packs: Sequence[Packed]) -> list[list[bytes]]:
    """The records of each visit. Large ones do not make the event loop wait."""
    every = [pack.records for pack in packs]
    if sum(sum(map(len, some)) for some in every) > _LARGE:
        return await asyncio.to_thread(lambda: list(map(records.compressed, every)))
    return list(map(records.compressed, every))


def trim(path: Path, end: int) -> int:
    """Truncate a file that nobody writes to any more; returns how many bytes were removed. An empty one is deleted."""
    size = path.stat().st_size
    if size <= end:
        return 0
    whole = _whole_end(path, end) if end else 0
    if whole:
        os.truncate(path, whole)
    else:
        path.unlink()
    return size - whole


def _whole_end(path: Path, end: int) -> int:
    """The last place, not after `end`, at which the file may end without splitting a visit."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        behind = os.pread(file.fileno(), len(_MAGIC), end)
    if size >= end and _MAGIC.startswith(behind):
        return end
    # The file lost its tail, or the mark is not ours. Rare, so reading all of it is acceptable.
    whole = read = 0
    for record, member in members(path):
        read += len(member)
        if read > end:
            break
        if record.startswith(_LAST_OF_VISIT):
            whole = read
    return whole


def _files(directory: Path, shard: int) -> dict[int, Path]:
    """The files of a shard by serial number."""
    found = {}
    with suppress(FileNotFoundError):
        for path in directory.iterdir():
            name = _NAME.fullmatch(path.name)
            if name is not None and int(name[1]) == shard:
                found[int(name[2])] = path
    return found


def settled_files(directory: Path, shard: int, mark: Mark) -> dict[str, int]:
    """The files of a shard up to the mark, in order, each with its settled size."""
    last = _serial(mark.file, shard) if mark.file else sys.maxsize
    ends = {}
    for serial, path in sorted(_files(directory, shard).items()):
        if serial <= last:
            ends[path.name] = mark.end if path.name == mark.file else sys.maxsize
    return ends


class SettledFiles(Reader):
    """The archive of a crawl directory, for reading: without what is appended and not settled yet."""

    def __init__(self, directory: Path, marks: Callable[[], Awaitable[Sequence[Mark]]]) -> None:
        """`marks` says how far each shard is settled."""
        super().__init__(directory)
        self._marks = marks
        self._ends: dict[str, int] = {}

    async def files(self) -> list[str]:
        """The names of all files with something settled in them."""
        marks = await self._marks()
        settled = [settled_files(self._directory, shard, mark) for shard, mark in enumerate(marks)]
        for path in self._directory.glob("*.warc.gz"):
            name = _NAME.fullmatch(path.name)
            ours = name is not None and int(name[1]) < len(marks)
            self._ends[path.name] = settled[int(name[1])].get(path.name, 0) if name and ours else sys.maxsize
        return sorted(name for name, end in self._ends.items() if end)

    def size(self, file: str) -> int:
        """How much of a file is settled."""
        return min(self._ends.get(file, sys.maxsize), (self._directory / file).stat().st_size)

    def records(self, file: str) -> Iterator[Record]:
        """Every settled record of a file, in order."""
        end = self._ends.get(file, sys.maxsize)
        return takewhile(lambda record: record.place.offset < end, super().records(file))


def _serial(name: str, shard: int) -> int:
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) != shard:
        raise ValueError(f"{name!r} is not the name of an archive file of shard {shard}")
    return int(match[2])


def _write(fd: int, octets: bytes) -> None:
    """Write all of it: a write may be short, for instance on a nearly full disk."""
    left = memoryview(octets)
    while left:
        left = left[os.write(fd, left) :]


def _take_back(fd: int, end: int) -> None:
    """Remove what a failed write left after the end. Places are only correct if the file ends where we think."""
    size = os.fstat(fd).st_size
    if size < end:
        raise OSError(f"the archive was shortened to {size} octets by somebody else, {end} were written")
    if size > end:
        os.ftruncate(fd, end)


def _sync(fds: Sequence[int], directory: Path | None) -> None:
    for fd in fds:
        os.fsync(fd)
    if directory is not None:
        durable.sync_folder(directory)

"""Seed intake: seeds are kept in the crawl directory until each of them is stored.

    seeds/NNNNNN         a source: one line that says where it comes from, then the seeds line by line
    seeds/NNNNNN.open    the same while it is being read; a crash leaves what was read until then
    seeds/NNNNNN.at      how far it is stored

Seeds are copied first, and the copy is synced before the first of them is used. They are read in batches, and
the position moves when a batch would survive a power loss in its shards. So whatever ends a run, the next one
continues with those that are not stored. Some are then offered twice, which is harmless.
"""

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from skitter import seeds, urls
from skitter.model import Link
from skitter.reporting.format import counted, printable
from skitter.runtime import durable
from skitter.seeds import BadSeed

_BATCH = 1000  # seeds
_CHUNK = 1 << 20  # bytes
_SYNC_EVERY = 0.5  # seconds, while a source is being read
_MOVE_EVERY = 0.25  # seconds between two writes of the position; the first of a run is written at once
_LOOK_EVERY = 0.05  # seconds to wait for more of a source that is still being read


class Position(Struct, frozen=True, order=True):
    """A position in a source: bytes and lines before it."""

    offset: int = 0
    line: int = 0


class Batch(Struct, frozen=True):
    """Seeds read together, and the position after them."""

    source: "Source"
    seeds: list[Link | BadSeed]
    end: Position
    bare: int = 0  # how many had a user name or password


class _Head(Struct, frozen=True):
    """The first line of a kept source: its name, and whether its lines are as given or our own records."""

    name: str
    lines: Literal["given", "records"]


class _Record(Struct, frozen=True, omit_defaults=True):
    link: Link | None = None
    bad: BadSeed | None = None


_encode = msgspec.json.encode
_head = msgspec.json.Decoder(_Head)
_record = msgspec.json.Decoder(_Record)
_position = msgspec.json.Decoder(Position)


class Source:
    """One seed file, or standard input, in the crawl directory."""

    def __init__(self, path: Path, *, is_read: bool) -> None:
        """`is_read`: this process is still writing to it."""
        self.path = path  # without a suffix, its name when it is complete
        self.at_file = path.with_suffix(".at")
        self.open_file = path.with_suffix(".open")
        self.is_read = is_read
        self.problem: OSError | None = None  # why it could not be read to its end
        with self._file.open("rb") as file:
            self.head = _head.decode(file.readline())
            self._first = file.tell()
        self.position = self._stored()
        self.readable = self._whole_lines()  # the end so far, while it is incomplete

    @property
    def is_whole(self) -> bool:
        """Whether it was read to its end."""
        return not self.open_file.exists()

    @property
    def _file(self) -> Path:
        return self.open_file if self.open_file.exists() else self.path

    def _stored(self) -> Position:
        try:
            return _position.decode(self.at_file.read_bytes())
        except FileNotFoundError:
            return Position(self._first)

    def _whole_lines(self) -> int:
        """The end of the last complete line: half a URL is a different URL."""
        with self._file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            while size > self._first:
                start = max(self._first, size - _CHUNK)
                file.seek(start)
                end = file.read(size - start).rfind(b"\n") + 1
                if end:
                    return start + end
                size = start
            return self._first

    def read(self, after: Position, rules: urls.UrlRules) -> Batch:
        """The next seeds after a position; none if there are no more yet."""
        found: list[Link | BadSeed] = []
        line, bare = after.line, 0
        is_whole = self.is_whole  # checked before opening: a complete file no longer grows
        with self._file.open("rb") as file:
            end = os.fstat(file.fileno()).st_size if is_whole else self.readable
            place = file.seek(after.offset)
            while place < end and len(found) < _BATCH and (text := seeds.line_of(file)):
                line += 1
                place = file.tell()
                seed = self._parsed(text, line, rules)
                if seed is not None:
                    found.append(seed)
                    bare += b"@" in text and isinstance(seed, Link) and seeds.has_credentials(text)
        return Batch(self, found, Position(place, line), bare)

    def _parsed(self, text: bytes, line: int, rules: urls.UrlRules) -> Link | BadSeed | None:
        if self.head.lines == "given":
            return seeds.parsed(text, f"{self.head.name}:{line}", rules)
        record = _record.decode(text)
        return record.link or record.bad

    def keep_position(self) -> None:
        """Record that everything before the position is stored."""
        durable.write(self.at_file, _encode(self.position))

    def remove(self) -> None:
        """Remove the source: all of it is stored."""
        for path in (self.path, self.open_file, self.at_file):
            path.unlink(missing_ok=True)


class Intake:
    """The seeds of a crawl directory that are not all stored yet."""

    def __init__(self, folder: Path, rules: urls.UrlRules = urls.DEFAULT_RULES) -> None:
        self._folder = folder
        self._rules = rules
        self.sources = [Source(path, is_read=False) for path in _kept(folder)]
        self._last = max((int(source.path.name) for source in self.sources), default=0)
        self._read: set[Path] = set()  # sources whose batches were all returned
        self._moved: dict[Path, float] = {}
        self._bare: Counter[str] = Counter()  # number of seeds with a user name or password, by source

    @property
    def is_empty(self) -> bool:
        """Whether every seed is stored."""
        return not self.sources

    # -- keeping ---------------------------------------------------------------------------------------------

    def keep(self, name: str, file: BinaryIO, begun: bytes = b"") -> None:
        """Copy a seed file; `begun` was already read from it. It is synced when this returns."""
        source = self.begin(name)
        try:
            self._copy(source, file.read, begun)
        except BaseException:  # the file can be given again, and half a copy would look complete
            source.remove()
            self.sources.remove(source)
            raise

    def keep_as_it_comes(self, name: str, handle: int, begun: bytes = b"") -> None:
        """Copy a pipe in a thread: it may be slow or endless. What is there is used meanwhile."""
        source = self.begin(name)
        read = partial(os.read, handle)  # not a file object: its lock would be held while nothing arrives
        Thread(target=self._copy_or_say, args=(source, read, begun), daemon=True).start()

    def _copy_or_say(self, source: Source, read: Callable[[int], bytes], begun: bytes) -> None:
        try:
            self._copy(source, read, begun)
        except OSError as problem:
            source.problem, source.is_read = problem, False

    def keep_links(self, links: Iterable[Link | BadSeed]) -> None:
        """Keep seeds that are not a file. They are synced when this returns."""
        waiting = iter(links)
        for first in waiting:
            self._write(self.begin("", "records"), map(_line, chain([first], waiting)))

    def begin(self, name: str, lines: Literal["given", "records"] = "given") -> Source:
        """A new source to copy into."""
        durable.make_folder(self._folder)
        self._last += 1
        path = self._folder / f"{self._last:06d}"
        durable.write(path.with_suffix(".open"), _encode(_Head(name, lines)) + b"\n")
        source = Source(path, is_read=True)
        self.sources.append(source)
        return source

    def _copy(self, source: Source, read: Callable[[int], bytes], begun: bytes) -> None:
        self._write(source, chain([begun], iter(lambda: read(_CHUNK), b"")))

    def _write(self, source: Source, chunks: Iterable[bytes]) -> None:
        synced = time.monotonic()
        with source.open_file.open("ab") as file:
            for chunk in chunks:
                place = file.tell()
                file.write(chunk)
                end = chunk.rfind(b"\n") + 1
                if time.monotonic() > synced + _SYNC_EVERY:
                    _sync(file)
                    synced = time.monotonic()
                if end:
                    file.flush()
                    source.readable = place + end
            _sync(file)
        source.open_file.rename(source.path)
        durable.sync_folder(self._folder)
        source.is_read = False

    # -- reading ---------------------------------------------------------------------------------------------

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """The batches to add, in order, from where the last run stopped; of a source still being read, as they
        arrive.
        """
        for source in self.sources:  # more may be added meanwhile
            if source.path in self._read:
                continue
            place = source.position
            while True:
                was_read = source.is_read
                batch = await asyncio.to_thread(source.read, place, self._rules)
                if batch.end > place:
                    place = batch.end
                    self._bare[source.head.name] += batch.bare
                    yield batch
                elif was_read:
                    await asyncio.sleep(_LOOK_EVERY)
                elif source.problem is not None:
                    raise source.problem
                else:
                    self._read.add(source.path)
                    break

    def stored(self, batch: Batch) -> None:
        """A batch, and all before it, would survive a power loss."""
        source, now = batch.source, time.monotonic()
        source.position = batch.end
        if now >= self._moved.get(source.path, -math.inf) + _MOVE_EVERY:
            source.keep_position()
            self._moved[source.path] = now

    def finish(self) -> None:
        """Every batch that was returned is stored: remove the sources that were read to their end."""
        done = [source for source in self.sources if source.path in self._read]
        for source in done:
            source.remove()
            self.sources.remove(source)
            self._read.discard(source.path)
        if done:
            durable.sync_folder(self._folder)

    def close(self) -> None:
        """Write the positions for the next run."""
        for source in self.sources:
            source.keep_position()

    def left_out(self) -> list[str]:
        """A message about seeds used without their user names and passwords."""
        return [
            f"{counted(number, 'seed')} of {'standard input' if name == '-' else printable(name)} "
            f"{'is' if number == 1 else 'are'} crawled without the user name and password in the URL"
            for name, number in self._bare.items()
            if number
        ]

    def broken_off(self, *, now: bool) -> list[str]:
        """A message about sources not read to their end, in this run (`now`) or an earlier one."""
        return [
            _broken_off(source) for source in self.sources if not source.is_whole and source.is_read is now
        ]


def _kept(folder: Path) -> list[Path]:
    """The sources in a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted({path.with_suffix("") for path in folder.iterdir() if path.suffix in ("", ".open")})


def _line(seed: Link | BadSeed) -> bytes:
    return _encode(_Record(link=seed) if isinstance(seed, Link) else _Record(bad=seed)) + b"\n"


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _broken_off(source: Source) -> str:
    with source.open_file.open("rb") as file:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK), b"")) - 1
    name, directory = source.head.name, source.path.parents[1]
    return (
        f"{'standard input' if name == '-' else name} was not read to its end: {counted(lines, 'line')} were read and kept, "
        f"the rest was not; give the rest again with: skitter crawl --seeds {name} -o {printable(str(directory))}"
    )

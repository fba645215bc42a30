"""Where exports are written: standard output, a pipe or device, a file, or a folder of files.

A file or folder appears whole or not at all: it is written under another name beside its own, synced, and renamed at
the end. A failure leaves nothing behind, and whatever had the name before. A folder that is to be continued after a failure is
the exception: what is whole stays under the other name, with a journal beside it.
"""

import codecs
import errno
import gzip
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, cast

from skitter.export.journal import Journal
from skitter.runtime import durable

_BUFFER = 128 * 1024
_LEVEL = 6  # of gzip: what the command of that name does


def is_folder(name: str, *, split: bool = False) -> bool:
    """Whether an output of this name is a folder of files."""
    return name != "-" and (split or name.endswith(os.sep) or Path(name).is_dir())


class Files:
    """`writing.Destination`: opens files, compresses them if wanted, and counts what is written."""

    def __init__(
        self,
        opened: Callable[[str], IO[bytes]],
        name: str,
        *,
        split: int | None,
        compress: bool,
        ours: bool,
        place: Callable[[str], Path] | None = None,
        journal: Journal | None = None,
    ) -> None:
        """`opened` makes an unbuffered file, which is `ours` to close; `name` is what errors call all of them.

        `place` is where a file of a name would be; None for what is no file. `journal` is that of what can be continued.
        """
        self.split = split
        self.written = 0  # octets
        self.files = 0 if journal is None else journal.files
        self.flawed = journal is not None and journal.flawed  # something is missing
        self._journal = journal
        self._opened = opened
        self._name = name
        self._compress = compress
        self._ours = ours
        self._place = place
        self._paths: list[Path] = []  # written by others
        self._raw: list[_Raw] = []
        self._open: list[IO[bytes]] = []

    def open(self, name: str) -> IO[bytes]:
        """A new file of this name."""
        self._raw = [raw for raw in self._raw if not raw.closed]
        self._open = [file for file in self._open if not file.closed]
        name = f"{name}.gz" if self._compress else name
        if self._journal is not None and not self._is_there(name):
            self._journal.begun(name)
        made = self._opened(name)
        self.files += 1
        raw = _Raw(made, self._name, self._count, ours=self._ours)
        self._raw.append(raw)
        file: IO[bytes] = io.BufferedWriter(raw, _BUFFER)
        if self._compress:
            file = cast("IO[bytes]", _Gzip(file))
        self._open.append(file)
        return file

    def path(self, name: str) -> Path:
        """The place of a new file of this name, which somebody else writes."""
        if self._place is None:
            raise OSError(errno.EINVAL, "this format needs a file or a folder", self._name)
        if self._journal is not None:
            self._journal.begun(name)
        self.files += 1
        self._paths.append(self._place(name))
        return self._paths[-1]

    def _is_there(self, name: str) -> bool:
        """Whether a file has that name already: then it is not ours to remove."""
        return self._place is not None and self._place(name).exists()

    def has(self, item: str) -> bool:
        """Whether an earlier run has written all of an item."""
        return self._journal is not None and self._journal.has(item)

    def starts(self, item: str) -> int:
        """What follows is of this item; returns how many lines of it an earlier run has written."""
        return 0 if self._journal is None else self._journal.starts(item)

    def whole(self, lines: int = 0) -> None:
        """No file is open, and so many lines of the item are written."""
        if self._journal is not None:
            self._sync()
            self._journal.whole(self.files, lines, flawed=self.flawed)

    def _count(self, octets: int) -> None:
        self.written += octets

    def close(self) -> None:
        """Everything is written and synced."""
        for file in self._open:
            file.close()
        self._sync()

    def _sync(self) -> None:
        """Sync what others have written."""
        for path in self._paths:
            durable.sync_file(path)
            self.written += path.stat().st_size
        self._paths.clear()

    def abandon(self) -> None:
        """Close everything, and write nothing more."""
        for raw in self._raw:
            raw.abandoned = True
        for file in self._open:
            with suppress(OSError):
                file.close()


class _Raw(io.RawIOBase):
    """A file that is synced before it is closed, and whose errors name what the user asked for."""

    def __init__(self, file: IO[bytes], name: str, count: Callable[[int], None], *, ours: bool) -> None:
        super().__init__()
        self._ours = ours
        self._file = file
        self._name = name
        self._count = count
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, octets: Any, /) -> int:  # noqa: ANN401  any buffer
        if self.abandoned:
            return len(octets)
        try:
            written = self._file.write(octets)
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, self._name) from None
        self._count(written)
        return written

    def seekable(self) -> bool:
        return self._ours and self._file.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            if not self.abandoned:
                self._file.flush()
                if self._ours and os.path.isfile(self._file.fileno()):  # noqa: PTH113  not a pipe
                    os.fsync(self._file.fileno())
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, self._name) from None
        finally:
            if self._ours:
                self._file.close()


class _Decoded(io.RawIOBase):
    """Standard output that takes only text, as in a program that has replaced it."""

    def __init__(self, text: TextIO) -> None:
        super().__init__()
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, octets: Any, /) -> int:  # noqa: ANN401  any buffer
        self._text.write(self._decoder.decode(bytes(octets)))
        return len(octets)


class _Gzip(gzip.GzipFile):
    """Compresses into a file. The same octets give the same file: no time and no name are in it."""

    def __init__(self, into: IO[bytes]) -> None:
        super().__init__(filename="", mode="wb", compresslevel=_LEVEL, fileobj=into, mtime=0)
        self._into = into

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._into.close()


@contextmanager
def destination(
    name: str,
    *,
    split: int | None = None,
    compress: bool = False,
    resumes: Mapping[str, Any] | None = None,
) -> Iterator[Files]:
    """The output of this name. What is written is there when the block ends well, and only then.

    `resumes` says what is written to a folder: if an earlier block wrote the same there and failed, it is continued.
    """
    if name == "-":
        out: IO[bytes] = getattr(sys.stdout, "buffer", None) or cast("IO[bytes]", _Decoded(sys.stdout))
        with _written(lambda _: out, "standard output", None, compress=compress, ours=False) as files:
            yield files
    elif is_folder(name, split=split is not None):
        with _folder(name, resumes) as (draft, journal):
            opened = _written(
                lambda part: _new_below(draft, part),
                name,
                split,
                compress=compress,
                place=lambda part: draft / part,
                journal=journal,
            )
            with opened as files:
                yield files
            for folder, _, _ in os.walk(draft):
                durable.sync_folder(Path(folder))
    elif Path(name).exists() and not Path(name).is_file():  # a pipe or a device cannot be replaced
        with _written(lambda _: Path(name).open("wb", buffering=0), name, None, compress=compress) as files:
            yield files
    else:
        with (
            _whole(name) as draft,
            _written(lambda _: _new(draft), name, None, compress=compress, place=lambda _: draft) as files,
        ):
            yield files


@contextmanager
def _written(
    opened: Callable[[str], IO[bytes]],
    name: str,
    split: int | None,
    *,
    compress: bool,
    ours: bool = True,
    place: Callable[[str], Path] | None = None,
    journal: Journal | None = None,
) -> Iterator[Files]:
    files = Files(opened, name, split=split, compress=compress, ours=ours, place=place, journal=journal)
    try:
        yield files
        files.close()
    finally:
        files.abandon()


def unfinished(name: str) -> Path:
    """Where an export to this folder that can be continued is written until it is complete."""
    path = Path(name)
    return path.with_name(f".{path.name}.part")


@contextmanager
def _folder(name: str, resumes: Mapping[str, Any] | None) -> Iterator[tuple[Path, Journal | None]]:
    """A folder to be written to, and the journal of what can be continued."""
    if resumes is None:
        with _whole(name) as draft:
            draft.mkdir()
            yield draft, None
        return
    draft, path = unfinished(name), Path(name)
    with _named(draft, name):
        journal = Journal(draft.with_name(f"{draft.name}.journal"), draft, resumes, name)
        try:
            yield draft, journal
            draft.replace(path)
            durable.sync_folder(path.parent)
            journal.remove()
        finally:
            journal.close()


@contextmanager
def _whole(name: str) -> Iterator[Path]:
    """A name beside the file or folder, to be written there, and renamed at the end."""
    path = Path(name)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _named(draft, name):
            yield draft
            draft.replace(path)
            durable.sync_folder(path.parent)
    finally:
        with suppress(OSError):
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink(missing_ok=True)


@contextmanager
def _named(draft: Path, name: str) -> Iterator[None]:
    """Errors about a draft have the name that was asked for."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None or not str(problem.filename).startswith(str(draft)):
            raise
        raise OSError(problem.errno, problem.strerror, name) from None


def _new(path: Path) -> IO[bytes]:
    return path.open("xb", buffering=0)


def _new_below(folder: Path, part: str) -> IO[bytes]:
    path = folder / part
    if "/" in part:
        path.parent.mkdir(parents=True, exist_ok=True)
    return _new(path)

"""A WACZ file opened for reading: checked against its own digests first, then read by place.

Nothing in it is trusted: it may be cut short, lie about sizes and digests, or hold what inflates to anything. Whatever is
wrong is said in one line. All digests are checked when it is opened: later, a changed record would be served as if it were
what was archived.
"""

import gzip
import hashlib
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from skitter.backends.warc.reading import DamagedRecordError, from_member
from skitter.backends.warc.wacz_signature import Signed, WrongSignatureError, checked
from skitter.model import Place
from skitter.ports import StateError

_PIECE = 1 << 20
_MOST_ABOUT = 64 << 20  # octets of datapackage.json
_MOST_RECORD = 512 << 20  # octets of a record, once inflated
_MOST_LINE = 1 << 20
_MOST_RATIO = 100  # how much larger than the file its content may be
_HASHES = ("sha256", "sha512", "sha1", "md5")
_WEAK = ("sha1:", "md5:")
_FOLDERS = ("archive/", "indexes/", "pages/")
_INDEX = re.compile(r"indexes/[^/]+\.(?:cdx|cdxj)(\.gz)?")
_BROKEN = (
    TypeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    KeyError,
    RecursionError,  # JSON that is nested too deep
)


class UntrustedError(StateError):
    """A WACZ file that is damaged, or not what it says it is."""


class Wacz:
    """The file, open."""

    def __init__(self, path: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        """Check it whole; `progress` hears of octets. StateError says what is wrong with it."""
        self.path = path
        self.title = path.name
        self.created = ""
        self.signed: Signed | None = None
        try:
            self._file = path.open("rb")
        except OSError as problem:
            raise StateError(f"{path}: {problem.strerror}") from None
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._places = self._found()
            self._check(progress)
        except StateError:
            self._file.close()
            raise
        except _BROKEN as problem:
            self._file.close()
            raise UntrustedError(f"{path} is no whole WACZ file: {_told(problem)}") from None

    def close(self) -> None:
        """Release the file."""
        self._zip.close()
        self._file.close()

    # -- checking ----------------------------------------------------------------------------------------------

    def _found(self) -> dict[str, tuple[int, int]]:
        """Where each file of the archive begins, and its size."""
        size = os.fstat(self._file.fileno()).st_size
        listed = self._zip.infolist()
        if sum(info.file_size for info in listed) > _MOST_RATIO * size:
            raise self._wrong("it claims to hold far more than it can")
        places = {}
        for info in listed:
            if not info.filename.startswith("archive/") or info.is_dir():
                continue
            if info.compress_type != zipfile.ZIP_STORED:
                raise self._wrong(
                    f"{info.filename} is compressed once more, so that records have no place in it"
                )
            head = os.pread(self._file.fileno(), 30, info.header_offset)
            name, extra = struct.unpack("<26x2H", head)
            start = info.header_offset + 30 + name + extra
            if start + info.file_size > size:
                raise self._wrong(f"{info.filename} is cut short")
            places[info.filename.removeprefix("archive/")] = start, info.file_size
        return places

    def _check(self, progress: Callable[[int], None]) -> None:
        names = set(self._zip.namelist())
        if "datapackage.json" not in names:
            raise self._wrong("it has no datapackage.json")
        if self._zip.getinfo("datapackage.json").file_size > _MOST_ABOUT:
            raise self._wrong("its datapackage.json is too large")
        written = self._zip.read("datapackage.json")
        about = json.loads(written)
        resources = {each["path"]: each for each in about["resources"]}
        if "datapackage-digest.json" in names:
            self._check_digest(written, [str(each["hash"]) for each in resources.values()])
        for name in sorted(names):
            if name.startswith(_FOLDERS) and not name.endswith("/"):
                if name not in resources:
                    raise self._wrong(f"{name} is not listed in its datapackage.json")
                self._check_file(name, resources[name]["hash"], progress)
        if missing := sorted(set(resources) - names):
            raise self._wrong(f"{missing[0]} is missing")
        if not self._places:
            raise self._wrong("there is no archive in it")
        self.title = str(about.get("title") or self.path.name)
        self.created = str(about.get("created") or "")

    def _check_digest(self, written: bytes, digests: list[str]) -> None:
        """The digest of the description, and its signature. What is signed must be named by digests that nobody can forge."""
        if self._zip.getinfo("datapackage-digest.json").file_size > _MOST_ABOUT:
            raise self._wrong("its datapackage-digest.json is too large")
        said = json.loads(self._zip.read("datapackage-digest.json"))
        stated = said["hash"]
        if self._digest(stated, [written]) != stated:
            raise self._wrong("its datapackage.json is not the one whose digest it states")
        try:
            self.signed = checked(said.get("signedData"), stated)
        except WrongSignatureError as problem:
            raise self._wrong(str(problem)) from None
        if self.signed is not None and any(digest.startswith(_WEAK) for digest in digests):
            raise self._wrong("it is signed, but its digests are too weak for a signature to mean anything")

    def _check_file(self, name: str, stated: str, progress: Callable[[int], None]) -> None:
        def pieces() -> Iterator[bytes]:
            with self._zip.open(name) as file:
                while piece := file.read(_PIECE):
                    progress(len(piece))
                    yield piece

        if self._digest(stated, pieces()) != stated:
            raise self._wrong(f"{name} is not the file whose digest it states")

    def _digest(self, stated: str, pieces: "Iterator[bytes] | list[bytes]") -> str:
        kind = str(stated).partition(":")[0]
        if kind not in _HASHES:
            raise self._wrong(f"it states a digest of an unknown kind: {kind[:20]}")
        made = hashlib.new(kind)
        for piece in pieces:
            made.update(piece)
        return f"{kind}:{made.hexdigest()}"

    def _wrong(self, why: str) -> UntrustedError:
        return UntrustedError(f"{self.path} cannot be trusted: {why}")

    # -- reading -----------------------------------------------------------------------------------------------

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place. OSError if no complete record is there."""
        start, size = self._places.get(place.file, (0, 0))
        if (
            place.offset < 0
            or place.length < 0
            or place.offset + place.length > size
            or place.length > _MOST_RECORD
        ):
            raise DamagedRecordError(f"{place.file} has no record at {place.offset}+{place.length}")
        member = os.pread(self._file.fileno(), place.length, start + place.offset)
        return from_member(place, member, _MOST_RECORD).block

    def index(self) -> Iterator[str]:
        """Every line of the index."""
        for name in self._zip.namelist():
            found = _INDEX.fullmatch(name)
            if found is not None:
                with self._zip.open(name) as file:
                    yield from _lines(gzip.GzipFile(fileobj=file) if found[1] else file)

    def pages(self) -> Iterator[tuple[str, str]]:
        """URL and title of every page it lists."""
        for name in ("pages/pages.jsonl", "pages/extraPages.jsonl"):
            if name not in self._zip.namelist():
                continue
            with self._zip.open(name) as file:
                for line in _lines(file):
                    try:
                        page = json.loads(line)
                        yield str(page["url"]), str(page.get("title") or "")
                    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                        continue


def _lines(file: "IO[bytes] | gzip.GzipFile") -> Iterator[str]:
    """Lines of text, none of them longer than it should be."""
    while line := file.readline(_MOST_LINE):
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def _told(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"something is missing: {problem}"
    return str(problem) or type(problem).__name__

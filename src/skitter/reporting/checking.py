"""Results of `skitter check`, and an index of where a store's pages are in the archive.

A page takes 16 bytes: the position of its record, and a fingerprint of what must be there. So an archive of
any size is read once, front to back, and only pages with missing data are looked up again by name.
"""

from array import array
from collections.abc import Iterator

import numpy as np
import xxhash
from msgspec import Struct, field

from skitter.model import Page, Place

SHOWN = 100  # URLs listed per finding
_OFFSET_BITS = 40  # up to a terabyte per file, and 16 million files


class Finding(Struct, kw_only=True):
    """One problem with one file. A finding without `damage` lost nothing and needs no action."""

    file: str  # as in archive/00-20240501120000-00000.warc.gz
    problem: str
    damage: bool = True
    pages: int = 0  # pages lost by it
    urls: list[str] = field(default_factory=list)  # the first of them
    mendable: bool = False  # by --repair


class Checked(Struct, kw_only=True):
    """What a check has read and found."""

    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # all that were read, in order
    pages: int = 0
    urls: int = 0
    waiting: int = 0
    records: int = 0
    bytes: int = 0
    in_use: bool = False

    @property
    def sound(self) -> bool:
        """Nothing is damaged."""
        return not any(finding.damage for finding in self.findings)

    @property
    def lost(self) -> int:
        """Number of pages that lost something."""
        return sum(finding.pages for finding in self.findings)


class Places:
    """The places of a shard's pages in the archive."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._codes, self._prints = array("Q"), array("Q")
        self._sorted = np.empty(0, np.uint64)
        self._sorted_prints = np.empty(0, np.uint64)

    def add(self, place: Place, uri: str, page: Page) -> None:
        """Add a page, with its URL as in the records."""
        number = self._files.setdefault(place.file, len(self._files))
        self._codes.append(number << _OFFSET_BITS | place.offset)
        # The archive may have only the beginning of a large sitemap, and its digest is that of the whole.
        digest = "" if page.purpose.handling.lists else page.digest
        self._prints.append(_print(uri, place.length, digest))

    def sort(self) -> Iterator[tuple[str, int]]:
        """All pages are added. Returns the places claimed by more than one page."""
        codes = np.frombuffer(self._codes, np.uint64) if self._codes else self._sorted
        order = np.argsort(codes)
        self._sorted = codes[order]
        prints = np.frombuffer(self._prints, np.uint64) if self._prints else self._sorted_prints
        self._sorted_prints = prints[order]
        names = list(self._files)
        for code in np.unique(self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]):
            yield names[int(code) >> _OFFSET_BITS], int(code) & (1 << _OFFSET_BITS) - 1

    def files(self) -> set[str]:
        """The files that contain pages."""
        return set(self._files)

    def knows(self, place: Place) -> bool:
        """Whether a page is exactly there."""
        return self._slice(place.file, place.offset, place.offset + 1)[1] > 0

    def agrees(self, place: Place, uri: str, digest: str) -> bool:
        """Whether the page at this place is this one."""
        first, number = self._slice(place.file, place.offset, place.offset + 1)
        wanted = {_print(uri, place.length, digest), _print(uri, place.length, "")}
        return any(int(each) in wanted for each in self._sorted_prints[first : first + number])

    def between(self, file: str, start: int, end: int) -> list[int]:
        """The offsets of pages within a range of a file."""
        first, number = self._slice(file, start, end)
        return [int(code) & (1 << _OFFSET_BITS) - 1 for code in self._sorted[first : first + number]]

    def _slice(self, file: str, start: int, end: int) -> tuple[int, int]:
        number = self._files.get(file)
        if number is None:
            return 0, 0
        base = number << _OFFSET_BITS
        first, last = np.searchsorted(self._sorted, np.array([base | start, base + end], np.uint64))
        return int(first), int(last - first)


class Lost:
    """The records of a shard that cannot be read."""

    def __init__(self) -> None:
        self.files: dict[str, Finding] = {}  # whole files that are missing
        self.records: dict[tuple[str, int], Finding] = {}

    def __bool__(self) -> bool:
        return bool(self.files or self.records)

    def has(self, page: Page) -> bool:
        """Whether a page has lost its record."""
        return self.finding(page) is not None

    def finding(self, page: Page) -> Finding | None:
        """Why a page has lost its record."""
        if page.archive is None:
            return None
        return self.files.get(page.archive.file) or self.records.get((page.archive.file, page.archive.offset))


def _print(uri: str, length: int, digest: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{uri}\0{length}\0{digest}".encode())

"""A crawl as one WACZ file (version 1.1.1): what replay tools open, and what can be given away.

A ZIP file whose members are stored, so that a reader finds a record by its place. `pages/pages.jsonl` lists the pages,
`archive/` has the WARC files, `indexes/` the CDXJ of them, and `datapackage.json` the digest of each. Whatever is not to be
shown is not in it at all: its records are left out of the WARC files, the others are copied as they are.
"""

import hashlib
import json
import struct
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, NamedTuple, Self

from isal import isal_zlib
from xxhash import xxh3_128_hexdigest

from skitter import __version__
from skitter.export.cdxj import Record
from skitter.export.cdxj import lines as index_lines
from skitter.export.ordering import Ordered
from skitter.export.source import Source, Stored
from skitter.export.uses import Hidden
from skitter.export.wacz_key import WaczKey
from skitter.export.writing import TURN, Destination, Format, Listener, turn
from skitter.model import Page, Place, Purpose
from skitter.ports import StateError

VERSION = "1.1.1"
SMALL = 10_000  # lines of an index that a reader loads at once; a larger one is in blocks, with an index of its own
BLOCK = 3_000  # lines, as in other tools
_GZIP = 31  # the window bits that ask zlib's interface for a gzip member
_EARLIEST = 315_532_800.0  # 1980: what a ZIP file can say


async def _write(source: Source, into: Destination, told: Listener) -> None:
    """Pages first, because they say what is hidden; then the archive, its index, and the digests of all."""
    key = WaczKey(source.settings.export.sign) if source.settings.export.sign else None
    told.expect((await source.frontier.counts()).requests or None, "answer")
    files = await source.files()
    name = f"{source.directory.path.resolve().name or 'crawl'}.wacz"
    hidden = Hidden()
    with into.open(name) as out, Package(out, time.time()) as package, Ordered() as ordered:
        main = await _pages(source, package, hidden, told)
        answers = 0
        for file in files:
            answers += await _archive(source, file, package, hidden, ordered, told)
        if not answers:
            raise StateError(
                f"nothing of {source.name} can be packed: there is no answer in its archive, or none that may be shown"
            )
        _index(ordered.lines(), answers, package)
        package.finish(source.name, main, key)


class Package:
    """A WACZ that is being written: files go in one after the other, and their digests are kept."""

    def __init__(self, out: IO[bytes], now: float) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        self._time = time.gmtime(max(now, _EARLIEST))[:6]
        # The time once more, as Unix writes it. ReplayWeb.page looks for the long form of sizes before the content only where
        # the list at the end of the file has such an extra field too.
        self._extra = struct.pack("<HHBL", 0x5455, 5, 1, int(now))
        self._resources: list[dict[str, object]] = []

    @contextmanager
    def file(self, path: str) -> Iterator["Digested"]:
        """A new file. It may be larger than 4 GB: its size is not known yet."""
        info = zipfile.ZipInfo(path, self._time)
        info.extra = self._extra
        with self._zip.open(info, "w", force_zip64=True) as out:
            made = Digested(out)
            yield made
        name = path.rpartition("/")[2].lower()
        self._resources.append({"name": name, "path": path, "hash": made.digest, "bytes": made.size})

    def finish(self, title: str, main: Page | None, key: WaczKey | None = None) -> None:
        """Write what the package holds, and the digest of that; signed, if there is a key."""
        about: dict[str, object] = {
            "profile": "data-package",
            "wacz_version": VERSION,
            "title": title,
            "created": self._created,
            "software": f"Skitter/{__version__}",
            "resources": self._resources,
        }
        if main is not None:
            about |= {"mainPageUrl": main.url, "mainPageDate": _moment(main.fetched_at)}
        written = json.dumps(about, indent=2).encode()
        stated = f"sha256:{hashlib.sha256(written).hexdigest()}"
        digest: dict[str, object] = {"path": "datapackage.json", "hash": stated}
        if key is not None:
            digest["signedData"] = key.signed(stated, self._created)
        self._zip.writestr(zipfile.ZipInfo("datapackage.json", self._time), written)
        self._zip.writestr(
            zipfile.ZipInfo("datapackage-digest.json", self._time), json.dumps(digest, indent=2)
        )
        self._zip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what is not finished is thrown away
            self._zip.close()


class Digested:
    """A file in the package: counts and hashes what is written."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, octets: bytes) -> None:
        """Add to the file."""
        self._out.write(octets)
        self._hash.update(octets)
        self.size += len(octets)

    @property
    def digest(self) -> str:
        """The digest of everything written."""
        return f"sha256:{self._hash.hexdigest()}"


# ------------------------------------------------------------------------------------------------ pages


async def _pages(source: Source, package: Package, hidden: Hidden, told: Listener) -> Page | None:
    """List the pages that can be opened; returns the one to begin with."""
    roots = {root: rank for rank, root in reversed(list(enumerate(await source.roots())))}
    main: Page | None = None
    with package.file("pages/pages.jsonl") as out:
        head = {"format": "json-pages-1.0", "id": "pages", "title": "All pages", "hasText": False}
        out.write(json.dumps(head).encode() + b"\n")
        number = 0
        async for page in hidden.others(source, told):
            number += 1
            if not number % TURN:
                await turn()
            if page.purpose is not Purpose.PAGE or not 200 <= page.status < 300 or page.archive is None:
                continue
            out.write(_page_line(page))
            rank = roots.get(page.requested_url, roots.get(page.url, len(roots)))
            if main is None or rank < roots.get(main.requested_url, roots.get(main.url, len(roots))):
                main = page
    return main


def _page_line(page: Page) -> bytes:
    line = {
        "id": xxh3_128_hexdigest(page.key.encode("utf-8", "surrogatepass")),
        "url": page.url,
        "ts": _moment(page.fetched_at),
        "title": page.title or page.url,
        "mime": page.content_type,
        "status": page.status,
        "depth": page.depth,
        "size": page.size,
    }
    return json.dumps(line).encode() + b"\n"


def _moment(at: float) -> str:
    """RFC 3339, with the second that is in the archive's index."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(round(at * 1_000_000) // 1_000_000))


# ------------------------------------------------------------------------------------------------ archive and index


class _Copied(NamedTuple):
    """A record at its new place."""

    place: Place
    fields: dict[str, str]
    block: bytes


async def _archive(
    source: Source, file: str, package: Package, hidden: Hidden, ordered: Ordered, told: Listener
) -> int:
    """Copy a file of the archive, record by record; returns how many answers are in it."""
    answers = 0
    with package.file(f"archive/{file}") as out:
        shown = _shown(source.archive.records(file), hidden)
        for number, (_, line) in enumerate(index_lines(_copied(shown, file, out), file)):
            ordered.add(line)
            answers += 1
            told.done()
            if not number % TURN:
                await turn()
    return answers


def _shown(records: Iterable[Stored], hidden: Hidden) -> Iterator[Stored]:
    """The records of answers that may be shown. What repeats a hidden one could not be shown without it."""
    for record in records:
        fields = record.fields
        if fields.get("warc-target-uri", "") not in hidden and (
            fields.get("warc-refers-to-target-uri", "") not in hidden
        ):
            yield record


def _copied(records: Iterable[Stored], file: str, out: Digested) -> Iterator[Record]:
    for record in records:
        place = Place(file, out.size, len(record.member))
        out.write(record.member)
        yield _Copied(place, dict(record.fields), record.block)


def _index(lines: Iterator[str], number: int, package: Package) -> None:
    """The index: lines as they are if there are few, otherwise packed blocks with an index that finds them (ZipNum)."""
    if number <= SMALL:
        with package.file("indexes/index.cdx") as out:
            for line in lines:
                out.write(f"{line}\n".encode("utf-8", "backslashreplace"))
        return
    name = "index.cdx.gz"
    blocks = [f"!meta 0 {json.dumps({'format': 'cdxj-gzip-1.0', 'filename': name})}\n"]
    with package.file(f"indexes/{name}") as out:
        while block := [line for _, line in zip(range(BLOCK), lines, strict=False)]:
            text = "".join(f"{line}\n" for line in block).encode("utf-8", "backslashreplace")
            member = isal_zlib.compress(text, 2, _GZIP)
            key = block[0].partition(" {")[0]
            digest = f"sha256:{hashlib.sha256(member).hexdigest()}"
            about = {"offset": out.size, "length": len(member), "digest": digest, "filename": name}
            blocks.append(f"{key} {json.dumps(about)}\n")
            out.write(member)
    with package.file("indexes/index.idx") as out:
        for line in blocks:
            out.write(line.encode("utf-8", "backslashreplace"))


WACZ = Format(
    name="wacz",
    about="one file for replay tools: the archive with its index and its pages, without those that ask for noarchive",
    write=_write,
    streams=False,
    lines=False,
    archive_alone=True,
    suffix=".wacz",
)

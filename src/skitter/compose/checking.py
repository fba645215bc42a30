"""A crawl directory checked: each store against its counts, the archive against the store, and the store against it.

Nothing is changed and no lock is taken: a store is read as of one moment, and what the archive has behind its mark is of a
later one. `repair` is the part that writes.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from msgspec.structs import replace

from skitter import urls
from skitter.backends.rocksdb import mending, summary
from skitter.backends.rocksdb.checking import StoreCheck
from skitter.backends.rocksdb.frontier import RocksFrontier
from skitter.backends.rocksdb.reading import RocksReader
from skitter.backends.rocksdb.store import Store
from skitter.backends.warc.checking import Answer, Damaged, Whole, walk
from skitter.backends.warc.files import settled_files
from skitter.backends.warc.records import uri
from skitter.crawl.directory import CrawlDirectory
from skitter.model import State
from skitter.ports import Mark, StateError
from skitter.reporting.checking import SHOWN, Checked, Finding, Lost, Places
from skitter.reporting.format import counted
from skitter.settings import Settings, SettingsError

_CACHE = 16 << 20

Progress = Callable[[str, int, int], None]
"""Told what is read, how much of it, and of how much; 0 where that is not known."""


class Check:
    """One check of a crawl directory."""

    def __init__(self, directory: CrawlDirectory, progress: Progress) -> None:
        self.directory = directory
        self.done = Checked(in_use=directory.in_use())
        self.lost: dict[int, Lost] = {}  # by shard
        self.unusable: list[int] = []  # shards whose store cannot be believed
        self._progress = progress
        self.settings = self._settings()

    async def run(self) -> Checked:
        """Read everything."""
        self._small_files()
        if self.settings.cluster.size == "none":
            for shard in range(max(1, self.settings.crawl.shards)):
                await self._shard(shard)
        else:
            self._tell(
                "crawl.toml",
                "the state is on the engines of its cluster; only the files here are checked",
                damage=False,
            )
            for file in self.directory.files():
                self._walk_alone(file)
        return self.done

    def _tell(
        self, file: str, problem: str, *, damage: bool = True, pages: int = 0, mendable: bool = False
    ) -> Finding:
        finding = Finding(file=file, problem=problem, damage=damage, pages=pages, mendable=mendable)
        self.done.findings.append(finding)
        return finding

    # -- small files -------------------------------------------------------------------------------------------

    def _settings(self) -> Settings:
        self.done.files.append("crawl.toml")
        try:
            return self.directory.read_settings()
        except (SettingsError, StateError, UnicodeDecodeError) as problem:
            if not self.directory.exists:
                raise
            self._tell("crawl.toml", str(problem))
        folders = [path.name for path in self.directory.path.glob("state/*") if path.name.isdigit()]
        made = Settings()
        return replace(made, crawl=replace(made.crawl, shards=max(map(int, folders), default=0) + 1))

    def _small_files(self) -> None:
        self.done.files.append("roots.txt")
        try:
            # The roots of a cluster's crawl are on its engines.
            needed = self.settings.cluster.size == "none" and self.directory.files()
            if needed and not self.directory.roots():
                self._tell("roots.txt", "is empty or gone: the scope of the crawl is measured from it")
        except (UnicodeDecodeError, StateError) as problem:
            self._tell("roots.txt", f"cannot be read: {problem}")
        for path in sorted(self.directory.path.glob("log/requests-*.jsonl")):
            name = f"log/{path.name}"
            self.done.files.append(name)
            for number in _bad_lines(path):
                self._tell(name, f"line {number:,} is no JSON; the requests behind it can be read")

    # -- a shard -----------------------------------------------------------------------------------------------

    async def _shard(self, shard: int) -> None:
        name = f"state/{shard:02d}"
        self.done.files.append(name)
        path = self.directory.state(shard)
        try:
            store = Store(path, _CACHE, read_only=True)
        except StateError as problem:
            self.unusable.append(shard)
            self._tell(
                name,
                str(problem).partition(" is damaged: ")[2].partition("; ")[0] or str(problem),
                mendable=True,
            )
            for file in settled_files(self.directory.archive, shard, Mark()):
                self._walk_alone(file)
            return
        reader = RocksReader(store)
        try:
            if summary.read(path) is None:
                self._tell(name, "has no summary of what was written; the next run writes one", damage=False)
            check = StoreCheck(store, lambda rows: self._progress(name, rows, 0))
            problems = list(check.problems())
            for disagreement in problems:
                self._tell(name, disagreement, mendable=check.unreadable)
            if problems and check.unreadable:
                self.unusable.append(shard)
                return
            counts = await reader.counts()
            self.done.urls += counts.added
            self.done.waiting += counts.queued + counts.leased
            await self._archive(shard, reader, check.mark)
        finally:
            await reader.close()

    async def _archive(self, shard: int, reader: RocksReader, mark: Mark) -> None:
        places, lost = Places(), self.lost.setdefault(shard, Lost())
        async for page in reader.pages():
            self.done.pages += 1
            if page.archive is None:
                self._tell(f"state/{shard:02d}", f"the page {page.url} has no place in the archive", pages=1)
            else:
                places.add(page.archive, uri(page.url).decode(), page)
        for file, offset in places.sort():
            self._tell(f"archive/{file}", f"two pages of the state lie at {offset:,}")
        there = settled_files(self.directory.archive, shard, mark)
        for file in places.files() - there.keys():
            lost.files[file] = self._tell(f"archive/{file}", "the file is gone", mendable=True)
        for file, end in there.items():
            await self._file(file, end, places, lost, reader)
        await self._name(lost, reader)

    async def _file(self, file: str, end: int, places: Places, lost: Lost, reader: RocksReader) -> None:
        name, visit, at = f"archive/{file}", _Visit(), 0
        for seen in self._walked(file, end):
            at = seen.end if isinstance(seen, Damaged) else seen.place.offset + seen.place.length
            if isinstance(seen, Damaged):
                self._damaged(file, seen, visit, places, lost)
                visit = _Visit()
            elif isinstance(seen, Answer):
                visit = _Visit(seen, places.knows(seen.place))
                if visit.known and not places.agrees(seen.place, seen.uri, seen.digest):
                    other = f"at {seen.place.offset:,} lies an answer of {seen.uri}, and not the page of the state"
                    lost.records[file, seen.place.offset] = self._tell(name, other, mendable=True)
            elif seen.ends_visit:
                if seen.of_page and visit.answer and not visit.known:
                    await self._orphan(name, visit.answer, reader)
                visit = _Visit()
        if gone := places.between(file, at, 1 << 40):
            finding = self._tell(name, f"the file ends at {at:,}, and there was more", mendable=True)
            lost.records |= dict.fromkeys(((file, offset) for offset in gone), finding)

    def _damaged(self, file: str, seen: Damaged, visit: "_Visit", places: Places, lost: Lost) -> None:
        """The pages of a damaged stretch, and the page whose visit it continues, have lost something."""
        pages = places.between(file, seen.start, seen.end)
        if visit.known and visit.answer:
            pages = [visit.answer.place.offset, *pages]
        where = f"bytes {seen.start:,} to {seen.end:,} are damaged ({seen.why})"
        if not pages:
            self._tell(f"archive/{file}", f"{where}; no page needs them", damage=False)
            return
        finding = self._tell(f"archive/{file}", where, mendable=True)
        for offset in pages:
            lost.records.setdefault((file, offset), finding)

    async def _orphan(self, name: str, answer: Answer, reader: RocksReader) -> None:
        """A page in the archive that the store does not point to: it was fetched again, or the store has lost it."""
        key = urls.key(answer.uri, self.settings.urls) or answer.uri
        host = urls.host(answer.uri)
        if not 200 <= answer.status < 300 or await reader.page(key, host) is not None:
            return
        record = await reader.url(key, host)
        if record is None or record.state is State.CRAWLED:
            finding = self._tell(name, f"the state knows nothing of the page at {answer.place.offset:,}")
            finding.urls.append(answer.uri)

    async def _name(self, lost: Lost, reader: RocksReader) -> None:
        if not lost:
            return
        async for page in reader.pages():
            finding = lost.finding(page)
            if finding is not None:
                finding.pages += 1
                if len(finding.urls) < SHOWN:
                    finding.urls.append(page.url)

    # -- files -------------------------------------------------------------------------------------------------

    def _walked(self, file: str, end: int) -> Iterator[Answer | Damaged | Whole]:
        path = self.directory.archive / file
        size = min(end, path.stat().st_size)
        self.done.files.append(f"archive/{file}")
        at = 0
        for seen in walk(path, end):
            yield seen
            at = seen.end if isinstance(seen, Damaged) else seen.place.offset + seen.place.length
            self.done.records += 1
            if self.done.records % 256 == 0:
                self._progress(f"archive/{file}", at, size)
        self.done.bytes += at

    def _walk_alone(self, file: str) -> None:
        """A file whose store is not here."""
        for seen in self._walked(file, sys.maxsize):
            if isinstance(seen, Damaged):
                self._tell(
                    f"archive/{file}", f"bytes {seen.start:,} to {seen.end:,} are damaged ({seen.why})"
                )


class _Visit:
    """The visit whose records are being read."""

    def __init__(self, answer: Answer | None = None, known: bool = False) -> None:  # noqa: FBT001, FBT002
        self.answer = answer
        self.known = known  # a page of the store is this answer


def _bad_lines(path: Path) -> Iterator[int]:
    """The numbers of lines that are no JSON. A last line without its end is being written, or a crash tore it."""
    decode = Decoder(Raw).decode
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                decode(line)
            except DecodeError:
                yield number


# ------------------------------------------------------------------------------------------------ mending


async def repair(check: Check) -> list[str]:
    """Mend what can be mended, with the crawl's lock held; says what was done."""
    directory = check.directory
    with directory.locked():
        done = [mending.mend(directory.state(shard), _CACHE) for shard in check.unusable]
        for shard, lost in check.lost.items():
            if lost:
                number = await _fetch_again(check, shard, lost)
                done.append(f"state/{shard:02d}: {counted(number, 'page')} pending again")
    return done


async def _fetch_again(check: Check, shard: int, lost: Lost) -> int:
    path, shards, now = check.directory.state(shard), max(1, check.settings.crawl.shards), time.time()
    frontier = RocksFrontier(path, check.settings, shard=shard, shards=shards)
    await frontier.open(now)
    try:
        return await frontier.fetch_again(lambda page: lost.finding(page) is not None, now)
    finally:
        await frontier.close(now)

"""Checks a crawl directory: each store against its counts, and archive and stores against each other.

Nothing is changed and no lock is taken: a store is read as of one moment, and archive records behind its mark are
later. `repair` is the part that writes.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from msgspec.structs import replace

from skitter import urls
from skitter.crawl.check_values import Answer, Damaged, Whole
from skitter.crawl.directory import CrawlDirectory
from skitter.model import Page, State
from skitter.ports import Mark, Records, StateError
from skitter.reporting.checking import SHOWN, Checked, Finding, Lost, Places
from skitter.reporting.format import counted
from skitter.settings import Settings, SettingsError

Progress = Callable[[str, int, int], None]
"""Called with what is read, how much of it, and of how much; 0 if unknown."""


class KeptStore(Protocol):
    """The store of one shard, open for checking."""

    @property
    def records(self) -> Records:
        """Its records."""
        ...

    @property
    def has_summary(self) -> bool:
        """Whether it has a summary of how far it goes."""
        ...

    @property
    def mark(self) -> Mark:
        """Where the archive ends according to the store; known after `problems`."""
        ...

    @property
    def unreadable(self) -> bool:
        """Whether some of it could not be read; known after `problems`."""
        ...

    def problems(self) -> Iterator[str]:
        """All inconsistencies, in words."""
        ...


class Kept(Protocol):
    """What a crawl has on disk."""

    def store(self, shard: int, progress: Callable[[int], None]) -> KeptStore:
        """The store of a shard. StateError if it cannot be used."""
        ...

    def settled_files(self, shard: int, mark: Mark) -> Mapping[str, int]:
        """The archive files of a shard up to the mark, in order, each with the offset up to which it is settled."""
        ...

    def walk(self, file: str, end: int) -> Iterator[Answer | Damaged | Whole]:
        """The contents of an archive file up to `end`, in order and without gaps."""
        ...

    def uri(self, url: str) -> str:
        """A URL as written in archive records."""
        ...

    def mend(self, shard: int) -> str:
        """Repair a damaged store; returns what was done, in words."""
        ...

    async def fetch_again(self, shard: int, wanted: Callable[[Page], bool], settings: Settings) -> int:
        """Make pages pending again; returns how many."""
        ...


class Check:
    """One check of a crawl directory."""

    def __init__(self, directory: CrawlDirectory, kept: Kept, progress: Progress) -> None:
        """`kept` opens what the crawl has on disk."""
        self.directory = directory
        self.kept = kept
        self.done = Checked(in_use=directory.in_use())
        self.lost: dict[int, Lost] = {}  # by shard
        self.unusable: list[int] = []  # shards whose store is damaged
        self._progress = progress
        self._has_no_roots = False
        self._needs_roots = False  # something was fetched or waits that is a page
        self.settings = self._settings()

    async def run(self) -> Checked:
        """Read everything."""
        self._small_files()
        if self.settings.cluster.size == "none":
            for shard in range(max(1, self.settings.crawl.shards)):
                await self._shard(shard)
            if self._has_no_roots and self._needs_roots:
                self._tell("roots.txt", "is empty or gone: the scope of the crawl is measured from it")
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
            if self.settings.cluster.size == "none" and self.directory.files():
                self._has_no_roots = not self.directory.roots()
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
        try:
            store = self.kept.store(shard, lambda rows: self._progress(name, rows, 0))
        except StateError as problem:
            self.unusable.append(shard)
            self._needs_roots = True
            self._tell(
                name,
                str(problem).partition(" is damaged: ")[2].partition("; ")[0] or str(problem),
                mendable=True,
            )
            for file in self.kept.settled_files(shard, Mark()):
                self._walk_alone(file)
            return
        try:
            if not store.has_summary:
                self._tell(name, "has no summary of what was written; the next run writes one", damage=False)
            problems = list(store.problems())
            for disagreement in problems:
                self._tell(name, disagreement, mendable=store.unreadable)
            if problems and store.unreadable:
                self.unusable.append(shard)
                self._needs_roots = True
                return
            if self._has_no_roots and not self._needs_roots:
                self._needs_roots = await _has_page(store.records)
            counts = await store.records.counts()
            self.done.urls += counts.added
            self.done.waiting += counts.queued + counts.leased
            await self._archive(shard, store.records, store.mark)
        finally:
            await store.records.close()

    async def _archive(self, shard: int, records: Records, mark: Mark) -> None:
        places, lost = Places(), self.lost.setdefault(shard, Lost())
        async for page in records.pages():
            self.done.pages += 1
            if page.archive is None:
                self._tell(f"state/{shard:02d}", f"the page {page.url} has no place in the archive", pages=1)
            else:
                places.add(page.archive, self.kept.uri(page.url), page)
        for file, offset in places.sort():
            self._tell(f"archive/{file}", f"two pages of the state lie at {offset:,}")
        there = self.kept.settled_files(shard, mark)
        for file in places.files() - there.keys():
            lost.files[file] = self._tell(f"archive/{file}", "the file is gone", mendable=True)
        for file, end in there.items():
            await self._file(file, end, places, lost, records)
        await self._name(lost, records)

    async def _file(self, file: str, end: int, places: Places, lost: Lost, records: Records) -> None:
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
                    await self._orphan(name, visit.answer, records)
                visit = _Visit()
        if gone := places.between(file, at, 1 << 40):
            finding = self._tell(name, f"the file ends at {at:,}, and there was more", mendable=True)
            lost.records |= dict.fromkeys(((file, offset) for offset in gone), finding)

    def _damaged(self, file: str, seen: Damaged, visit: "_Visit", places: Places, lost: Lost) -> None:
        """The pages of a damaged range, and the page whose visit it continues, have lost something."""
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

    async def _orphan(self, name: str, answer: Answer, records: Records) -> None:
        """A page in the archive without a reference in the store: it was fetched again, or the store has lost it."""
        key = urls.key(answer.uri, self.settings.urls) or answer.uri
        host = urls.host(answer.uri)
        if not 200 <= answer.status < 300 or await records.page(key, host) is not None:
            return
        if await records.page(urls.asset_key(answer.uri), host) is not None:
            return
        record = await records.url(key, host)
        if record is None or record.state is State.CRAWLED:
            finding = self._tell(name, f"the state knows nothing of the page at {answer.place.offset:,}")
            finding.urls.append(answer.uri)

    async def _name(self, lost: Lost, records: Records) -> None:
        if not lost:
            return
        async for page in records.pages():
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
        for seen in self.kept.walk(file, end):
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
        self.known = known  # this answer is a page of the store


async def _has_page(records: Records) -> bool:
    """Whether a shard knows a wanted URL that is a page: only those are measured from a root."""
    async for record in records.urls():
        if record.state is not State.REFUSED and record.purpose.handling.counts:
            return True
    return False


def _bad_lines(path: Path) -> Iterator[int]:
    """The numbers of lines that are not JSON. An unfinished last line is being written, or was torn by a crash."""
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
    """Repair what can be repaired, holding the crawl's lock; returns what was done, in words."""
    with check.directory.locked():
        done = [check.kept.mend(shard) for shard in check.unusable]
        for shard, lost in check.lost.items():
            if lost:
                number = await check.kept.fetch_again(shard, lost.has, check.settings)
                done.append(f"state/{shard:02d}: {counted(number, 'page')} pending again")
    return done

"""What is replayed: the archive of a crawl with its index of words, or a WACZ file."""

import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skitter import urls
from skitter.backends.warc.wacz import UntrustedError, Wacz
from skitter.backends.warc.wacz_signature import Signed
from skitter.export.cdxj import lines as index_lines
from skitter.export.replay.answers import Listed
from skitter.export.replay.captures import Captures
from skitter.export.source import Source
from skitter.export.uses import Uses
from skitter.export.writing import turn
from skitter.model import Page, Place
from skitter.ports import SearchIndex, StateError
from skitter.search.stored import as_asked
from skitter.search.text import query

_TURN = 64  # answers after which the event loop gets a turn


@dataclass(frozen=True, slots=True)
class HeldCrawl:
    """`replay.answers.Held`: a crawl, possibly while it runs."""

    source: Source
    captures: Captures
    uses: Uses
    index: SearchIndex | None

    @property
    def name(self) -> str:
        """That of its directory, or of the cluster."""
        directory = self.source.directory.path
        return directory.resolve().name if directory.exists() else self.source.name

    def message(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return self.source.archive.read(place)

    def spellings(self, url: str) -> list[str]:
        """As asked for, and as the crawl would have fetched it: without tracking parameters."""
        fetched = urls.fetched_form(url, self.source.settings.urls)
        return [url] if fetched is None or fetched == url else [url, fetched]

    async def _records(self, url: str) -> list[Page]:
        """What is stored of a URL, as a page and as an asset."""
        key, fetched = (
            urls.key(url, self.source.settings.urls),
            urls.fetched_form(url, self.source.settings.urls),
        )
        if key is None or fetched is None:
            return []
        found = [
            await self.source.frontier.page(each, urls.host(url)) for each in (key, urls.asset_key(fetched))
        ]
        return [page for page in found if page is not None]

    async def why_hidden(self, url: str) -> str:
        """What its records say, and the files of its origin."""
        for page in await self._records(url):
            if why := await self.uses.why_hidden(await self.uses.joined(page)):
                return why
        return ""

    async def title(self, url: str) -> str:
        """That of its page."""
        return next((page.title for page in await self._records(url)), "")

    async def search(self, words: str, most: int, after: int) -> tuple[int, list[Listed]] | None:
        """Ask the index of words."""
        made = query(words)
        if self.index is None or not made.terms:
            return None
        results = await as_asked(await self.index.search(made, most, after), self.source)
        return results.total, [
            Listed(
                url=hit.url,
                stamp=time.strftime("%Y%m%d%H%M%S", time.gmtime(hit.fetched_at)),
                title=hit.title,
                snippet=hit.snippet,
                marks=hit.marks,
            )
            for hit in results.hits
            if not await self.why_hidden(hit.url)
        ]


@dataclass(frozen=True, slots=True)
class HeldWacz:
    """`replay.answers.Held`: a WACZ file. What must not be shown is not in it."""

    wacz: Wacz
    captures: Captures

    @property
    def name(self) -> str:
        """Its title."""
        return self.wacz.title

    def message(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return self.wacz.read(place)

    def spellings(self, url: str) -> list[str]:
        """As asked for, and without tracking parameters."""
        fetched = urls.fetched_form(url)
        return [url] if fetched is None or fetched == url else [url, fetched]

    async def why_hidden(self, url: str) -> str:  # noqa: ARG002  the interface
        """It may be shown."""
        return ""

    async def title(self, url: str) -> str:
        """As its list of pages says."""
        return self.captures.title(url)

    async def search(self, words: str, most: int, after: int) -> tuple[int, list[Listed]] | None:  # noqa: ARG002
        """It has no index of words."""
        return None


@asynccontextmanager
async def held_crawl(
    source: Source, index: SearchIndex | None, told: Callable[[int], None]
) -> AsyncIterator[HeldCrawl]:
    """A crawl, ready to be replayed; `told` hears of answers that are indexed."""
    async with captures_of(source, told) as captures:
        yield HeldCrawl(source, captures, Uses(source), index)


@asynccontextmanager
async def captures_of(source: Source, told: Callable[[int], None]) -> AsyncIterator[Captures]:
    """The answers in the archive of a crawl by URL and time, brought up to date; `told` hears of those that are indexed."""
    file = source.directory.captures_file
    kept = hasattr(source.archive, "size") and os.access(file if file.exists() else file.parent, os.W_OK)
    captures = Captures(file if kept else None)
    try:
        try:
            await _fill(captures, source, told)
        except sqlite3.Error as problem:
            raise StateError(f"{file}: {problem}") from None
        yield captures
    finally:
        captures.close()


async def _fill(captures: Captures, source: Source, told: Callable[[int], None]) -> None:
    """Index what is new in the archive: files that have grown are read again."""
    known, files = captures.sizes(), await source.files()
    measure: Callable[[str], int] = getattr(source.archive, "size", lambda _: -1)
    for gone in set(known) - set(files):
        captures.forget(gone)
    for file in files:
        size = measure(file)
        if known.get(file) == size >= 0:
            continue
        captures.forget(file)
        lines = (line for _, line in index_lines(source.archive.records(file)))
        for number in captures.add(lines):
            told(number)
            await turn()
        captures.filled(file, size)


@asynccontextmanager
async def held_wacz(path: Path, told: Callable[[int], None]) -> AsyncIterator[HeldWacz]:
    """A WACZ file, checked and ready to be replayed; `told` hears how many octets are checked."""
    wacz = Wacz(path, told)
    captures = Captures(None)
    try:
        for _ in captures.add(wacz.index()):
            await turn()
        captures.entitle(wacz.pages())
        yield HeldWacz(wacz, captures)
    finally:
        captures.close()
        wacz.close()


@dataclass(frozen=True, slots=True)
class CheckedWacz:
    """A WACZ file that was read whole."""

    problem: str  # why it cannot be trusted; nothing else is known then
    title: str = ""
    created: str = ""
    answers: int = 0
    pages: int = 0
    signed: Signed | None = None


def checked_wacz(path: Path) -> CheckedWacz:
    """Read a WACZ file whole. StateError if it cannot be read at all."""
    try:
        wacz = Wacz(path)
    except UntrustedError as problem:
        return CheckedWacz(str(problem))
    try:
        answers, pages = sum(1 for _ in wacz.index()), sum(1 for _ in wacz.pages())
    finally:
        wacz.close()
    return CheckedWacz("", wacz.title, wacz.created, answers, pages, wacz.signed)

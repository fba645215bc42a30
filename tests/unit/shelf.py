"""A crawl whose pages a test adds, removes and refetches, as a source for an index."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from skitter.crawl.directory import CrawlDirectory
from skitter.model import Counts, Page, Place
from skitter.ports import Command, Records
from skitter.settings import Settings
from tests.unit.crawled import NOW, MemoryArchive, page


class ShelfRecords:
    """The read side of a frontier, as far as an index needs it."""

    def __init__(self) -> None:
        self.by_key: dict[str, Page] = {}
        self.requests = 0
        self.read = 0

    async def counts(self) -> Counts:
        return Counts(requests=self.requests)

    async def page(self, key: str, host: str) -> Page | None:
        return self.by_key.get(key)

    async def pages(self) -> AsyncIterator[Page]:
        for each in list(self.by_key.values()):
            self.read += 1
            yield each


class Shelf:
    """What `skitter.compose.open_source` gives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.settings = Settings()
        self.directory = CrawlDirectory(folder)
        self.records = ShelfRecords()
        self.answers: dict[Place, bytes] = {}
        self.archive = MemoryArchive(self.answers)

    @property
    def frontier(self) -> Records:
        return cast("Records", self.records)

    @property
    def name(self) -> str:
        return str(self.directory.path)

    async def roots(self) -> list[str]:
        return self.directory.roots()

    async def commands(self) -> list[Command]:
        return []

    async def files(self) -> list[str]:
        return self.directory.files()

    def path_of(self, file: str) -> str:
        return file

    async def elsewhere(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        pass

    def put(self, url: str, title: str, text: str, fetched_at: float = NOW, **fields: object) -> Page:
        """A visit that stored this page."""
        html = f"<title>{title}</title><p>{text} <a href='next'>on</a> <a href='mailto:x'>write</a>".encode()
        place = Place("00-1.warc.gz", len(self.answers), len(html))
        self.answers[place] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + html
        made = replace(page(url, title=title, fetched_at=fetched_at, archive=place), **fields)
        self.records.by_key[made.key] = made
        self.records.requests += 1
        return made

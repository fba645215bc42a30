"""A crawl that holds these pages, for what is derived from main content: `Source` without a store or a disk."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from skitter import urls
from skitter.dedup.digest import payload_digest
from skitter.model import Counts, Page, Place
from skitter.settings import Settings

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
NOW = 1_700_000_000.0


class HeldCrawl:
    """Pages by their URL; a page that is None has lost its record."""

    def __init__(
        self, pages: Mapping[str, str | None], settings: Settings | None = None, **fields: object
    ) -> None:
        settings = settings or Settings()
        self.settings = replace(settings, parse=replace(settings.parse, extractor="fast"))
        self._sources = list(pages.values())
        self._pages = [
            Page(
                url=url,
                requested_url=url,
                key=urls.key(url) or url,
                host=urls.host(url),
                domain=urls.registrable_domain(urls.host(url)),
                status=200,
                fetched_at=NOW,
                content_type="text/html",
                title=_title(source or ""),
                digest=payload_digest((source or "").encode()),
                archive=Place("a.warc.gz", number, 1),
            )
            for number, (url, source) in enumerate(pages.items())
        ]
        if fields:
            self._pages = [replace(page, **fields) for page in self._pages]

    frontier = property(lambda self: self)
    archive = property(lambda self: self)
    name = "crawl"

    async def counts(self) -> Counts:
        return Counts(pages=len(self._pages))

    async def pages(self) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page

    async def page(self, key: str, _host: str) -> Page | None:
        return next((page for page in self._pages if page.key == key), None)

    def change(self, url: str, **fields: object) -> None:
        self._pages = [replace(page, **fields) if page.url == url else page for page in self._pages]

    def read(self, place: Place) -> bytes:
        source = self._sources[place.offset]
        if source is None:
            raise OSError(f"{place.file} has no whole record at {place.offset}")
        return HEAD + source.encode("utf-8", "surrogatepass")

    async def elsewhere(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        pass

    @property
    def directory(self) -> Path:
        return Path("crawl")


def _title(source: str) -> str:
    return source.partition("<title>")[2].partition("</title>")[0]

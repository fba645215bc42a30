"""The alt texts of stored images, from the pages that show them or link to them.

They are in no record: the archive has them. When the first image comes by, the pages of up to five links to each image are read
again, once. A crawl without images costs nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator

from msgspec.structs import replace

from skitter import urls
from skitter.export import reread
from skitter.export.source import Source
from skitter.export.writing import turn
from skitter.model import Page
from skitter.parse import charset
from skitter.parse.alts import alts

MOST = 5  # texts of an image, and pages that are asked for them
_HTML = ("text/html", "application/xhtml+xml")


def is_image(page: Page) -> bool:
    """Whether somebody may have said what is on it."""
    return page.content_type.startswith("image/") and 200 <= page.status < 300


def with_alts(page: Page, texts: list[str]) -> Page:
    """The record of an image with its alt texts among what only images have."""
    return replace(page, media={**(page.media or {}), "alts": texts}) if texts else page


class Alts:
    """The alt texts of all images of a crawl."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._texts: dict[str, list[str]] | None = None  # by key

    async def told(self, page: Page) -> Page:
        """The page, with its alt texts if it is an image."""
        if not is_image(page):
            return page
        if self._texts is None:
            self._texts = {}
            await self._read(self._texts)
        return with_alts(page, self._texts.get(page.key, []))

    async def _read(self, texts: dict[str, list[str]]) -> None:
        images = {
            url: page.key
            async for page in self._source.frontier.pages()
            if is_image(page)
            for url in (page.url, page.requested_url)
        }
        keys = set(images.values())
        async for url in self._sources(images):
            for key, text in await said_by(url, self._source):
                known = texts.setdefault(key, []) if key in keys else None
                if known is not None and len(known) < MOST and text not in known:
                    known.append(text)
            await turn()

    async def _sources(self, images: dict[str, str]) -> AsyncIterator[str]:
        """Each page that is among the first few to refer to an image."""
        asked = Counter[str]()
        pages = dict[str, None]()
        for pairs in (self._source.frontier.links(), self._source.frontier.assets()):
            async for source, target in pairs:
                key = images.get(target)
                if key is not None and asked[key] < MOST:
                    asked[key] += 1
                    pages[source] = None
        for url in pages:
            yield url


async def said_by(url: str, source: Source) -> list[tuple[str, str]]:
    """What a stored page says about images: their keys, as pages and as assets, and the texts."""
    key = urls.key(url, source.settings.urls)
    page = None if key is None else await source.frontier.page(key, urls.host(url))
    if page is None or page.content_type not in _HTML:
        return []
    try:
        found = await reread.shown(page, source)
    except OSError:  # who wants its own text is told
        return []
    if found is None:
        return []
    rendered = page.archive is not None and page.archive.beside
    name = charset.UTF_8 if rendered else page.charset or charset.UTF_8
    text = charset.decode(found.content[: source.settings.parse.max_input], name)
    told: list[tuple[str, str]] = []
    for image, alt in alts(text, page.url):
        if forms := urls.link(image, page.url, source.settings.urls):
            told += ((forms[1], alt), (urls.asset_key(forms[0]), alt))
    return told


async def of_parent(page: Page, source: Source) -> Page:
    """An image with what the page says that it was found on: that page is known, others would have to be looked for."""
    if not is_image(page) or not page.parent:
        return page
    said = [text for key, text in await said_by(page.parent, source) if key == page.key]
    return with_alts(page, list(dict.fromkeys(said))[:MOST])

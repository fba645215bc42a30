"""The text of a stored page, parsed from the archive again.

Page records are stored without their text: the archive holds every answer byte for byte, and parsing it again
gives the same text; of a page that a browser rendered, what it made of it. Identical payloads are archived once, so the text of an
exact duplicate is that of its twin. What is slow or dangerous to parse is parsed by a process of its own, here as in the crawl.
"""

import re
from typing import Self

from skitter import urls
from skitter.export.source import Source
from skitter.fetch.response import outcome
from skitter.model import Document, Exchange, Fetched, Page, Rendering
from skitter.parse import is_slow, parse, sniff
from skitter.parse.frames import Trouble
from skitter.parse.pool import ParserPool
from skitter.settings import Settings
from skitter.settings.sites import sites_of
from skitter.visit import as_rendered

_HTML = ("text/html", "application/xhtml+xml")
_HEAD_END = re.compile(rb"\n\r?\n")


class Documents:
    """Parses stored pages; an async context, which ends its parser process."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._settings = source.settings
        self._sites = sites_of(source.settings)
        self._parsers: ParserPool | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._parsers is not None:
            await self._parsers.close()

    async def document(self, page: Page) -> Document | None:
        """What the parser finds in a stored page; None if its body is not in the archive.

        Raises OSError if the archive cannot be read where the record should be, or the parser fails.
        """
        if not page.purpose.handling.parsed:
            return Document(media_type=page.content_type, charset=page.charset, base=page.url)
        found = await shown(page, self._source)
        return None if found is None else await self._parsed(page.url, found)

    def settings_of(self, url: str) -> Settings:
        """The settings that hold for a URL."""
        return self._settings if self._sites is None else self._sites.of(url)

    async def _parsed(self, url: str, found: Fetched) -> Document:
        given, rules = (url, found.headers, found.content), self.settings_of(url).parse
        if not is_slow(*given, rules):
            return parse(*given, rules)
        if self._parsers is None:
            self._parsers = ParserPool(self._settings)
        read = await self._parsers.read(*given, rules)
        if isinstance(read, Trouble):
            raise OSError(read.detail)
        return read.document


async def document(page: Page, source: Source) -> Document | None:
    """The same for one page."""
    async with Documents(source) as documents:
        return await documents.document(page)


async def shown(page: Page, source: Source) -> Fetched | None:
    """What the crawl has parsed: the answer, with what a browser made of it if the page was rendered. Raises OSError as above."""
    found = await answer(page, source)
    rendered = None if page.archive is None else page.archive.behind(0)
    if found is None or rendered is None:
        return found
    return as_rendered(found, Rendering(source.archive.read(rendered)))


async def answer(page: Page, source: Source) -> Fetched | None:
    """The answer to a stored page, or that of the page it repeats; None if it is not in the archive. Raises OSError as above."""
    message = await received(page, source)
    return None if message is None else _answer(page.url, message, source.settings)


async def received(page: Page, source: Source) -> bytes | None:
    """The HTTP message as received: the page's own, or that of the page it repeats."""
    holder = page
    if page.identical:
        key = urls.key(page.duplicate_of, source.settings.urls) or ""
        twin = await source.frontier.page(key, urls.host(page.duplicate_of))
        if twin is None or twin.identical or twin.digest != page.digest:
            return None
        holder = twin
    return None if holder.archive is None else source.archive.read(holder.archive)


def content(page: Page, source: Source) -> bytes | None:
    """The decoded content of an answer that repeats no other; None without a usable one. Raises OSError as above."""
    if page.archive is None:
        return None
    found = _answer(page.url, source.archive.read(page.archive), source.settings)
    return None if found is None else found.content


def from_message(url: str, message: bytes, settings: Settings) -> Document | None:
    """What the parser finds in an HTTP message as received; None without a usable answer."""
    found = _answer(url, message, settings)
    return None if found is None else parse(url, found.headers, found.content, settings.parse)


def html_of(url: str, message: bytes, settings: Settings) -> tuple[str, bytes] | None:
    """The media type with its charset, and the decoded content, of an HTML page; None for any other answer."""
    found = _answer(url, message, settings)
    if found is None or not 200 <= found.status < 300:
        return None
    body = sniff.body(url, found.headers, found.content[: settings.parse.max_input])
    if body.media_type not in _HTML:
        return None
    charset = f"; charset={body.http_charset}" if body.http_charset else ""
    return f"{body.media_type}{charset}", found.content


def _answer(url: str, message: bytes, settings: Settings) -> Fetched | None:
    end = _HEAD_END.search(message)
    cut = end.end() if end else len(message)
    exchange = Exchange(url, "", 0.0, 0.0, b"", message[:cut], message[cut:])
    found = outcome(exchange, settings.fetch.max_body)
    return found if isinstance(found, Fetched) else None

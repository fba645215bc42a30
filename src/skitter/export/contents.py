"""The main content of stored pages: from their records if the crawl extracted it, else from the archive.

The archive's pages are read by parser processes with limits (see `parse.pool`): a page that makes a parser hang, crash or
take too much memory costs its own content, with a reason, and nothing else.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from skitter.export import reread
from skitter.export.source import Source
from skitter.model import Content, Page
from skitter.parse import main
from skitter.parse.frames import Trouble
from skitter.parse.pool import ParserPool
from skitter.settings import Settings

_MOST_PROCESSES = 4
_AHEAD = 2  # pages in work for each process


class Extracted(Struct, frozen=True):
    """A page with its main content; `problem` says why there is none."""

    page: Page
    content: Content
    language: str = ""
    problem: str = ""


def has_content(page: Page) -> bool:
    """Whether a page is one that may have main content: an answer that counts as a page."""
    return 200 <= page.status < 300 and page.purpose.handling.parsed and not page.ignored


class Contents:
    """Gives the main content of pages. Use it in an `async with`."""

    def __init__(self, settings: Settings, *, whole: bool = False) -> None:
        """With `whole` the content is the whole page. Raises SettingsError if the library of the extractor is missing."""
        self._whole = whole
        processes = max(settings.parse.processes, min(_MOST_PROCESSES, os.cpu_count() or 1))
        extractor = main.WHOLE if whole else settings.parse.extractor
        parse = replace(settings.parse, main=True, processes=processes, extractor=extractor)
        self._settings = replace(settings, parse=parse)
        main.require(self._settings.parse)
        self._pool = ParserPool(self._settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()

    async def in_order(self, pages: AsyncIterator[Page], source: Source) -> AsyncIterator[Extracted]:
        """The pages in the same order, each with its main content. Several are read at a time."""
        waiting: deque[asyncio.Task[Extracted]] = deque()
        try:
            async for page in pages:
                waiting.append(asyncio.create_task(self.of(page, source)))
                if len(waiting) >= _AHEAD * self._settings.parse.processes:
                    yield await waiting.popleft()
            while waiting:
                yield await waiting.popleft()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def of(self, page: Page, source: Source) -> Extracted:
        """A page with its main content."""
        if page.content is not None and not self._whole:
            return Extracted(page, page.content, page.language)
        try:
            answer = await reread.shown(page, source)
        except OSError as problem:
            return Extracted(page, Content(), problem=f"{page.url}: it cannot be read: {problem}")
        if answer is None:
            return Extracted(page, Content(), problem=f"{page.url}: its body is not in the archive")
        read = await self._pool.read(page.url, answer.headers, answer.content)
        if isinstance(read, Trouble):
            return Extracted(page, Content(), problem=f"{page.url}: {read.detail}")
        document = read.document
        content = document.content or Content(main=document.text, markdown=main.as_text(document.text))
        return Extracted(page, content, document.language or page.language)

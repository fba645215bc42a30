"""The pages of a crawl directory, as batches for an index that may already have some of them.

The index itself says what it holds, so there is no position to keep: an interrupted update continues, and one
during a crawl takes what is there. Text is read from the archive again, as in exports.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.export import reread
from skitter.export.source import Source
from skitter.model import Document, Page
from skitter.ports import Entry, SearchIndex
from skitter.search.feed import unwanted

LOOKED_AT = 500  # pages whose versions are looked up together
BATCH = 200  # pages per batch: their text is in memory, and an interruption repeats them
_PRECISION = 0.001  # seconds: the precision in which engines store times

Remark = Callable[[str], None]


async def changed(source: Source, index: SearchIndex, remark: Remark) -> AsyncIterator[Sequence[Entry]]:
    """Batches of pages that the index lacks or has outdated, and of those it must not hold any more."""
    batch: list[Entry] = []
    async for pages in _portions(source):
        held = await index.held([page.key for page in pages])
        for page in pages:
            entry = await _entry(page, held.get(page.key), source, remark)
            if entry is not None:
                batch.append(entry)
            if len(batch) >= BATCH:
                yield batch
                batch = []
                await asyncio.sleep(0)  # local stores never wait; without this, Ctrl-C would not be noticed
        await asyncio.sleep(0)
    if batch:
        yield batch


async def _portions(source: Source) -> AsyncIterator[list[Page]]:
    portion: list[Page] = []
    async for page in source.frontier.pages():
        portion.append(page)
        if len(portion) >= LOOKED_AT:
            yield portion
            portion = []
    if portion:
        yield portion


async def _entry(page: Page, held: float | None, source: Source, remark: Remark) -> Entry | None:
    """The change that the index needs for a page; None if it is up to date."""
    if unwanted(page):
        return None if held is None else Entry(page)
    if held is not None and held > page.fetched_at - _PRECISION:
        return None
    try:
        document = await reread.document(page, source)
    except OSError as problem:
        remark(f"{page.url}: its text cannot be read: {problem}")
        return None
    if document is None:
        remark(f"{page.url}: its body is not in the archive")
        return None
    return Entry(replace(page, text=document.text), _links(document))


def _links(document: Document) -> list[str]:
    """The links of a page, each once, in order."""
    resolved = (urls.resolve(href, document.base) for href in document.links)
    return list(dict.fromkeys(url for url in resolved if url))

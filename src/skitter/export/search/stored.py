"""The pages of a crawl directory, as batches for an index that may already have some of them.

The index itself says what it holds, so there is no position to keep: an interrupted update continues, and one
during a crawl takes what is there. Text is read from the archive again, as in exports.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.export.canonicals import canonical
from skitter.export.reread import Documents
from skitter.export.search.feed import unwanted
from skitter.export.search.text import Results, shortened
from skitter.export.source import Source
from skitter.export.uses import Uses
from skitter.model import Document, Page
from skitter.ports import Entry, SearchIndex

LOOKED_AT = 500  # pages whose versions are looked up together
BATCH = 200  # pages per batch: their text is in memory, and an interruption repeats them
_PRECISION = 0.001  # seconds: the precision in which engines store times

Remark = Callable[[str], None]
Ends = Callable[[float], None]
"""Told when a page asks to be taken out of the index (unavailable_after)."""


async def changed(
    source: Source, index: SearchIndex, remark: Remark, ends: Ends | None = None
) -> AsyncIterator[Sequence[Entry]]:
    """Batches of pages that the index lacks or has outdated, and of those it must not hold any more."""
    async with Documents(source) as documents:
        async for batch in _changed(source, documents, index, remark, ends):
            yield batch


async def _changed(
    source: Source, documents: Documents, index: SearchIndex, remark: Remark, ends: Ends | None
) -> AsyncIterator[Sequence[Entry]]:
    batch: list[Entry] = []
    uses = Uses(source)
    async for pages in _portions(source):
        held = await index.held([page.key for page in pages])
        for stored in pages:
            page = await uses.joined(stored)
            if ends is not None and page.robots.unavailable_after is not None:
                ends(page.robots.unavailable_after)
            entry = await _entry(page, held.get(page.key), source, documents, remark)
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


async def _entry(
    page: Page, held: float | None, source: Source, documents: Documents, remark: Remark
) -> Entry | None:
    """The change that the index needs for a page; None if it is up to date."""
    asked = page
    page, merged = await _merged(page, source)
    if merged or unwanted(page, source.settings.export.respect_ai):
        return None if held is None else Entry(page, unwanted=merged)
    if held is not None and held > page.fetched_at - _PRECISION:
        return None
    try:
        document = await documents.document(asked)
    except OSError as problem:
        remark(f"{page.url}: its text cannot be read: {problem}")
        return None
    if document is None:
        remark(f"{page.url}: its body is not in the archive")
        return None
    return Entry(replace(page, text=document.text), _links(document))


async def _merged(page: Page, source: Source) -> tuple[Page, str]:
    """Why the page is not in the index if its canonical form is; and the page as the index needs it.

    The canonical page may have been fetched later, and so repeat this one byte for byte: then it is the one to keep.
    """
    named = await canonical(page, source) if page.canonical and page.canonical != page.url else None
    if named is not None and named.merged:
        return page, named.why
    if page.identical:
        key = urls.key(page.duplicate_of, source.settings.urls) or ""
        first = await source.frontier.page(key, urls.host(page.duplicate_of))
        of_first = await canonical(first, source) if first is not None and first.canonical else None
        if of_first is not None and of_first.merged and of_first.url == page.url:
            return replace(page, duplicate_of="", identical=False), ""
    return page, ""


async def as_asked(results: Results, source: Source) -> Results:
    """The results with no more of a page's text than it allows to be shown (nosnippet, max-snippet)."""
    hits = []
    for hit in results.hits:
        key = urls.key(hit.url, source.settings.urls)
        page = None if key is None else await source.frontier.page(key, urls.host(hit.url))
        hits.append(hit if page is None else shortened(hit, page.robots.snippet))
    return Results(results.total, hits)


def _links(document: Document) -> list[str]:
    """The links of a page, each once, in order."""
    resolved = (urls.resolve(href, document.base) for href in document.links)
    return list(dict.fromkeys(url for url in resolved if url))

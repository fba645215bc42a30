"""What changed between two crawls: pages that are new, changed, moved, gone or unchanged.

Pages are matched by their key. Those whose payload is the same are unchanged, and are not even read. Of the others the main
content is compared, with what changes at every visit masked (see `parse.main.stamps`). A page that is only in one crawl has
moved if its content is at another key in the other one. Nothing is held in memory but what sorting needs: both crawls are
read in the order of their keys, and the pages without a partner in the order of their content.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import groupby

from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from skitter import urls
from skitter.export import diffing
from skitter.export.contents import Contents, Extracted, has_content
from skitter.export.diffing import Hunk
from skitter.export.ordering import Ordered
from skitter.export.source import Source
from skitter.model import Page
from skitter.parse.main.stamps import masked

NEW, CHANGED, MOVED, GONE, UNCHANGED = KINDS = ("new", "changed", "moved", "gone", "unchanged")
_BATCH = 32  # keys whose pages are read together
_END = "\0"  # occurs in no URL
_FEWEST = 40  # characters of a content by which a page is recognised elsewhere

Remark = Callable[[str], None]


class Change(Struct, frozen=True, kw_only=True):
    """What happened to a page. `old_url` is where it was, if that is another URL."""

    kind: str
    url: str
    title: str = ""
    old_url: str = ""
    hunks: tuple[Hunk, ...] = ()
    note: str = ""  # why there is no diff


async def changes(old: Source, new: Source, remark: Remark) -> AsyncIterator[Change]:
    """Every page of two crawls, once: those in both in the order of their keys, then the others."""
    async with Contents(new.settings) as main, Contents(new.settings, whole=True) as whole:
        contents = _Judges(main, whole)
        with Ordered() as before, Ordered() as after, Ordered() as alone:
            await _listed(old, before)
            await _listed(new, after)
            batch: list[tuple[str, str]] = []
            for pair in _pairs(before.lines(), after.lines()):
                batch.append(pair)
                if len(batch) >= _BATCH:
                    for change in await _compared(batch, old, new, contents, alone, remark):
                        yield change
                    batch = []
            for change in await _compared(batch, old, new, contents, alone, remark):
                yield change
            for change in _without_partner(alone.lines()):
                yield change


class _Judges(Struct, frozen=True):
    """Main contents, and whole pages: a page around its content is only read where the content differs."""

    main: Contents
    whole: Contents


async def _listed(source: Source, into: Ordered) -> None:
    """One line for each page: key, URL, digest."""
    count = 0
    async for page in source.frontier.pages():
        if has_content(page):
            into.add(_END.join((page.key, page.url, page.digest)).replace("\n", " "))
        count += 1
        if not count % 256:
            await asyncio.sleep(0)


def _pairs(before: Iterator[str], after: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Lines of both crawls by their key; empty where one has none."""
    old, new = next(before, ""), next(after, "")
    while old or new:
        old_key, new_key = old.partition(_END)[0], new.partition(_END)[0]
        if old and (not new or old_key < new_key):
            yield old, ""
            old = next(before, "")
        elif new and (not old or new_key < old_key):
            yield "", new
            new = next(after, "")
        else:
            yield old, new
            old, new = next(before, ""), next(after, "")


async def _compared(
    batch: list[tuple[str, str]],
    old: Source,
    new: Source,
    contents: _Judges,
    alone: Ordered,
    remark: Remark,
) -> list[Change]:
    """What became of the pages in both crawls. Those in one alone are put aside, by their content."""
    asked = [_sides(pair, old, new, contents) for pair in batch]
    found: list[Change] = []
    for before, after in await asyncio.gather(*asked):
        for side in (before, after):
            if isinstance(side, Extracted) and side.problem:
                remark(side.problem)
        if isinstance(before, Page):
            found.append(Change(kind=UNCHANGED, url=before.url, title=before.title))
        elif before is not None and after is not None and not isinstance(after, Page):
            found.append(await _change(before, after, old, new, contents.whole))
        else:
            only = before or after
            if only is not None and not isinstance(only, Page):
                which = GONE if before is not None else NEW
                alone.add(_END.join((_recognised(only), which, only.page.url, _on_a_line(only.page.title))))
    return found


_Side = Extracted | Page | None


async def _sides(pair: tuple[str, str], old: Source, new: Source, contents: _Judges) -> tuple[_Side, _Side]:
    """A page in both crawls, each with its content; only the new one's record if nothing changed."""
    pages = [
        await _page(line, source) if line else None for line, source in zip(pair, (old, new), strict=True)
    ]
    before, after = pages
    if before is not None and after is not None and before.digest and before.digest == after.digest:
        return after, after
    return (
        None if before is None else await contents.main.of(before, old),
        None if after is None else await contents.main.of(after, new),
    )


async def _page(line: str, source: Source) -> Page | None:
    key, url, _ = line.split(_END)
    return await source.frontier.page(key, urls.host(url))


async def _change(
    before: Extracted, after: Extracted, old_crawl: Source, new_crawl: Source, whole: Contents
) -> Change:
    page, moved = after.page, before.page.url if before.page.url != after.page.url else ""
    old, new = before.content.main, after.content.main
    if before.problem or after.problem:
        note = "its content could not be extracted; the answers differ"
        return Change(kind=CHANGED, url=page.url, title=page.title, old_url=moved, note=note)
    if not old and not new:
        note = "it has no text; the answers differ"
        return Change(kind=CHANGED, url=page.url, title=page.title, old_url=moved, note=note)
    if masked(old) == masked(new):
        return Change(kind=UNCHANGED, url=page.url, title=page.title)
    old_page, new_page = await whole.of(before.page, old_crawl), await whole.of(after.page, new_crawl)
    found = tuple(diffing.hunks(old, new, old_page.content.main, new_page.content.main))
    if not found:
        return Change(kind=UNCHANGED, url=page.url, title=page.title)
    return Change(kind=CHANGED, url=page.url, title=page.title, old_url=moved, hunks=found)


def _recognised(found: Extracted) -> str:
    """What a page is recognised by at another URL: its content, or its digest if that says too little."""
    content = masked(found.content.main)
    if len(content) < _FEWEST:
        return found.page.digest or found.page.url
    return xxh3_128_hexdigest(content.encode("utf-8", "surrogatepass"))


def _on_a_line(text: str) -> str:
    return " ".join(text.replace(_END, " ").split())


def _without_partner(lines: Iterator[str]) -> Iterator[Change]:
    """Pages in one crawl alone. Of those with the same content, each that is gone has moved to one that is new."""
    for _, same in groupby(lines, key=lambda line: line.partition(_END)[0]):
        gone: list[tuple[str, str]] = []
        come: list[tuple[str, str]] = []
        for line in same:
            _, kind, url, title = line.split(_END)
            (gone if kind == GONE else come).append((url, title))
        pairs = min(len(gone), len(come))
        for (old_url, _), (url, title) in zip(gone[:pairs], come[:pairs], strict=True):
            yield Change(kind=MOVED, url=url, title=title, old_url=old_url)
        for url, title in gone[pairs:]:
            yield Change(kind=GONE, url=url, title=title)
        for url, title in come[pairs:]:
            yield Change(kind=NEW, url=url, title=title)

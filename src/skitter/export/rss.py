"""The newest pages of a crawl as an RSS 2.0 feed, for people who want to hear of them in their feed reader.

A page is new when it was fetched for the first time and repeats no other; the feed has the newest hundred. Feed readers tell entries
apart by their `guid`, which is the URL, so a page is announced once, however often the feed is made again.
"""

import heapq
from email.utils import formatdate
from xml.sax.saxutils import escape

from skitter.export.source import Source
from skitter.export.uses import Uses
from skitter.export.writing import TURN, Destination, Format, Listener, turn
from skitter.model import Page
from skitter.reporting.format import printable

NEWEST = 100
_SUMMARY = 500  # characters of a description


async def _rss(source: Source, into: Destination, told: Listener) -> None:
    """The feed: all pages are looked at, and the newest kept."""
    told.expect(NEWEST, "entry", "entries")
    newest = await _newest(source, told)
    out = into.open("feed.xml")
    name = _text(source.name)
    roots = await source.roots()
    home = _text(roots[0]) if roots else ""
    out.write(
        f'<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0">\n<channel>\n<title>New pages of {name}</title>\n'
        f"<link>{home}</link>\n<description>The newest pages that Skitter found</description>\n".encode()
    )
    for page in newest:
        out.write(_item(page).encode("utf-8", "backslashreplace"))
        told.done()
    out.write(b"</channel>\n</rss>\n")


async def _newest(source: Source, told: Listener) -> list[Page]:
    """Without what is no page of its own, and what says no to a use that the settings respect."""
    uses, omitted = Uses(source), ", ".join(source.settings.export.respect_ai)
    heap: list[tuple[float, str, Page]] = []
    number = 0
    async for stored in source.frontier.pages():
        number += 1
        if not number % TURN:
            await turn()
        if not _counts(stored):
            continue
        page = await uses.joined(stored)
        if uses.objection(page):
            told.left_out(f"they say no to {omitted} (export.respect_ai)")
            continue
        entry = stored.fetched_at, stored.url, page
        if len(heap) < NEWEST:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    return [page for _, _, page in sorted(heap, key=lambda each: (-each[0], each[1]))]


def _counts(page: Page) -> bool:
    return (
        page.purpose.handling.counts
        and 200 <= page.status < 300
        and not page.duplicate_of
        and page.robots.index
    )


def _item(page: Page) -> str:
    url, summary = _text(page.url), _text(page.description[:_SUMMARY])
    described = f"<description>{summary}</description>\n" if summary else ""
    return (
        f'<item>\n<title>{_text(page.title or page.url)}</title>\n<link>{url}</link>\n<guid isPermaLink="true">{url}</guid>\n'
        f"<pubDate>{formatdate(page.fetched_at, usegmt=True)}</pubDate>\n{described}</item>\n"
    )


def _text(text: str) -> str:
    """Text from a page, as XML takes it: no control character is allowed there, not even as a reference."""
    return escape(printable(text))


FORMAT = Format(
    name="rss",
    about=f"a feed of the newest {NEWEST} pages",
    write=_rss,
    lines=False,
)

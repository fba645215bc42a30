"""Sitemaps and feeds: which are read, what they list, and links from their entries.

Entries become links like those of a page: scope, traps, depth and budgets apply, and robots.txt when their turn comes.
What a sitemap says about a page (lastmod, changefreq, priority) is kept as hints, and the priority moves a page among its
likes. A sitemap may list pages of the site it speaks for, and of no other: its own site, or the one whose robots.txt
names it (sitemaps.org, "cross submits"). One that a person named is trusted as far as the scope reaches.

There may be 50,000 entries, so they are judged and stored some at a time while the file is read. A crash in between
costs nothing: the sitemap is still leased, is read again, and what is stored is known.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from skitter import reasons, urls
from skitter.dedup.digest import sha1_of
from skitter.fetch import pieces
from skitter.links.scope import ALONE, Scope
from skitter.model import Exchange, Hints, Level, Link, Page, Purpose, Reason
from skitter.parse.sitemaps import Entry, SitemapReader
from skitter.settings import Settings

Refused = tuple[Link, Reason]
Placed = Callable[[Link], Link]
Store = Callable[[Sequence[Link], Sequence[Refused]], Awaitable[None]]

ANNOUNCED = frozenset(("announced", "search", "only"))
SEARCHED = frozenset(("search", "only"))
"""Values of `scope.sitemaps` with which sitemaps are read that nobody named by hand."""

USUAL_PLACES = ("/sitemap.xml",)
"""Asked for if a robots.txt names no sitemap; most programs that write one write it there."""

_MOST_ANNOUNCED = 1_000  # sitemaps named by one robots.txt
_MOST_NESTED = 5  # indexes that lead to a sitemap; the protocol allows one
_AT_ONCE = 1_000  # entries judged and stored together: 20 ms
_LARGE = 256 * 1024  # bytes hashed at once
_DEPTH = 1  # of a listed page: one link away from the site, however many indexes list it


class Listed(Struct, frozen=True):
    """What a sitemap or feed contained."""

    kind: str  # sitemap, index, feed or text; empty if it was none of them
    count: int  # entries
    size: int  # bytes read, decoded
    digest: str  # of the whole payload
    problem: str = ""  # why not all of it was read


class Lists:
    """Judges sitemaps and their entries."""

    def __init__(self, settings: Settings, scope: Scope, placed: Placed) -> None:
        self._settings, self._scope, self._placed = settings, scope, placed
        self._mode = settings.scope.sitemaps
        self.alone = self._mode in ALONE  # nothing is crawled but what is listed
        self.searches = self._mode in SEARCHED  # the usual places are tried

    def announced(self, origin: str, sitemaps: Sequence[str]) -> tuple[list[Link], list[Refused]]:
        """The sitemaps that a robots.txt names, or the usual places of a seed's host if it names none."""
        if self._mode not in ANNOUNCED or self._scope.follows_nothing:
            return [], []
        source, found = "robots", sitemaps[:_MOST_ANNOUNCED]
        if not found:
            source = "guess"
            found = USUAL_PLACES if self.searches and self._scope.has_host(urls.host(origin)) else ()
        hints = Hints(source=source, site=urls.host(origin))
        return self._judged(self._list(href, f"{origin}/robots.txt", hints) for href in found)

    def entries(self, sitemap: Link, entries: Sequence[Entry], kind: str) -> tuple[list[Link], list[Refused]]:
        """The links of a sitemap: (wanted, refused)."""
        said = sitemap.hints or Hints()
        return self._judged(
            judged
            for entry in entries
            for judged in (
                [self._listed_list(sitemap, said, entry)]
                if entry.is_list
                else self._listed_pages(sitemap, said, entry, "feed" if kind == "feed" else "sitemap")
            )
        )

    def _judged(self, found: Iterable[tuple[Link, Reason | None] | None]) -> tuple[list[Link], list[Refused]]:
        wanted: list[Link] = []
        refused: list[Refused] = []
        for judged in found:
            if judged is None:
                continue
            link, reason = judged
            if reason is None:
                wanted.append(link)
            else:
                refused.append((link, reason))
        return wanted, refused

    def _list(self, href: str, base: str, hints: Hints) -> tuple[Link, Reason | None] | None:
        forms = urls.link(href, base, self._settings.urls)
        if forms is None:
            return None
        url, key, host = forms
        link = Link(
            url=url, key=key, host=host, parent=base, level=Level.HIGH, purpose=Purpose.SITEMAP, hints=hints
        )
        return link, self._scope.seed_refusal(url)

    def _listed_list(self, index: Link, said: Hints, entry: Entry) -> tuple[Link, Reason | None] | None:
        hints = Hints(lastmod=entry.lastmod, source="index", site=said.site, nested=said.nested + 1)
        judged = self._list(entry.url, index.url, hints)
        if judged is None:
            return None
        link, reason = judged
        if hints.nested > _MOST_NESTED:
            reason = Reason(reasons.SITEMAP_NESTED, f"{hints.nested} indexes lead to it")
        elif not _speaks_for(link.host, said.site, index.host):
            reason = _foreign(index, link)
        return link, reason

    def _listed_pages(
        self, sitemap: Link, said: Hints, entry: Entry, source: str
    ) -> Iterator[tuple[Link, Reason | None] | None]:
        hints = Hints(
            lastmod=entry.lastmod, priority=entry.priority, changefreq=entry.changefreq, source=source
        )
        yield self._page(entry.url, sitemap, said, hints)
        for href in entry.alternates:
            yield self._page(href, sitemap, said, Hints(source=source))

    def _page(self, href: str, sitemap: Link, said: Hints, hints: Hints) -> tuple[Link, Reason | None] | None:
        forms = urls.link(href, sitemap.url, self._settings.urls)
        if forms is None:
            return None
        url, key, host = forms
        link = Link(url=url, key=key, host=host, depth=_DEPTH, parent=sitemap.url, hints=hints)
        reason = self._scope.refusal(url, _DEPTH, host, listed=True)
        if reason is None and not _speaks_for(host, said.site):
            reason = _foreign(sitemap, link)
        return (self._placed(link), None) if reason is None else (link, reason)


def _speaks_for(host: str, *sites: str) -> bool:
    """Whether a sitemap of these sites may list something of a host. Named by a person (""), it may list anything."""
    if not sites[0] or host in sites:
        return True
    domain = urls.registrable_domain(host)
    return any(urls.registrable_domain(site) == domain for site in sites)


def _foreign(sitemap: Link, link: Link) -> Reason:
    return Reason(reasons.SITEMAP_HOST, f"{sitemap.url} does not speak for {link.host}")


# ------------------------------------------------------------------------------------------------ reading


async def read(
    link: Link,
    exchange: Exchange,
    lists: Lists,
    store: Store,
    limit: int,
    in_hand: Callable[[bool], None],
) -> Listed:
    """Read a sitemap to its end, and store what it lists. The event loop gets a turn after every piece.

    `in_hand` is told while untrusted bytes go through C code.
    """
    reader, size = SitemapReader(), 0
    waiting: list[Entry] = []
    large = len(exchange.body) > _LARGE
    digest = await asyncio.to_thread(_digest, exchange) if large else _digest(exchange)
    content = pieces.content(exchange)
    while not reader.done:
        with _held(in_hand):
            piece = next(content, None)
            if piece is None:
                waiting += reader.close()
            else:
                size += len(piece)
                waiting += reader.feed(piece[: len(piece) - max(0, size - limit)])
        if size >= limit:
            reader.stop(f"only its first {limit} bytes are read")
        while len(waiting) >= _AT_ONCE:
            await store(*lists.entries(link, _taken(waiting), reader.kind))
        await asyncio.sleep(0)
    while waiting:
        await store(*lists.entries(link, _taken(waiting), reader.kind))
    if exchange.rest is not None:
        exchange.rest.close()
    return Listed(reader.kind, reader.count, min(size, limit), digest, reader.problem)


def _taken(entries: list[Entry]) -> list[Entry]:
    """Entries to judge together: one that names its page in other languages counts for each of them."""
    number = weight = 0
    while number < len(entries) and weight < _AT_ONCE:
        weight += 1 + len(entries[number].alternates)
        number += 1
    taken, entries[:] = entries[:number], entries[number:]
    return taken


@contextmanager
def _held(in_hand: Callable[[bool], None]) -> Iterator[None]:
    in_hand(True)  # noqa: FBT003
    try:
        yield
    finally:
        in_hand(False)  # noqa: FBT003


def _digest(exchange: Exchange) -> str:
    return sha1_of(pieces.payload(exchange)).decode()


def lists_nothing(sitemap: Link, page: Page | None) -> str:
    """What to tell whoever named a sitemap by hand, if nothing is in it; empty if there is something."""
    if sitemap.parent or page is None or page.links_count:
        return ""
    why = page.ignored or ("" if page.status < 400 else f"the server answered {page.status}")
    return f"the sitemap {sitemap.url} lists nothing{': ' if why else ''}{why}"

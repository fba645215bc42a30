"""From a finished visit to its commit: finished visits wait for each other, and pass the last stages together.

The first visit that finishes opens a window; at its end, all visits finished by then are settled. If a commit is a
network round trip, the shards of a worker share one window and one round trip. No visit waits in vain: the batch is
settled at once if it is large enough, or if no shard has a visit in flight or a host that is about to be free.

The last stages are: parse the answer, check its links, find duplicates, build the archive records. A whole group of
visits passes each stage in a row. Nothing is written here.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from skitter import schedule, urls
from skitter.dedup.digest import payload_digest
from skitter.links import terms
from skitter.links.assets import kind_of
from skitter.model import Document, Failed, Fault, Fetched, Link, Page, Purpose, Reason, Settlement
from skitter.parse import described, parse, parse_asset
from skitter.parse.anchors import telling
from skitter.parse.frames import Read
from skitter.ports import Packed, Twin
from skitter.visit import Finished, Stations, as_rendered

_LONG = 0.05  # seconds that a group may block the event loop
# What takes longer than that is done in pieces, or in a thread if it is one call of C code.
_MANY_LINKS = 1_000  # judged at once: 5 ms if all are new
_LARGE = 256 * 1024  # bytes of an answer packed at once: 0.5 ms, and a group may have 64 of them
_MUCH_MARKUP = 2**20  # bytes read once more for the texts of its links: 50 ms
_LONG_TEXT = 2 * 2**20  # characters hashed at once: 20 ms
_LONGEST_VALIDATOR = 1000  # characters of an ETag or Last-Modified; real ones have fewer than 100


# ------------------------------------------------------------------------------------------------ when


class Batched(Protocol):
    """A shard, as its batching sees it."""

    def more_comes(self, within: float) -> bool:
        """Whether more visits may finish within this many seconds."""
        ...

    def commit(self) -> None:
        """Settle what has finished."""
        ...


class Batching:
    """Decides when shards settle their finished visits."""

    def __init__(self, seconds: float, enough: int, *, can_hurry: bool = False) -> None:
        """A finished visit waits up to `seconds` for others, until there are enough or one is urgent (`can_hurry`)."""
        self._seconds, self._enough, self._can_hurry = seconds, enough, can_hurry
        self._waiting = 0  # visits
        self._shards: list[Batched] = []
        self._window: asyncio.TimerHandle | None = None

    def join(self, shard: Batched) -> None:
        """A shard starts to work."""
        self._shards.append(shard)

    def leave(self, shard: Batched) -> None:
        """A shard has stopped: nobody waits for its visits."""
        self._shards.remove(shard)

    def finished(self, *, urgent: bool = False) -> None:
        """A visit has finished. It is urgent if something waits for it; a round trip is too expensive for that."""
        self._waiting += 1
        loop = asyncio.get_running_loop()
        if self._window is None:
            self._window = loop.call_later(self._seconds, self._settle)
        left = self._window.when() - loop.time()
        worth_it = self._waiting >= self._enough or (urgent and self._can_hurry)
        if worth_it or not any(each.more_comes(left) for each in self._shards):
            self._settle()

    def _settle(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._waiting = 0
        for shard in self._shards:
            shard.commit()


# ------------------------------------------------------------------------------------------------ a group


async def complete(group: Sequence[Finished], at: Stations) -> tuple[list[Settlement], list[Packed | None]]:
    """The last stages: parse the answers, find duplicates, build the archive records.

    A group passes each of them in a row. One visit at a time, with other work in between, they would find
    cold CPU caches and cost up to twice as much.
    """
    group = await _all_opened(group, at)
    compared = await _compared(group, at)
    packs: list[Packed | None] = []
    for finished, (page, twin) in zip(group, compared, strict=True):
        exchange = finished.settlement.exchange
        if not finished.archived or exchange is None:
            packs.append(None)
            continue
        before = _so_far(finished, page) or twin
        if finished.rendering is not None:
            packed = await asyncio.to_thread(at.archive.pack, exchange, page, None, finished.rendering)
            packs.append(packed)
        elif len(exchange.body) <= _LARGE:
            packs.append(at.archive.pack(exchange, page, before))
        else:
            packs.append(await asyncio.to_thread(at.archive.pack, exchange, page, before))
    settlements = [
        finished.settlement if page is None else replace(finished.settlement, page=_kept(finished, page))
        for finished, (page, _) in zip(group, compared, strict=True)
    ]
    return settlements, packs


async def _all_opened(group: Sequence[Finished], at: Stations) -> list[Finished]:
    """Parse all answers.

    Large ones take long, so the event loop gets a turn in between, and the parent sees us alive.
    """
    read = []
    had_a_turn = at.clock.monotonic()
    for finished in group:
        read.append(await opened(finished, at))
        if at.clock.monotonic() > had_a_turn + _LONG:
            await asyncio.sleep(0)
            had_a_turn = at.clock.monotonic()
    return read


async def _compared(group: Sequence[Finished], at: Stations) -> list[tuple[Page | None, Twin | None]]:
    """Each page with the page it duplicates, and its twin if the payload is identical."""
    hashed = await _hashed(group, at)
    rendered = any(finished.rendering is not None for finished in group)
    if rendered:
        hashed = [_by_text(*each) for each in zip(group, hashed, strict=True)]
    good = [page for page in hashed if page is not None and 200 <= page.status < 300 and _is_compared(page)]
    twins = dict(zip(map(id, good), await at.duplicates.claim(good), strict=True))
    if at.links.assets.wanted:
        twins |= {
            id(page): at.duplicates.claim_asset(page)
            for page in hashed
            if page is not None and page.purpose is Purpose.ASSET and 200 <= page.status < 300
        }
    found = [_repeating(page, twins.get(id(page))) for page in hashed]
    return [_compared_by_text(*each) for each in zip(group, found, strict=True)] if rendered else found


async def _hashed(group: Sequence[Finished], at: Stations) -> list[Page | None]:
    """Each page with its SimHash. A parser process has hashed what it read."""
    hashed: list[Page | None] = []
    some: list[Page | None] = []
    length = 0
    for finished in group:
        page = finished.settlement.page
        if finished.read is not None:
            hashed += at.duplicates.hashed(some)
            hashed.append(page)
            some, length = [], 0
            continue
        some.append(page)
        length += 0 if page is None else len(page.text)
        if length > _LONG_TEXT:
            hashed += at.duplicates.hashed(some)
            some, length = [], 0
            await asyncio.sleep(0)
    return [*hashed, *at.duplicates.hashed(some)]


def _by_text(finished: Finished, page: Page | None) -> Page | None:
    """A rendered page is compared by what it became: the answers to all pages of a site may be the same."""
    if page is None or finished.rendering is None or not finished.rendering.html:
        return page
    return replace(page, digest=payload_digest(finished.rendering.html))


def _compared_by_text(
    finished: Finished, found: tuple[Page | None, Twin | None]
) -> tuple[Page | None, Twin | None]:
    """A rendered page has the digest of its answer again, and its answer is archived whatever it repeats."""
    page = found[0]
    if page is None or finished.rendering is None or finished.settlement.page is None:
        return found
    return replace(page, digest=finished.settlement.page.digest, identical=False), None


def _is_compared(page: Page) -> bool:
    return page.purpose.handling.compared


def _repeating(page: Page | None, twin: Twin | None) -> tuple[Page | None, Twin | None]:
    if page is None or twin is None or twin.url == page.url:  # a recrawl repeats itself
        return page, None
    identical = twin.digest == page.digest
    return replace(page, duplicate_of=twin.url, identical=identical), twin if identical else None


def _so_far(finished: Finished, page: Page | None) -> Twin | None:
    """After a recrawl that found nothing new: the page so far, which the archive refers to instead of its body."""
    stored = finished.stored
    if stored is None or (page is not None and page.digest != stored.digest):
        return None
    return Twin(stored.url, stored.fetched_at, stored.digest, stored.simhash, stored.archive)


def _kept(finished: Finished, page: Page) -> Page:
    """The page to store. An unchanged one keeps its place in the archive, and the time it was fetched there."""
    stored = finished.stored
    if stored is None or page.digest != stored.digest:
        return page
    return replace(
        page,
        fetched_at=stored.fetched_at,
        archive=stored.archive,
        duplicate_of=stored.duplicate_of,
        identical=False,
    )


# ------------------------------------------------------------------------------------------------ one page


async def opened(finished: Finished, at: Stations) -> Finished:
    """Parse the answer, if there is one, and check its links."""
    fetched, settlement = finished.unread, finished.settlement
    if fetched is None:
        return finished
    visit, verdict = settlement.visit, settlement.verdict
    document = _document(finished, fetched, at)
    if isinstance(document, Failed):
        failed = schedule.verdict(
            visit, document, verdict.host_delay or 0.0, at.settings, at.clock.now(), 0.0
        )
        return Finished(replace(settlement, verdict=failed))

    if finished.listed is not None:
        listed = finished.listed
        page = replace(
            _page(visit.link, fetched, document, listed.count),
            size=listed.size,
            digest=listed.digest,
            ignored=listed.problem,
        )
        return Finished(replace(settlement, page=page), archived=True, stored=finished.stored)
    # Links on an error page are its template's; the page itself does not exist.
    followed = fetched.status < 400 and visit.link.purpose is not Purpose.ASSET
    if at.links.words and document.charset and len(fetched.content) <= _MUCH_MARKUP:
        document = replace(document, anchors=telling(fetched.content, document.charset, at.links.words))
    wanted, refused = await _found(visit.link, document, at) if followed else ([], [])
    page = _page(visit.link, fetched, document, len(wanted) + len(refused))
    if isinstance(finished.read, Read):
        page = replace(page, simhash=finished.read.simhash)
    if at.recrawls(visit.link.url):
        settlement, document = _with_gist(settlement, document, at)
    if document.media or document.content:
        page = replace(page, media=document.media, content=document.content)
    if finished.statements or document.statements or document.alternates:
        page = _saying(page, finished, document)
    if at.link_filter is not None and wanted:
        wanted, unwanted = at.link_filter(page, fetched, document, wanted)
        refused += unwanted
    if document.licences and terms.are_wanted(at.settings):
        wanted += terms.of_page(page.url, document.licences, at.settings, at.scope, page.depth)
    if document.assets and fetched.status < 400:
        at.links.assets.add(visit.link, document, wanted, refused)
    settlement = replace(settlement, page=page, links=wanted, refused=refused)
    return Finished(
        settlement,
        archived=True,
        read=finished.read,
        stored=finished.stored,
        rendering=finished.rendering,
    )


def _with_gist(settlement: Settlement, document: Document, at: Stations) -> tuple[Settlement, Document]:
    """With a digest of what it says, to compare it with the next answer. Its content is kept only if settings ask for it."""
    from skitter.parse.main.stamps import gist  # noqa: PLC0415  only where pages are fetched again

    kept = at.settings_of(settlement.visit.link.url).parse.main
    return replace(settlement, gist=gist(document)), document if kept else replace(document, content=None)


def _document(finished: Finished, fetched: Fetched, at: Stations) -> Document | Failed:
    """What the answer says: read now, or by a parser process before; with the links of a rendered page."""
    visit, rendering = finished.settlement.visit, finished.rendering
    if finished.read is None:
        shown = fetched if rendering is None else as_rendered(fetched, rendering)
        at.frontier.in_hand(visit)  # from here to the line after next, untrusted bytes go through C code
        document = _read(visit.link, shown, at)
        at.frontier.in_hand(None)
    elif isinstance(finished.read, Read):
        document = finished.read.document
    else:
        document = _unread(visit.link, fetched, finished.read.detail, at)
    if rendering is not None and rendering.hrefs and isinstance(document, Document):
        return replace(document, links=[*document.links, *rendering.hrefs])
    return document


async def _found(
    link: Link, document: Document, at: Stations
) -> tuple[list[Link], list[tuple[Link, Reason]]]:
    """The links of a page: (wanted, refused). While there are many to judge, the event loop gets turns."""
    if len(document.links) + len(document.nofollow) <= _MANY_LINKS:
        return at.links.found(link, document)
    wanted, refused = [], []
    for part in _parts(document):
        some_wanted, some_refused = at.links.found(link, part)
        wanted += some_wanted
        refused += some_refused
        await asyncio.sleep(0)
    return wanted, refused


def _parts(document: Document) -> Iterator[Document]:
    """The same document several times, each with some of its links."""
    for start in range(0, len(document.links), _MANY_LINKS):
        yield replace(document, links=document.links[start : start + _MANY_LINKS], nofollow=())
    for start in range(0, len(document.nofollow), _MANY_LINKS):
        yield replace(document, links=(), nofollow=document.nofollow[start : start + _MANY_LINKS])


def _read(link: Link, fetched: Fetched, at: Stations) -> Document | Failed:
    read = parse if link.purpose.handling.parsed else described
    try:
        rules = at.parse_rules(link.url)
        if read is described and at.links.assets.reads(link):
            return parse_asset(link.url, fetched.headers, fetched.content, rules, kind_of(link))
        return read(link.url, fetched.headers, fetched.content, rules)
    except Exception as error:  # noqa: BLE001  a parser's bug costs one page, is recorded with its name, and ends there
        return Failed(Fault.PARSER, f"{type(error).__name__}: {error}", fetched.exchange)


def _unread(link: Link, fetched: Fetched, why: str, at: Stations) -> Document | Failed:
    """A parser process has failed. An asset is kept all the same, and what it needs itself stays unknown."""
    if link.purpose is not Purpose.ASSET:
        return Failed(Fault.PARSER, why, fetched.exchange)
    return replace(described(link.url, fetched.headers, fetched.content, at.settings.parse), ignored=why)


def _page(link: Link, fetched: Fetched, document: Document, links_count: int) -> Page:
    return Page(
        url=link.url,
        requested_url=link.requested or link.url,
        key=link.key,
        host=link.host,
        domain=urls.registrable_domain(link.host),
        status=fetched.status,
        fetched_at=fetched.exchange.started,
        depth=link.depth,
        parent=link.parent,
        content_type=document.media_type,
        charset=document.charset,
        headers=fetched.headers,
        size=len(fetched.content),
        title=document.title,
        description=document.description,
        author=document.author,
        keywords=document.keywords,
        language=document.language,
        text=document.text,
        digest=payload_digest(fetched.payload),
        canonical=document.canonical,
        robots=document.directives,
        etag=_validator(fetched.headers, "etag"),
        last_modified=_validator(fetched.headers, "last-modified"),
        links_count=links_count,
        ignored=document.ignored,
        meta=link.meta,
        purpose=link.purpose,
    )


def _saying(page: Page, finished: Finished, document: Document) -> Page:
    """The page with what is said about its uses, and where it is in other languages. Few pages say any of it."""
    own = (replace(one, at=page.fetched_at) for one in document.statements)
    found = (document.alternates or {}).items()
    elsewhere = {language: url for language, href in found if (url := urls.resolve(href, document.base))}
    return replace(page, statements=(*finished.statements, *own), alternates=elsewhere or None)


def _validator(headers: Sequence[tuple[str, str]], name: str) -> str:
    """A validator as sent; a part of an overlong one would be another."""
    value = header(headers, name)
    return value if len(value) <= _LONGEST_VALIDATOR else ""


def header(headers: Sequence[tuple[str, str]], name: str) -> str:
    """The first header field of that name."""
    for field_name, value in headers:
        if field_name == name:
            return value
    return ""

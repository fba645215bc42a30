"""One visit, end to end. Read this first.

    lease -> robots and budget -> fetch -> verdict | parse -> page -> links -> duplicate? -> settlement

A visit never writes anything: it returns its settlement and its archive records, and the shard's one
committer makes them durable together. `make` covers everything that waits: for the network, and for a parser
process if a document is slow to read; `complete` then takes a whole group of visits through each later stage
in a row. The web's failures are outcomes; only a parser may raise, and that fails one page.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from skitter import politeness, reasons, robots, schedule, urls
from skitter.dedup.digest import payload_digest
from skitter.dedup.twins import Duplicates
from skitter.fetch.request import conditions
from skitter.links import LinkJudge
from skitter.links.filter import LinkFilter
from skitter.metrics import RequestMetrics
from skitter.model import (
    Document,
    Exchange,
    Failed,
    Fault,
    Fetched,
    Link,
    NotModified,
    NotNow,
    Outcome,
    Page,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
    Settlement,
    State,
    Verdict,
    Visit,
    handling,
)
from skitter.parse import described, is_slow, parse
from skitter.parse.frames import Read, Trouble
from skitter.parse.pool import ParserPool
from skitter.ports import Archive, Clock, Fetcher, Frontier, Packed, Twin
from skitter.robots.in_force import Permissions
from skitter.scope import Scope
from skitter.settings import Settings

# A moved robots.txt is requested again from its first address if its next hop has brought nothing for this
# long. Hops come before pages, but thousands of names may redirect to the same host, which answers them one
# by one.
_HOP_PATIENCE = 3600.0
_LONG = 0.05  # seconds that a group may block the event loop
# What takes longer than that is done in pieces, or in a thread if it is one call of C code.
_MANY_LINKS = 1_000  # judged at once: 5 ms if all are new
_LARGE = 256 * 1024  # bytes of an answer packed at once: 0.5 ms, and a group may have 64 of them
_LONG_TEXT = 2 * 2**20  # characters hashed at once: 20 ms
# If no page of an origin is wanted now, its robots.txt is not fetched for this long; its waiting pages are
# checked meanwhile.
_UNASKED = 1.0
_LONGEST_VALIDATOR = 1000  # characters of an ETag or Last-Modified; real ones have fewer than 100
_NO_ROBOTS = Reason(reasons.ROBOTS_WAIT, "waits for the robots.txt of its origin, which could not be fetched")


class Finished(Struct, frozen=True):
    """A finished visit that is not durable yet: what to settle, the answer if it still has to be parsed, and
    its archive records."""

    settlement: Settlement
    unread: Fetched | None = None
    archived: bool = False
    read: Read | Trouble | None = None  # by a parser process, if parsing takes long
    stored: Page | None = None  # of a recrawl: the page so far


class Shared(Struct, frozen=True, kw_only=True):
    """Stages shared by all shards of a process."""

    settings: Settings
    fetcher: Fetcher
    scope: Scope
    links: LinkJudge
    clock: Clock
    judge_again: bool = False  # waiting links may have been accepted under other settings
    roots_after: float = 0.0  # seconds until roots found elsewhere are known here
    link_filter: LinkFilter | None = None  # passed in by a program; the command line has none
    requests: RequestMetrics = field(default_factory=RequestMetrics)  # of this process
    parsers: ParserPool | None = None  # for documents that take long; without it, they are parsed like others


class Stations(Shared, frozen=True, kw_only=True):
    """The parts that a visit uses. Wired once per shard, in compose."""

    frontier: Frontier
    archive: Archive
    permissions: Permissions
    duplicates: Duplicates
    dice: random.Random = field(default_factory=random.Random)

    def jitter(self) -> float:
        """A number between -1 and 1."""
        return self.dice.uniform(-1, 1)


async def make(visit: Visit, at: Stations) -> Finished:
    """Make one visit."""
    if not handling(visit.link.purpose).asks_robots:
        return await _fetch_robots(visit, at)
    if at.judge_again and (outdated := at.links.refusal_now(visit.link)):
        return _dropped(visit, outdated, at)
    if at.parsers is not None and at.parsers.full:
        await at.parsers.room()

    origin = urls.origin(visit.link.url)
    renewals = at.permissions.renewals
    robots_txt = await at.permissions.in_force(origin)
    if robots_txt.held and robots_txt.held > at.clock.now():
        return _postponed(visit, robots_txt.held)
    refusal = robots_txt.refusal(visit.link.url)
    if refusal is None and handling(visit.link.purpose).counts:
        refusal = at.scope.budget_refusal(visit.host_pages)
    stored = await _to_compare(visit.link, at) if visit.recrawl else None
    validators = conditions(stored) if stored else ()
    outcome: Outcome = Refused(refusal) if refusal else await at.fetcher.fetch(visit, validators)

    if at.permissions.renewals != renewals:
        robots_txt = await at.permissions.in_force(origin)
    owed = politeness.owed(robots_txt.rules, at.settings.politeness)
    verdict = schedule.verdict(visit, outcome, owed, at.settings, at.clock.now(), at.jitter())
    if not isinstance(outcome, NotNow):
        at.links.visited(visit.link)
    if isinstance(outcome, Redirected):
        return _follow(visit, outcome, verdict, at)
    settlement = Settlement(
        visit=visit, verdict=verdict, exchange=exchange_of(outcome), status=status_of(outcome)
    )
    if isinstance(outcome, Fetched) and verdict.state is State.CRAWLED:
        read = None
        if at.parsers is not None and handling(visit.link.purpose).parsed:
            # What takes long is read by a parser process, before the commit: the committer never waits for it.
            document = visit.link.url, outcome.headers, outcome.content
            read = await at.parsers.read(*document) if is_slow(*document, at.settings.parse) else None
        return Finished(settlement, unread=outcome, stored=stored, read=read)
    unchanged = isinstance(outcome, NotModified) and bool(validators)  # the stored page stays as it is
    return Finished(settlement, stored=stored if unchanged else None, archived=unchanged)


async def _to_compare(link: Link, at: Stations) -> Page | None:
    """The page stored for a URL, if its body is in the archive: only then may the next answer do without one."""
    page = await at.frontier.page(link.key, link.host)
    if page is None or page.url != link.url or page.purpose is not link.purpose:
        return None
    return page if page.status == 200 and page.archive is not None and not page.identical else None


def _dropped(visit: Visit, reason: Reason, at: Stations) -> Finished:
    """The settings of this run no longer want this waiting link: nothing is sent, and the host's clock does not
    change.
    """
    if at.roots_after and at.links.may_have_a_root(visit.link, reason):
        wait = Reason(
            reasons.SCOPE_WAIT, "waits for news of the seeds: it may be in scope by one that is new"
        )
        return _postponed(visit, at.clock.now() + at.roots_after, wait)
    at.links.dropped += 1
    at.links.visited(visit.link)
    verdict = Verdict(state=State.REFUSED, reason=reason, attempted=False)
    return Finished(Settlement(visit=visit, verdict=verdict))


def _postponed(visit: Visit, until: float, reason: Reason = _NO_ROBOTS) -> Finished:
    """If its robots.txt could not be fetched, the page waits for the next try. Other origins of its host carry on."""
    verdict = Verdict(state=State.QUEUED, due=until, reason=reason, attempted=False)
    return Finished(Settlement(visit=visit, verdict=verdict))


# ------------------------------------------------------------------------------------------------ a page


async def opened(finished: Finished, at: Stations) -> Finished:
    """Parse the answer, if there is one, and check its links."""
    fetched, settlement = finished.unread, finished.settlement
    if fetched is None:
        return finished
    visit, verdict = settlement.visit, settlement.verdict
    if finished.read is None:
        at.frontier.in_hand(visit)  # from here to the line after next, untrusted bytes go through C code
        document = _read(visit.link, fetched, at)
        at.frontier.in_hand(None)
    elif isinstance(finished.read, Read):
        document = finished.read.document
    else:
        document = Failed(Fault.PARSER, finished.read.detail, fetched.exchange)
    if isinstance(document, Failed):
        failed = schedule.verdict(
            visit, document, verdict.host_delay or 0.0, at.settings, at.clock.now(), 0.0
        )
        return Finished(replace(settlement, verdict=failed))

    # Links on an error page are its template's; the page itself does not exist.
    wanted, refused = await _found(visit.link, document, at) if fetched.status < 400 else ([], [])
    page = _page(visit.link, fetched, document, len(wanted) + len(refused))
    if isinstance(finished.read, Read):
        page = replace(page, simhash=finished.read.simhash)
    if at.link_filter is not None and wanted:
        wanted, unwanted = at.link_filter(page, fetched, document, wanted)
        refused += unwanted
    settlement = replace(settlement, page=page, links=wanted, refused=refused)
    return Finished(settlement, archived=True, read=finished.read, stored=finished.stored)


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
    read = parse if handling(link.purpose).parsed else described
    try:
        return read(link.url, fetched.headers, fetched.content, at.settings.parse)
    except Exception as error:  # noqa: BLE001  a parser's bug costs one page, is recorded with its name, and ends there
        return Failed(Fault.PARSER, f"{type(error).__name__}: {error}", fetched.exchange)


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
        if len(exchange.body) <= _LARGE:
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
    good = [page for page in hashed if page is not None and 200 <= page.status < 300 and _is_compared(page)]
    twins = dict(zip(map(id, good), await at.duplicates.claim(good), strict=True))
    return [_repeating(page, twins.get(id(page))) for page in hashed]


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


def _is_compared(page: Page) -> bool:
    return handling(page.purpose).compared


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


# ------------------------------------------------------------------------------------------------ a redirect


def _follow(visit: Visit, outcome: Redirected, verdict: Verdict, at: Stations) -> Finished:
    """A redirect is not followed recursively: its target is a link that goes through scope, robots, politeness
    and the guard.
    """
    settlement = Settlement(visit=visit, verdict=verdict, exchange=outcome.exchange, status=outcome.status)
    judged = at.links.redirected(visit.link, outcome.target) if outcome.target else None
    if judged is None:
        reason = Reason(
            reasons.REDIRECT_TARGET, f"redirects to {outcome.location[:200]!r}, which cannot be visited"
        )
        settlement = replace(settlement, verdict=replace(verdict, state=State.REFUSED, reason=reason))
    else:
        settlement = _hop(settlement, *judged, at)
    return Finished(settlement, archived=True)


def _hop(settlement: Settlement, hop: Link, refusal: Reason | None, at: Stations) -> Settlement:
    link, verdict, limit = settlement.visit.link, settlement.verdict, at.settings.fetch.max_redirects
    same_key = hop.key == link.key
    if link.hops >= limit:
        refusal = Reason(reasons.REDIRECTS, f"more than {limit} redirects (fetch.max_redirects)")
        verdict = replace(verdict, state=State.FAILED, reason=refusal)
    else:
        verdict = replace(
            verdict, reason=Reason(reasons.REDIRECT, f"redirects ({settlement.status}) to {hop.url}")
        )
    if refusal is not None:
        return replace(settlement, verdict=verdict, refused=() if same_key else [(hop, refusal)])
    if (
        same_key
    ):  # only the spelling changes (slash, scheme, session id): the same record with a new fetched form
        return replace(settlement, verdict=replace(verdict, state=State.QUEUED), again=hop)
    return replace(settlement, verdict=verdict, links=[hop])


# ------------------------------------------------------------------------------------------------ a robots.txt


async def _fetch_robots(visit: Visit, at: Stations) -> Finished:
    """A robots.txt is a visit of its own, leased before any page of its origin."""
    link = visit.link
    if at.judge_again and at.links.page_refusal_now(link):
        return await _robots_unasked(visit, at)
    outcome = await at.fetcher.fetch(visit)
    now = at.clock.now()
    if isinstance(outcome, NotNow):
        return await _robots_later(visit, outcome, at)
    asked = _asked_to_wait(outcome, now)
    answer = robots.RobotsAnswer(origin=link.origin, outcome=outcome, hops=link.hops, retry_after=asked)
    previous = await at.frontier.robots(link.origin)
    meaning = robots.judge(answer, previous, at.settings.robots, now, at.jitter())
    if status_of(outcome) == 429 and meaning.copy:  # 429 applies to the whole host
        asked = max(asked or 0.0, meaning.copy.held - now)

    # The answering host may differ from the origin's and have its own rules, and old rules apply while new
    # ones are read.
    own = (await at.permissions.in_force(urls.origin(link.url))).rules
    rules = await at.permissions.renew(meaning.copy) if meaning.copy else None
    owed = max(politeness.owed(rules, at.settings.politeness), politeness.owed(own, at.settings.politeness))
    exchange = exchange_of(outcome)
    verdict = Verdict(
        state=State.CRAWLED,
        due=await _hop_expected(meaning.follow, at, now) if meaning.follow else None,
        reason=meaning.aside,
        host_free=schedule.host_free(visit, exchange, owed, at.settings, asked),
        host_delay=owed,
        host_aside=await _given_up(meaning.aside, link.origin, outcome, at)
        or politeness.too_late(asked, at.settings.politeness)
        or politeness.too_slow(rules, at.settings.politeness),
    )
    settlement = Settlement(
        visit=visit,
        verdict=verdict,
        robots=meaning.copy,
        again=_robots_hop(link, meaning.follow) if meaning.follow else None,
        exchange=exchange,
        status=status_of(outcome),
    )
    answered = exchange is not None and not isinstance(outcome, Failed)
    return Finished(settlement, archived=answered)


async def _robots_unasked(visit: Visit, at: Stations) -> Finished:
    """The page that needs it is no longer wanted. Let that one through to be refused; the others wait."""
    origin, again = visit.link.origin, at.clock.now() + _UNASKED
    known = await at.frontier.robots(origin)
    copy = replace(known or RobotsCopy(origin=origin, access="none"), expires=again, held=again)
    await at.permissions.renew(copy)
    return Finished(
        Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED, attempted=False), robots=copy)
    )


async def _robots_later(visit: Visit, outcome: NotNow, at: Stations) -> Finished:
    """It may not be sent yet. The pages of its origin wait for it; nothing counts as tried.

    A robots.txt does not wait with the pages of the host that it is on, so the clock of that host says when. The hop of
    a moved one is queued again as it is: nobody else knows of it.
    """
    link, until = visit.link, outcome.until
    verdict = Verdict(
        state=State.QUEUED,
        due=await _hop_expected(link.url, at, until) if link.hops else until,
        reason=outcome.reason,
        attempted=False,
        host_free=until,
        host_held=until,
    )
    return Finished(Settlement(visit=visit, verdict=verdict, again=link if link.hops else None))


def _asked_to_wait(outcome: Outcome, now: float) -> float | None:
    if isinstance(outcome, Fetched) and schedule.unwilling(outcome.status):
        return politeness.retry_after(outcome.headers, now)
    return None


async def _given_up(aside: Reason | None, origin: str, outcome: Outcome, at: Stations) -> Reason | None:
    """A host is given up together with its origin, unless it serves other origins (a stray link to https, or
    to a mail port).

    Nothing of this origin is allowed then, and its pages are refused one by one.
    """
    if aside is None or (isinstance(outcome, Refused) and outcome.reason.code != reasons.ADDRESS):
        return None
    host = await at.frontier.host(urls.host(origin))
    return None if host is not None and host.pages else aside


async def _hop_expected(target: str, at: Stations, now: float) -> float:
    """When a moved robots.txt should have arrived, wherever it is: its new host may be busy, or have asked for a
    delay.
    """
    host = await at.frontier.host(urls.host(target))
    return max(now, host.free_at if host else 0.0) + _HOP_PATIENCE


def _robots_hop(link: Link, target: str) -> Link:
    return replace(link, url=target, key=target, host=urls.host(target), hops=link.hops + 1)


# ------------------------------------------------------------------------------------------------ small questions


def exchange_of(outcome: Outcome) -> Exchange | None:
    """What was sent and received, if anything was."""
    return None if isinstance(outcome, Refused | NotNow) else outcome.exchange


def status_of(outcome: Outcome) -> int:
    """The status code of the answer; 0 without one."""
    match outcome:
        case Fetched(_, status) | Redirected(_, status):
            return status
        case Refused() | Failed() | NotNow():
            return 0
        case _:
            return 304


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

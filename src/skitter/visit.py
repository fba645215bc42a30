"""One visit, end to end. Read this first.

    make:      lease -> robots and budget -> fetch -> verdict
    complete:  parse -> page -> links -> duplicate? -> settlement

A visit returns its settlement and its archive records, and the shard's one committer makes them durable
together; only the entries of a sitemap are stored while it is read. `make` covers everything that waits: for
the network, and for a parser process if a document is slow to read; `crawl/completing.py` then takes a whole group of visits through each
later stage in a row. The web's failures are outcomes; only a parser may raise, and that fails one page.
"""

import random
from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from skitter import politeness, reasons, robots, schedule, urls
from skitter.dedup.twins import Duplicates
from skitter.fetch.request import conditions
from skitter.links import LinkJudge, listing, terms
from skitter.links.assets import kind_of
from skitter.links.filter import LinkFilter
from skitter.links.listing import Listed
from skitter.links.scope import Scope
from skitter.model import (
    Document,
    Exchange,
    Failed,
    Fetched,
    Link,
    NotModified,
    NotNow,
    Outcome,
    Page,
    Reason,
    Redirected,
    Refused,
    Rendering,
    RobotsCopy,
    Settlement,
    Spent,
    State,
    Statement,
    Verdict,
    Visit,
)
from skitter.parse import is_slow
from skitter.parse.frames import Read, Trouble
from skitter.parse.pool import ParserPool
from skitter.politeness.gate import Gate
from skitter.politeness.groups import GroupBudgets
from skitter.politeness.hours import Hours, all_hours, never
from skitter.ports import Accounts, Archive, Clock, Fetcher, Frontier, Renderer, Renderers
from skitter.reporting.measuring import Measuring
from skitter.robots.in_force import InForce, Permissions
from skitter.settings import Settings
from skitter.settings.sites import Sites

# A moved robots.txt is requested again from its first address if its next hop has brought nothing for this
# long. Hops come before pages, but thousands of names may redirect to the same host, which answers them one
# by one.
_HOP_PATIENCE = 3600.0
# If no page of an origin is wanted now, its robots.txt is not fetched for this long; its waiting pages are
# checked meanwhile.
_UNASKED = 1.0
_NO_ROBOTS = Reason(reasons.ROBOTS_WAIT, "waits for the robots.txt of its origin, which could not be fetched")


class Finished(Struct, frozen=True):
    """A finished visit that is not durable yet: what to settle, the answer if it still has to be parsed, and
    its archive records."""

    settlement: Settlement
    unread: Fetched | None = None
    archived: bool = False
    read: Read | Trouble | None = None  # by a parser process, if parsing takes long
    stored: Page | None = None  # of a recrawl: the page so far
    listed: Listed | None = None  # by a sitemap or feed, which was read while it was fetched
    statements: Sequence[Statement] = ()  # what robots.txt says about uses of the page
    rendering: Rendering | None = None  # what became of the page in a browser, if it needs one


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
    measuring: Measuring = field(default_factory=Measuring)  # of this process
    accounts: Accounts | None = None  # what all shards have used of the budgets of groups
    begun: Callable[[], None] | None = None  # told when somebody else may have sent requests before
    gate: Gate | None = None  # holds back the whole crawl; few have one
    hours: Hours | None = None  # windows that differ from URL to URL
    parsers: ParserPool | None = None  # for documents that take long; without it, they are parsed like others
    sites: Sites | None = None  # settings of single sites
    renderers: Renderers | None = None  # browsers; most crawls have none

    def settings_of(self, url: str) -> Settings:
        """The settings that hold for a URL."""
        return self.settings if self.sites is None else self.sites.of(url)


class Stations(Shared, frozen=True, kw_only=True):
    """The parts that a visit uses. Wired once per shard, in compose."""

    frontier: Frontier
    archive: Archive
    permissions: Permissions
    duplicates: Duplicates
    groups: GroupBudgets | None = None  # budgets that all shards share
    renderer: Renderer | None = None  # for pages that need JavaScript
    dice: random.Random = field(default_factory=random.Random)

    def jitter(self) -> float:
        """A number between -1 and 1."""
        return self.dice.uniform(-1, 1)


async def make(visit: Visit, at: Stations) -> Finished:
    """Make one visit."""
    how = visit.link.purpose.handling
    if not how.asks_robots:
        return await _fetch_robots(visit, at)
    spent = visit.spent if at.groups is None else await _spent(visit, at.groups, at)
    if (at.judge_again or at.hours or spent) and (early := _unasked(visit, spent, at)):
        return early
    if at.parsers is not None and at.parsers.full:
        await at.parsers.room()

    origin = urls.origin(visit.link.url)
    renewals = at.permissions.renewals
    robots_txt = await at.permissions.in_force(origin)
    if (robots_txt.held or robots_txt.hours) and (later := _not_yet(visit, robots_txt, at)):
        return later
    refusal = robots_txt.refusal(visit.link.url)
    if refusal is None and at.links.lists.alone:
        refusal = at.links.unlisted(visit.link)
    stored = await _to_compare(visit.link, at) if visit.recrawl else None
    validators = conditions(stored) if stored else ()
    outcome: Outcome = Refused(refusal) if refusal else await at.fetcher.fetch(visit, validators)

    if at.permissions.renewals != renewals:
        robots_txt = await at.permissions.in_force(origin)
    owed = politeness.owed(robots_txt.rules, at.settings_of(visit.link.url).politeness)
    verdict = schedule.verdict(visit, outcome, owed, at.settings, at.clock.now(), at.jitter())
    if not isinstance(outcome, NotNow):
        at.links.visited(visit.link)
    if isinstance(outcome, Redirected):
        return _follow(visit, outcome, verdict, at)
    settlement = Settlement(
        visit=visit, verdict=verdict, exchange=exchange_of(outcome), status=status_of(outcome)
    )
    if isinstance(outcome, Fetched) and verdict.state is State.CRAWLED:
        return await _read(outcome, settlement, stored, robots_txt, at)
    unchanged = isinstance(outcome, NotModified) and bool(validators)  # the stored page stays as it is
    return Finished(settlement, stored=stored if unchanged else None, archived=unchanged)


async def _spent(visit: Visit, groups: GroupBudgets, at: Stations) -> Spent | None:
    """What budgets say: those that its shard knows, and those that all shards share."""
    return visit.spent or await groups.claim(visit, at.clock.now())


def _unasked(visit: Visit, spent: Spent | None, at: Stations) -> Finished | None:
    """The settings do not want it, or not now, whatever its robots.txt says; None if they do."""
    if at.judge_again and (outdated := at.links.refusal_now(visit.link)):
        return _dropped(visit, outdated, at)
    if spent is not None and not spent.until:
        at.links.visited(visit.link)
        return _put_off(visit, Refused(spent.reason), at)
    if spent is not None:
        alike = at.sites is None or at.sites.treats_alike(visit.link.host, "budget.host_requests_per_day")
        return _put_off(visit, NotNow(spent.reason, spent.until, whole_host=alike), at)
    if at.hours is not None and (later := at.hours.not_now(visit.link, at.clock.now())):
        if isinstance(later, Refused):
            at.links.visited(visit.link)
        return _put_off(visit, later, at)
    return None


def _not_yet(visit: Visit, robots_txt: InForce, at: Stations) -> Finished | None:
    """Its robots.txt says that it has to wait, or could not be fetched; None if its time has come."""
    now, hours = at.clock.now(), robots_txt.hours
    if robots_txt.held > now:
        return _postponed(visit, robots_txt.held)
    if hours is not None and (opens := hours.closed_until(now)):
        every = all_hours(visit.link.url, at.settings, at.sites, robots_txt.rules)
        if (reason := never(every, now)) is not None:
            at.links.visited(visit.link)
            return _put_off(visit, Refused(reason), at)
        return _put_off(visit, politeness.not_at_this_hour(hours, opens), at)
    return None


def _put_off(visit: Visit, outcome: NotNow | Refused, at: Stations) -> Finished:
    """Nothing of it may be sent, or not yet."""
    verdict = schedule.verdict(visit, outcome, 0.0, at.settings, at.clock.now(), 0.0)
    return Finished(Settlement(visit=visit, verdict=verdict))


async def _to_compare(link: Link, at: Stations) -> Page | None:
    """The page stored for a URL, if its body is in the archive: only then may the next answer do without one."""
    page = await at.frontier.page(link.key, link.host)
    if page is None or page.url != link.url or page.purpose is not link.purpose:
        return None
    if page.archive is not None and page.archive.beside:  # it was rendered: its HTML alone says little
        return None
    return page if page.status == 200 and page.archive is not None and not page.identical else None


async def _read(
    answer: Fetched, settlement: Settlement, stored: Page | None, robots_txt: InForce, at: Stations
) -> Finished:
    """What takes long is done before the commit: lists, browsers, and documents that a parser process reads."""
    visit, shown = settlement.visit, answer
    url, how = visit.link.url, visit.link.purpose.handling
    read, listed, rendering = None, None, None
    if at.renderer is not None and how.parsed:
        rendering = await at.renderer.render(visit, answer)
        if rendering is not None:
            shown, stored = as_rendered(answer, rendering), None
            settlement = _with_rendering(settlement, rendering)
    if how.lists and answer.status < 400:
        listed = await _listed(visit, answer, at)
    elif at.parsers is not None and (how.parsed or at.links.assets.reads(visit.link)):
        # What takes long is read by a parser process, before the commit: the committer never waits for it.
        document, rules = (url, shown.headers, shown.content), at.settings_of(url).parse
        asset = "" if how.parsed else kind_of(visit.link)
        slow = is_slow(*document, rules, asset)
        read = await at.parsers.read(*document, rules, asset) if slow else None
    said = robots_txt.statements(url) if robots_txt.says else ()
    return Finished(
        settlement,
        unread=answer,
        stored=stored,
        read=read,
        statements=said,
        listed=listed,
        rendering=rendering,
    )


def _with_rendering(settlement: Settlement, rendering: Rendering) -> Settlement:
    """The page is stored in any case; if it could not be rendered, with what its server sent, and the reason."""
    if not rendering.problem:
        return replace(settlement, beside=rendering.requests)
    reason = settlement.verdict.reason or Reason(reasons.RENDER, f"rendering: {rendering.problem}")
    return replace(settlement, beside=rendering.requests, verdict=replace(settlement.verdict, reason=reason))


def as_rendered(answer: Fetched, rendering: Rendering) -> Fetched:
    """An answer with the HTML that a browser made of it, if it made any."""
    if not rendering.html:
        return answer
    fields = [(name, value) for name, value in answer.headers if name != "content-type"]
    fields.append(("content-type", "text/html; charset=utf-8"))
    return replace(answer, headers=fields, content=rendering.html)


async def _listed(visit: Visit, fetched: Fetched, at: Stations) -> Listed:
    """Read a sitemap or feed. What it lists is stored meanwhile, some at a time: there may be very much of it."""
    link = visit.link

    async def store(wanted: Sequence[Link], refused: Sequence[tuple[Link, Reason]]) -> None:
        if at.link_filter is not None:
            page = Page(
                url=link.url,
                requested_url=link.requested or link.url,
                key=link.key,
                host=link.host,
                domain=urls.registrable_domain(link.host),
                status=fetched.status,
                fetched_at=fetched.exchange.started,
                purpose=link.purpose,
            )
            wanted, unwanted = at.link_filter(page, fetched, Document(base=link.url), list(wanted))
            refused = [*refused, *unwanted]
        await at.frontier.add(wanted, refused, at.clock.now())

    def in_hand(held: bool) -> None:  # noqa: FBT001
        at.frontier.in_hand(visit if held else None)

    return await listing.read(
        link, fetched.exchange, at.links.lists, store, at.settings.fetch.max_sitemap, in_hand
    )


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
    spent = visit.spent if at.groups is None else await _spent(visit, at.groups, at)
    if (at.judge_again and at.links.page_refusal_now(link)) or (spent and not spent.until and not link.hops):
        return await _robots_unasked(visit, at)
    if spent is not None and spent.until:
        return await _robots_later(visit, NotNow(spent.reason, spent.until), at)
    closed = at.hours and at.hours.not_now(link, at.clock.now())
    if isinstance(closed, Refused) and not link.hops:
        return await _robots_unasked(visit, at)
    outcome = closed or await at.fetcher.fetch(visit)
    now = at.clock.now()
    if isinstance(outcome, NotNow):
        return await _robots_later(visit, outcome, at)
    asked = _asked_to_wait(outcome, now)
    answer = robots.RobotsAnswer(origin=link.origin, outcome=outcome, hops=link.hops, retry_after=asked)
    previous = await at.frontier.robots(link.origin)
    jitter = at.jitter()
    meaning = robots.judge(answer, previous, at.settings.robots, now, jitter)
    if status_of(outcome) == 429 and meaning.copy:  # 429 applies to the whole host
        asked = max(asked or 0.0, meaning.copy.held - now)

    # The answering host may differ from the origin's and have its own rules, and old rules apply while new
    # ones are read.
    own = (await at.permissions.in_force(urls.origin(link.url))).rules
    copy = meaning.copy
    rules = await at.permissions.renew(copy) if copy else None
    if copy and previous and at.permissions.differ(previous, copy):
        copy = replace(copy, changed=True)
    polite = at.settings_of(link.url).politeness
    owed = max(politeness.owed(rules, polite), politeness.owed(own, polite))
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
        heard=schedule.heard(visit, outcome, at.settings, now, jitter),
    )
    wanted, refused = _announced(link, rules, at)
    settlement = Settlement(
        visit=visit,
        verdict=verdict,
        links=(*wanted, *_terms(link, rules, at)),
        refused=refused,
        robots=copy,
        again=_robots_hop(link, meaning.follow) if meaning.follow else None,
        exchange=exchange,
        status=status_of(outcome),
    )
    answered = exchange is not None and not isinstance(outcome, Failed)
    return Finished(settlement, archived=answered)


def _announced(
    link: Link, rules: robots.RobotsRules | None, at: Stations
) -> tuple[Sequence[Link], Sequence[tuple[Link, Reason]]]:
    """The sitemaps of an origin: those that its robots.txt names, or those in the usual places."""
    if rules is None or not rules.reachable or not (rules.sitemaps or at.links.lists.searches):
        return (), ()
    return at.links.lists.announced(link.origin, rules.sitemaps)


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

    The hop of a moved one does not wait with the pages of the host that it is on, so the clock of that host says when.
    It is queued again as it is: nobody else knows of it.
    """
    link, until = visit.link, outcome.until
    verdict = Verdict(
        state=State.QUEUED,
        due=await _hop_expected(link.url, at, until) if link.hops else until,
        reason=outcome.reason,
        attempted=False,
        host_free=until if link.hops else None,
        host_held=until,
    )
    return Finished(Settlement(visit=visit, verdict=verdict, again=link if link.hops else None))


def _terms(link: Link, rules: robots.RobotsRules | None, at: Stations) -> Sequence[Link]:
    """The files that say how the pages of this origin may be used, if they are wanted and it may be crawled."""
    if rules is None or not rules.reachable or not terms.are_wanted(at.settings):
        return ()
    licences = rules.said.licenses if rules.said else ()
    return terms.of_origin(link.origin, licences, at.settings, at.scope, link.depth)


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

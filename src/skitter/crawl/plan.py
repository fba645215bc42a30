"""A crawl before it starts: what robots.txt and sitemaps say about it, and what it would cost. No page is fetched.

`Planner` makes the few requests, one after the other for each host, with the delay that a crawl would keep. `costs` is
arithmetic on what it found. What nobody can know beforehand (how many pages no sitemap lists, how large they are) is
given as a range, or said to be unknown.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from skitter import politeness, urls
from skitter.links import LinkJudge, listing
from skitter.links.listing import Listed
from skitter.links.scope import ALONE
from skitter.model import (
    Fetched,
    Link,
    NotNow,
    Outcome,
    Purpose,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
    Visit,
)
from skitter.politeness.hours import all_hours
from skitter.politeness.keys import delay_of
from skitter.ports import Clock, Fetcher
from skitter.robots import RobotsAnswer, RobotsRules, judge, rules_in_force
from skitter.robots.in_force import InForce
from skitter.runtime.windows import Windows
from skitter.settings import Settings
from skitter.settings.sites import Sites

MOST_SITEMAPS = 50  # of one site: a plan shall not take as long as the crawl
_REDIRECTS = 5

# Bytes of a page, the mean of a whole crawl: PostgreSQL's documentation (1,170 pages, compressed by the server), and
# Python's (530 pages, not compressed). On the disk: archive, state and request log of the same crawls.
RECEIVED = 3_400, 101_000
STORED = 7_400, 22_000
# A robots.txt is a small file at hand; a page may be made anew for every request.
_SLOWER = 10.0
_WEEK = 7 * 86_400
_STEP = 900  # seconds


class SitemapPlan(Struct, frozen=True):
    """One sitemap that was read, or why it was not."""

    url: str
    kind: str = ""
    entries: int = 0
    problem: str = ""


class SitePlan(Struct, kw_only=True):
    """What one origin says, and what a crawl would do with it."""

    origin: str
    seeds: list[tuple[str, Reason | None]] = field(default_factory=list)  # each with why it would be refused
    robots: RobotsCopy | None = None
    problem: str = ""  # why nothing more is known
    delay: float = 0.0  # seconds between an answer and the next request
    delay_by: str = ""  # who asks for it
    answered_in: float = 0.0  # seconds
    overlays: list[str] = field(default_factory=list)
    hours: list[tuple[str, Windows]] = field(default_factory=list)  # when it may be visited, and who says so
    sitemaps: list[SitemapPlan] = field(default_factory=list)
    listed: int = 0  # pages that sitemaps list and that are wanted
    unlisted: int = 0  # seeds that are wanted, and that no sitemap lists
    most: int | None = None  # pages of its budget
    refused: dict[str, int] = field(default_factory=dict)  # other entries, by reason
    more_sitemaps: int = 0  # that were not read


class Range(Struct, frozen=True):
    """From, and to; `high` is None where nobody knows."""

    low: float
    high: float | None


class Costs(Struct, frozen=True):
    """What a crawl would take."""

    pages: Range
    seconds: Range  # until the slowest host is done
    received: Range  # bytes
    disk: Range  # bytes
    bandwidth: Range  # bytes per second, on average
    limit: str = ""  # the setting that ends it before


class Planner:
    """Asks sites what a crawl would find."""

    def __init__(
        self,
        settings: Settings,
        fetcher: Fetcher,
        links: LinkJudge,
        clock: Clock,
        agent: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._sites = Sites(settings)
        self._fetcher = fetcher
        self._links = links
        self._clock = clock
        self._agent = agent
        self._sleep = sleep
        self._free: dict[str, float] = {}  # by host, when it may be asked again

    async def plan(self, seeds: Sequence[Link]) -> list[SitePlan]:
        """Look at the origin of every seed; different hosts at the same time."""
        hosts: dict[str, dict[str, list[Link]]] = {}
        for seed in seeds:
            hosts.setdefault(seed.host, {}).setdefault(urls.origin(seed.url), []).append(seed)
        planned = await asyncio.gather(*(self._host(origins) for origins in hosts.values()))
        return [site for sites in planned for site in sites]

    async def _host(self, origins: dict[str, list[Link]]) -> list[SitePlan]:
        return [await self._site(origin, seeds) for origin, seeds in origins.items()]

    async def _site(self, origin: str, seeds: Sequence[Link]) -> SitePlan:
        site = SitePlan(origin=origin)
        wanted = [(seed, self._links.seed(seed)[1]) for seed in seeds]
        settings = self._sites.of(f"{origin}/")
        site.overlays = [
            f"{dotted} by {overlay}" for dotted, overlay in self._sites.speakers(f"{origin}/").items()
        ]
        copy, outcome = await self._robots(origin)
        site.robots = copy
        rules = None if copy is None else rules_in_force(copy, self._agent)
        if copy is None or not rules or not rules.reachable:
            site.problem = _problem(copy, outcome)
        site.hours = list(all_hours(f"{origin}/", self._settings, self._sites, rules))
        site.delay, site.delay_by = delay_of(f"{origin}/", None, self._sites, rules)
        exchange = getattr(outcome, "exchange", None)
        site.answered_in = 0.0 if exchange is None else exchange.ended - exchange.started
        problem = copy.problem if copy is not None else ""
        site.most = settings.budget.host_pages
        if (slow := politeness.too_slow(rules, settings.politeness)) is not None:
            site.problem = slow.detail
        found = _Found()
        if rules is not None and rules.reachable and not site.problem:
            await self._read_sitemaps(site, rules, found)
        for seed, reason in wanted:
            no, listed = (
                reason or _forbidden(rules, seed.url, problem),
                urls.fingerprint(seed.key, 0) in found.pages,
            )
            no = no or (None if listed else self._links.unlisted(seed))
            site.seeds.append((seed.url, no))
            site.unlisted += no is None and not listed
        return site

    # -- requests ----------------------------------------------------------------------------------------------

    async def _fetch(self, link: Link, owed: float) -> Outcome:
        """One polite request: the host's delay after its last answer."""
        while True:
            await self._sleep(max(0.0, self._free.get(link.host, 0.0) - self._clock.now()))
            outcome = await self._fetcher.fetch(Visit(link, 1, self._clock.now()))
            self._free[link.host] = self._clock.now() + owed
            if not isinstance(outcome, NotNow):
                return outcome
            self._free[link.host] = outcome.until

    async def _robots(self, origin: str) -> tuple[RobotsCopy | None, Outcome]:
        """The robots.txt of an origin, after its redirects."""
        url, settings = f"{origin}/robots.txt", self._settings
        for hops in range(settings.robots.max_redirects + 1):
            link = Link(
                url=url, key=url, host=urls.host(url), purpose=Purpose.ROBOTS, origin=origin, hops=hops
            )
            outcome = await self._fetch(link, settings.politeness.delay)
            answer = RobotsAnswer(origin=origin, outcome=outcome, hops=hops)
            meaning = judge(answer, None, settings.robots, self._clock.now(), 0.0)
            if not meaning.follow:
                return meaning.copy, outcome
            url = meaning.follow
        raise AssertionError(f"{origin}: endless redirects of robots.txt were followed")

    async def _read_sitemaps(self, site: SitePlan, rules: RobotsRules, found: "_Found") -> None:
        """Read the sitemaps of a site, those that an index names included."""
        waiting, refused = self._links.lists.announced(site.origin, rules.sitemaps)
        found.refused.update(reason.code for _, reason in refused)
        queue, known = list(waiting), {link.key for link in waiting}
        while queue and len(site.sitemaps) < MOST_SITEMAPS:
            link = queue.pop(0)
            site.sitemaps.append(await self._read_sitemap(link, site, rules, found))
            for more in found.lists:
                if more.key not in known:
                    known.add(more.key)
                    queue.append(more)
            found.lists.clear()
        site.more_sitemaps = len(queue)
        site.listed, site.refused = len(found.pages), dict(found.refused)

    async def _read_sitemap(
        self, link: Link, site: SitePlan, rules: RobotsRules, found: "_Found"
    ) -> SitemapPlan:
        same_origin = urls.origin(link.url) == site.origin
        if same_origin and (forbidden := _forbidden(rules, link.url)) is not None:
            return SitemapPlan(link.url, problem=forbidden.detail)
        outcome = await self._fetch(link, site.delay)
        for _ in range(_REDIRECTS):
            if not isinstance(outcome, Redirected) or not outcome.target:
                break
            target = outcome.target
            moved = Link(
                url=target, key=link.key, host=urls.host(target), purpose=link.purpose, hints=link.hints
            )
            outcome = await self._fetch(moved, site.delay)
        if not isinstance(outcome, Fetched) or outcome.status >= 400:
            return SitemapPlan(link.url, problem=_said(outcome))

        async def count(wanted: Sequence[Link], refused: Sequence[tuple[Link, Reason]]) -> None:
            for each in wanted:
                if each.purpose is Purpose.SITEMAP:
                    found.lists.append(each)
                elif urls.origin(each.url) == site.origin and (no := _forbidden(rules, each.url)) is not None:
                    found.refused[no.code] += 1
                else:
                    found.pages.add(urls.fingerprint(each.key, 0))
            found.refused.update(reason.code for _, reason in refused)

        limit = self._settings.fetch.max_sitemap
        listed: Listed = await listing.read(
            link, outcome.exchange, self._links.lists, count, limit, lambda _: None
        )
        return SitemapPlan(link.url, listed.kind, listed.count, listed.problem)


class _Found(Struct):
    """What the sitemaps of a site have listed so far."""

    pages: set[int] = field(default_factory=set)  # fingerprints of their keys
    lists: list[Link] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def _forbidden(rules: RobotsRules | None, url: str, problem: str = "") -> Reason | None:
    return None if rules is None else InForce(rules, problem=problem).refusal(url)


def _problem(copy: RobotsCopy | None, outcome: Outcome) -> str:
    why = _said(outcome) if copy is None or not copy.problem else copy.problem
    return f"robots.txt could not be fetched ({why}), so nothing is allowed"


def _said(outcome: Outcome) -> str:
    match outcome:
        case Fetched(status=status) | Redirected(status=status):
            return f"status {status}"
        case Refused(reason) | NotNow(reason):
            return reason.detail or reason.code
        case _:
            return getattr(outcome, "detail", "") or "no usable answer"


# ------------------------------------------------------------------------------------------------ what it costs


def costs(
    sites: Sequence[SitePlan], settings: Settings, now: float, pages: int | None = None
) -> Costs | None:
    """What a crawl of these sites would take; None if nothing may be fetched. `pages` is a person's own estimate."""
    open_sites = [
        site
        for site in sites
        if not site.problem and (site.listed or any(no is None for _, no in site.seeds))
    ]
    if not open_sites:
        return None
    listed = {site.origin: max(site.listed + site.unlisted, 1) for site in open_sites}
    total = sum(listed.values())
    if pages is not None:
        listed = {origin: max(1, round(pages * share / total)) for origin, share in listed.items()}
        total = pages
    limit, most = "", settings.crawl.max_pages
    if most is not None and most < total:
        limit = f"crawl.max_pages = {most}"
        listed = {origin: max(1, round(most * share / total)) for origin, share in listed.items()}
        total = most
    only_listed = settings.scope.sitemaps in ALONE and not any(site.more_sitemaps for site in open_sites)
    known = pages is not None or bool(limit) or only_listed
    full = [site for site in open_sites if site.most is not None and listed[site.origin] > site.most]
    if full:
        limit = "budget.host_pages"
        listed |= {site.origin: site.most or 0 for site in full}
        total, known = sum(listed.values()), known or len(full) == len(open_sites)
    fast, slow = (
        [listed[site.origin] * _spent(site, slower) / _open_share(site, now) for site in open_sites]
        for slower in (1.0, _SLOWER)
    )
    seconds = Range(max(fast), max(slow))
    received = Range(total * RECEIVED[0], total * RECEIVED[1])
    return Costs(
        pages=Range(total, total if known else None),
        seconds=seconds,
        received=received,
        disk=Range(total * STORED[0], total * STORED[1]),
        bandwidth=Range(received.low / max(slow), (received.high or 0.0) / max(fast)),
        limit=limit,
    )


def _spent(site: SitePlan, slower: float) -> float:
    """Seconds for one page: the answer, and the delay after it."""
    return max(site.delay + site.answered_in * slower, 1e-3)


def _open_share(site: SitePlan, now: float) -> float:
    """The part of a week in which all windows of a site are open."""
    if not site.hours:
        return 1.0
    times = [now + _STEP * number for number in range(_WEEK // _STEP)]
    open_then = sum(not any(hours.closed_until(time) for _, hours in site.hours) for time in times)
    return max(open_then, 1) / len(times)

"""Everything a crawl knows about one URL, in any spelling, and what it would decide about one it never saw.

Nothing is decided here: scope, robots, windows and order are asked from the crawl's own code.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from skitter import schedule, urls
from skitter.events import Lost, Requested
from skitter.export.canonicals import Canonical, canonical
from skitter.export.source import Source
from skitter.export.uses import Uses
from skitter.fetch.check import carried_in_words
from skitter.fetch.request import user_agent
from skitter.links.scope import Scope
from skitter.links.scoring import failure_of
from skitter.model import HostRecord, Page, Purpose, Reason, RobotsCopy, State, UrlRecord, Usage
from skitter.politeness.budgets import (
    DAY,
    Limits,
    domain_limits,
    group_limits,
    group_tally,
    host_limits,
    tally_name,
)
from skitter.politeness.hours import all_hours, never
from skitter.politeness.keys import Key, keys_of
from skitter.politeness.linked import counted, linked_budget
from skitter.reporting.log import MAX_REQUESTS, requests_for
from skitter.robots import RobotsLine, product_token, rules_in_force
from skitter.runtime.windows import Windows
from skitter.schedule.hosts import pressed
from skitter.schedule.learning.learned import Pattern
from skitter.schedule.learning.patterns import host_pattern, names_of, of_domain
from skitter.seeds import without_credentials
from skitter.settings import Settings
from skitter.settings.sites import Overlay, Sites

_SCHEME = re.compile(r"\s*https?:", re.IGNORECASE)
MAX_CHAIN = 100  # parents shown; a crawl can be much deeper


class Allowance(Struct, frozen=True):
    """One limit of a budget that a URL is under, and what was used of it."""

    of: str  # "its host", "its domain", "its group cdn"
    unit: str  # pages, bytes, seconds or requests_per_day
    limit: float
    used: float


class NotAUrlError(Exception):
    """This text is no URL, and no seed had it."""


class Findings(Struct, frozen=True, kw_only=True):
    """Everything known about one URL."""

    url: str
    key: str
    host: str
    record: UrlRecord | None
    chain: list[UrlRecord]  # from its parent up to the seed
    page: Page | None
    host_record: HostRecord | None
    robots: RobotsCopy | None
    robots_allow: bool | None  # None: there is no copy
    robots_line: RobotsLine | None
    scope: Reason | None  # why the scope would refuse it now; only for a URL that was never found
    as_page: UrlRecord | None = (
        None  # of what is needed to show a page: what was decided about it as a page, if it is linked too
    )
    as_asset: UrlRecord | None = None  # of a page that another page needs to be shown, as a frame for example
    hours: tuple[tuple[str, Windows], ...] = ()  # when it may be fetched, and who says so: all must be open
    never: Reason | None = None  # why these are never open at the same time
    canonical: Canonical | None = None  # what its page names as its canonical form
    respected: tuple[str, ...] = ()  # uses that exports and indexes respect
    carries: list[str] = []  # what a request carries, and which way it goes, in words
    overlays: dict[str, Overlay] = {}  # by setting, the one that decides about it for this URL
    unscored: dict[str, Any] | None = None  # the first failure of the user's own scorer for it
    terms: Sequence[tuple[float, str]] = ()  # what its score is made of
    requests: Sequence[Requested | Lost] | None = (
        None  # the last ones made for it; None: their log is elsewhere
    )
    keys: Sequence[Key] = ()  # what its requests have to wait for
    budgets: Sequence[Allowance] = ()
    patterns: Sequence[tuple[str, Pattern]] = ()  # that it belongs to, and what is known of them
    pressed: str = ""  # why its host has sunk by a level; empty if it has not

    @property
    def read_as_robots(self) -> bool:
        """Whether this is a robots.txt that was read for its rules; such a file has no URL record."""
        copy = self.robots
        return self.record is None and copy is not None and self.url == f"{copy.origin}/robots.txt"

    @property
    def known(self) -> bool:
        """Whether the crawl knows this URL."""
        return self.record is not None or self.read_as_robots


async def _patterns(url: str, host: str, source: Source) -> list[tuple[str, Pattern]]:
    """The patterns of a URL, and of its host, that were counted."""
    names, domain = names_of(url), urls.registrable_domain(host)
    learned, of_all = await source.frontier.learned(host), await source.frontier.learned(of_domain(domain))
    known = {} if learned is None else learned.patterns
    found = [(name, known[name]) for name in (names.leaf, *names.families) if name in known]
    hosts = {} if of_all is None else of_all.patterns
    name = host_pattern(host, domain)
    return [*found, (name, hosts[name])] if name in hosts and host != domain else found


async def find(text: str, source: Source, now: float) -> Findings:
    """Look a URL up in any spelling. Without a scheme it is https, unless only http is known."""
    found = await _look_up(text, source, now)
    if not found.known and not _SCHEME.match(text):
        plain = await _look_up(f"http://{text.strip().removeprefix('//')}", source, now)
        return plain if plain.known else found
    return found


async def _look_up(text: str, source: Source, now: float) -> Findings:
    rules, frontier = source.settings.urls, source.frontier
    url = urls.seed(text, rules)
    key = None if url is None else urls.key(url, rules)
    if url is None or key is None:
        return await _unusable(text, source)
    host = urls.host(url)
    record, asset = await frontier.url(key, host), await frontier.url(urls.asset_key(url), host)
    as_page = None
    if asset is not None and (record is None or record.state is State.REFUSED):
        key, as_page, record, asset = asset.key, record, asset, None
    copy = await frontier.robots(urls.origin(url))
    if copy is not None and not copy.fetched_at:
        copy = None
    in_force = (
        None if copy is None else rules_in_force(copy, product_token(user_agent(source.settings.fetch)))
    )
    page = await frontier.page(key, host)
    sites = Sites(source.settings)
    scope = Scope(source.settings.scope, await source.roots(), sites=sites)
    host_record = await frontier.host(host)
    hours = all_hours(url, source.settings, sites, in_force)
    return Findings(
        url=url if record is None else record.url,
        key=key,
        host=host,
        record=record,
        patterns=await _patterns(url if record is None else record.url, host, source),
        as_page=as_page,
        as_asset=asset,
        chain=[] if record is None else await _parents(record, source),
        page=None if page is None else await Uses(source).joined(page),
        canonical=None if page is None else await canonical(page, source),
        respected=source.settings.export.respect_ai,
        host_record=host_record,
        robots=copy,
        robots_allow=None if in_force is None else in_force.allows(url),
        robots_line=None if in_force is None else in_force.line(url),
        scope=scope.refusal(url, 0) if record is None else None,
        hours=hours,
        never=never(hours, now),
        carries=carried_in_words(source.settings, sites, url, now),
        overlays=sites.speakers(url),
        unscored=failure_of(source.directory.scorer_log, key),
        terms=() if record is None else _terms(record, source.settings),
        requests=_requests(url if record is None else record.url, record, source),
        keys=keys_of(url, host_record, sites, in_force, now),
        budgets=await _budgets(url, host_record, sites, source, now),
        pressed="" if host_record is None else pressed(host_record, source.settings.schedule),
    )


async def _budgets(
    url: str, host: HostRecord | None, sites: Sites, source: Source, now: float
) -> list[Allowance]:
    """What its host, its domain and its groups may get, and what was used of that."""
    name, own = urls.host(url), sites.of(url).budget
    found = list(_allowances("its host", host_limits(own), host, now))
    if limits := domain_limits(own):
        together = await source.frontier.host(tally_name(urls.registrable_domain(name)))
        found += _allowances("its domain", limits, together, now)
    if (by_links := linked_budget(own)) is not None:
        together = await source.frontier.host(tally_name(urls.registrable_domain(name)))
        known = None if together is None else together.linked
        of = f"its domain, to which {counted(b'' if known is None else known.bits):,} others link"
        found.append(
            Allowance(of, "pages", by_links.allowed(known), 0 if together is None else together.pages)
        )
    for group in sites.groups(name):
        if limits := group_limits(group):
            together = await source.frontier.host(group_tally(group.name))
            found += _allowances(f"its group {group.name}", limits, together, now)
    return found


def _allowances(of: str, limits: Limits, counted: HostRecord | None, now: float) -> Iterator[Allowance]:
    usage = counted.usage if counted is not None and counted.usage is not None else Usage()
    used = {
        "pages": 0 if counted is None else counted.pages,
        "bytes": 0 if counted is None else counted.bytes,
        "seconds": usage.seconds,
        "requests_per_day": usage.requests if usage.day == int(now // DAY) else 0,
    }
    for unit, limit in limits._asdict().items():
        if limit is not None:
            yield Allowance(of, unit, limit, used[unit])


def _terms(record: UrlRecord, settings: Settings) -> Sequence[tuple[float, str]]:
    return schedule.terms(
        settings.schedule, record.url, record.depth, record.score, record.hints, record.cash
    )


def _requests(url: str, record: UrlRecord | None, source: Source) -> Sequence[Requested | Lost] | None:
    """The requests in the log of its shard: everything about a host is in one."""
    directory = source.directory
    if not directory.exists:
        return None
    shard = urls.shard(urls.registrable_domain(urls.host(url)), max(1, source.settings.crawl.shards))
    forms = {url} if record is None else {url, record.url}
    return requests_for([directory.request_log(shard)], forms, MAX_REQUESTS)


async def _unusable(text: str, source: Source) -> Findings:
    """Text that is not a URL only has a record if it was given as a seed."""
    text = without_credentials(text)  # as it is kept
    record = await source.frontier.url(text, "")
    if record is None:
        raise NotAUrlError(f"{text!r} is not an http or https URL; write for example https://example.org/")
    return Findings(
        url=text, key=text, host="", record=record, chain=[], page=None, host_record=None, robots=None,
        robots_allow=None, robots_line=None, scope=None,
    )  # fmt: skip


async def _parents(record: UrlRecord, source: Source) -> list[UrlRecord]:
    """The pages that led here, nearest first. Stops at a cycle, which exists if a seed was found again."""
    chain: list[UrlRecord] = []
    met = {record.key}
    while record.parent and len(chain) < MAX_CHAIN:
        key = urls.key(record.parent, source.settings.urls)
        if key is None or key in met:
            break
        met.add(key)
        host = urls.host(record.parent)
        parent = await source.frontier.url(key, host)
        if record.purpose is Purpose.ASSET and (parent is None or parent.state is State.REFUSED):
            parent = await source.frontier.url(urls.asset_key(record.parent), host)
        if parent is None:
            break
        chain.append(parent)
        record = parent
    return chain

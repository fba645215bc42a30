"""What a host, and all hosts of a domain together, may still get: pages, bytes, seconds, requests a day. Pure.

The hosts of a domain are in one shard, so the shard knows what all of them have used. It is counted in a row among the
hosts, named after the domain (see `politeness.budgets`), which has no queue. What is used and what is in flight together never
pass a limit of pages or requests; bytes and seconds are known when an answer is there, so answers in flight come on top.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import reasons
from skitter.frontier.held import IDLE
from skitter.frontier.rows import HostExtra, HostRow
from skitter.model import Exchange, Link, Page, Reason, Settlement, Spent, Usage
from skitter.politeness.budgets import (
    DAY,
    Limits,
    Subject,
    Used,
    domain_limits,
    group_limits,
    group_tally,
    host_limits,
    judged,
    one_more,
    tally_name,
    used_up,
)
from skitter.politeness.linked import linked_budget
from skitter.settings import Settings
from skitter.settings.sites import Sites

if TYPE_CHECKING:
    from skitter.frontier.shard import Shard


def _of_host(detail: str) -> Reason:
    return Reason(reasons.BUDGET_HOST, detail)


def _of_domain(detail: str) -> Reason:
    return Reason(reasons.BUDGET_DOMAIN, detail)


HOST = Subject(_of_host, "this host", "budget.host_")
DOMAIN = Subject(_of_domain, "the hosts of its domain together", "budget.domain_")


class Budgets:
    """The budgets of hosts and domains."""

    def __init__(self, settings: Settings, sites: Sites | None) -> None:
        self._host = host_limits(settings.budget)
        self._domain = domain_limits(settings.budget)
        self._sites = sites if sites is not None and _set_by_a_site(sites) else None
        self.linked = linked_budget(settings.budget)
        self.of_domains = bool(self._domain) or self.linked is not None
        self._groups = {group.name for group in settings.group if group_limits(group)}
        self._all_sites = sites
        self.has_tallies = self.of_domains or bool(self._groups)

    def tallies(self, host: str, domain: str) -> list[str]:
        """The names of the rows that count what a host uses together with others."""
        names = [tally_name(domain)] if self.of_domains else []
        if self._groups and self._all_sites is not None:
            groups = self._all_sites.groups(host)
            names += [group_tally(group.name) for group in groups if group.name in self._groups]
        return names

    def spent(self, shard: "Shard", host: HostRow, link: Link, now: float, *, again: bool) -> Spent | None:
        """Why a visit may not be made, or not now; None if it may be. `again`: it adds no page."""
        page = link.purpose.handling.counts and not again
        limits = self._host if self._sites is None else host_limits(self._sites.of(link.url).budget)
        out = shard.flights.get(host.name, IDLE).visits
        told = judged(HOST, limits, _used(host, now), out, now, page=page) if limits else None
        if not self.of_domains or (told is not None and not told.until):
            return told
        tally = shard.tally_named(tally_name(host.domain), host.domain)
        out = shard.out.get(tally.name, 0)
        wider = judged(DOMAIN, self._domain, _used(tally, now), out, now, page=page)
        if self.linked is not None and page and wider is None:
            allowed = self.linked.allowed(None if tally.extra is None else tally.extra.linked)
            wider = used_up("budget.linked_first", now) if tally.pages + out >= allowed else None
        return _worse(told, wider)

    def count(self, shard: "Shard", host: HostRow, settlement: Settlement) -> None:
        """What an answer has cost, besides what every host counts."""
        if settlement.exchange is not None:
            self.count_sent(shard, host, settlement.exchange)

    def count_sent(self, shard: "Shard", host: HostRow, exchange: Exchange) -> None:
        """The same of one request."""
        seconds, day = max(0.0, exchange.ended - exchange.started), int(exchange.started // DAY)
        _use(host, seconds, day)
        for tally in shard.tallies(host):
            tally.requests += 1
            tally.bytes += exchange.received
            _use(tally, seconds, day)
            shard.touched[tally.name] = tally

    def count_lost(self, shard: "Shard", host: HostRow, when: float) -> None:
        """A request may have been sent by an owner that died."""
        for row in (host, *shard.tallies(host)):
            _use(row, 0.0, int(when // DAY))
            shard.touched[row.name] = row

    def count_page(self, shard: "Shard", host: HostRow, page: Page, by: int) -> None:
        """A page is stored, or is no longer."""
        if 200 <= page.status < 300 and page.purpose.handling.counts:
            for tally in shard.tallies(host):
                tally.pages += by
                shard.touched[tally.name] = tally


def budgets_of(settings: Settings, sites: Sites | None) -> Budgets | None:
    """The budgets of these settings; None if there are none, so that nobody has to ask."""
    limits = [
        host_limits(settings.budget),
        domain_limits(settings.budget),
        *map(group_limits, settings.group),
    ]
    limited = (
        any(limits)
        or settings.budget.linked_first is not None
        or (sites is not None and _set_by_a_site(sites))
    )
    return Budgets(settings, sites) if limited else None


def _set_by_a_site(sites: Sites) -> bool:
    return any(sites.sets(f"budget.host_{name}") for name in Limits._fields)


class Sum:
    """What the hosts of a domain have used together."""

    __slots__ = ("bytes", "day", "day_requests", "pages", "requests", "seconds")

    def __init__(self) -> None:
        self.pages = self.requests = self.bytes = self.day = self.day_requests = 0
        self.seconds = 0.0

    def add(self, row: HostRow) -> None:
        """A host of the domain."""
        used = usage(row)
        self.pages += row.pages
        self.requests += row.requests
        self.bytes += row.bytes
        self.seconds += used.seconds
        if used.day > self.day:
            self.day, self.day_requests = used.day, 0
        self.day_requests += used.requests if used.day == self.day else 0


def recount(shard: "Shard", sums: Mapping[str, Sum]) -> None:
    """Count anew for domains and groups, from their hosts: some may have been visited while there was no budget."""
    for name, told in sums.items():
        row = shard.tally_named(name, name)
        row.pages, row.requests, row.bytes = told.pages, told.requests, told.bytes
        used = Usage(told.seconds, told.day, told.day_requests)
        row.extra = replace(row.extra or HostExtra(), usage=used)
        shard.touched[row.name] = row


# ------------------------------------------------------------------------------------------------ one budget


def usage(row: HostRow) -> Usage:
    """What is counted of a host besides pages, requests and bytes."""
    return row.extra.usage if row.extra is not None and row.extra.usage is not None else Usage()


def _use(row: HostRow, seconds: float, day: int) -> None:
    before = usage(row)
    day, requests = one_more(before.day, before.requests, day)
    row.extra = replace(row.extra or HostExtra(), usage=Usage(before.seconds + seconds, day, requests))


def _used(row: HostRow, now: float) -> Used:
    used = usage(row)
    return Used(row.pages, row.bytes, used.seconds, used.requests if used.day == int(now // DAY) else 0)


def _worse(one: Spent | None, other: Spent | None) -> Spent | None:
    """The one that holds longer."""
    if one is None or other is None:
        return other if one is None else one
    if not one.until or not other.until:
        return other if not other.until else one
    return max(one, other, key=lambda each: each.until)

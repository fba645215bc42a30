"""Domains whose pages are limited by links from other domains: hosts that wait, and come back when there are more.

All hosts of a domain are in one shard. Its row among the hosts (see `budgets`) knows which domains link to it, how many pages it has, and
the first and the last host that wait: a host that is next although its domain is over budget is set aside, behind those that wait
already. When another domain links there, or when its visits turn out to give no pages, the hosts in front are taken back. A link
to another shard is sent there again whenever it comes from a domain that this shard has not told about.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from skitter import reasons, urls
from skitter.frontier.aside import is_over_budget, set_aside, take_back
from skitter.frontier.memory import Lacking
from skitter.frontier.rows import HostExtra, HostRow, Wanted
from skitter.frontier.shard import Shard
from skitter.model import Link, Linked, Purpose, Reason, Settlement
from skitter.politeness.budgets import is_tally, tally_name
from skitter.politeness.linked import LinkedBudget, counted, marked

_PAGE = Purpose.PAGE
AT_ONCE = 8
"""Hosts of a domain that are taken back together: each has something to fetch, and others follow when that is settled."""


def _linked(row: HostRow) -> Linked:
    return row.extra.linked if row.extra is not None and row.extra.linked is not None else Linked()


def _tally(shard: Shard, domain: str) -> HostRow:
    return shard.tally_named(tally_name(domain), domain)


def _keep(shard: Shard, row: HostRow, linked: Linked) -> None:
    row.extra = replace(row.extra or HostExtra(), linked=linked)
    shard.touched[row.name] = row


# ------------------------------------------------------------------------------------------------ over budget


def is_over(shard: Shard, host: HostRow, budget: LinkedBudget) -> bool:
    """Whether the domain of a host has all the pages that it may have, and the host would bring another."""
    tally = _tally(shard, host.domain)
    return not host.hops and host.lined_up() > 0 and tally.pages >= budget.allowed(_linked(tally))


def wait(shard: Shard, host: HostRow, budget: LinkedBudget, now: float) -> None:
    """Set a host aside until its domain may have more pages."""
    tally = _tally(shard, host.domain)
    linked = _linked(tally)
    last = shard.host(linked.last) if linked.last else None  # read before anything is changed
    domains, allowed = counted(linked.bits), budget.allowed(linked)
    detail = (
        f"{tally.pages:,} pages are stored from its domain, and {domains:,} other domains link to it, which allows {allowed:,}; "
        "it waits until more do"
    )
    set_aside(shard, host.name, Reason(reasons.BUDGET_LINKED, detail), now)
    if _behind(host) is None:  # else it waits in the queue already: somebody has taken it back meanwhile
        _set_behind(shard, host, "")
        if last is not None:
            _set_behind(shard, last, host.name)
        _keep(shard, tally, replace(linked, first=linked.first or host.name, last=host.name))
    shard.place(host, now)


def _behind(host: HostRow) -> str | None:
    return None if host.extra is None else host.extra.behind


def _set_behind(shard: Shard, host: HostRow, name: str | None) -> None:
    host.extra = replace(host.extra or HostExtra(), behind=name)
    shard.touched[host.name] = host


# ------------------------------------------------------------------------------------------------ more links


def settled(shard: Shard, settlement: Settlement, budget: LinkedBudget) -> None:
    """A page was fetched: its links count for the domains they lead to, and others of its domain may have to take its place."""
    link = settlement.visit.link
    _note(shard, shard.names.host(link.host).domain, settlement.links, link.url, budget)
    _take_back_some(shard, _tally(shard, shard.names.host(link.host).domain), budget)


def arrived(shard: Shard, links: Sequence[Link], budget: LinkedBudget) -> None:
    """Links that other shards have found."""
    for link in links:
        if link.parent and not shard.names.host(link.host).foreign:
            _note(shard, _domain_of(link.parent), [link], link.parent, budget)


def _domain_of(url: str) -> str:
    return urls.registrable_domain(urls.host(url))


def _note(shard: Shard, source: str, links: Sequence[Link], page: str, budget: LinkedBudget) -> None:
    for domain, link in _abroad(shard, source, links):
        tally = _tally(shard, domain)
        linked = _linked(tally)
        bits = marked(linked.bits, source)
        if bits is None:
            continue
        _keep(shard, tally, replace(linked, bits=bits))
        if shard.names.host(link.host).foreign:
            shard.send(replace(link, parent=page))
        else:
            _take_back_some(shard, tally, budget)


def _abroad(shard: Shard, source: str, links: Iterable[Link]) -> Iterator[tuple[str, Link]]:
    """One link to each other domain."""
    told = {source}
    for link in links:
        domain = shard.names.host(link.host).domain
        if domain not in told and link.purpose is _PAGE:
            told.add(domain)
            yield domain, link


def _take_back_some(shard: Shard, tally: HostRow, budget: LinkedBudget) -> None:
    """Take back the hosts that have waited longest, if their domain may have more pages."""
    linked = _linked(tally)
    if not linked.first or tally.pages >= budget.allowed(linked):
        return
    for _ in range(AT_ONCE):
        if not linked.first:
            break
        host = shard.host(linked.first)
        following = _behind(host) or ""
        linked = replace(linked, first=following, last=linked.last if following else "")
        _release(shard, host)
    _keep(shard, tally, linked)


def _release(shard: Shard, host: HostRow) -> None:
    """A host waits no longer for more links."""
    _set_behind(shard, host, None)
    if is_over_budget(host.aside):
        take_back(shard, host)


def is_waiting(row: HostRow) -> bool:
    """Whether a host waits for more links, or hosts of a domain do."""
    extra = row.extra
    return extra is not None and (
        extra.behind is not None or (extra.linked is not None and bool(extra.linked.first))
    )


def release_all(shard: Shard, names: Sequence[str]) -> None:
    """The budget may be another one now, or none: nobody waits any more."""
    for name in names:
        row = shard.host(name)
        if not is_waiting(row):
            continue
        if is_tally(name):
            _keep(shard, row, replace(_linked(row), first="", last=""))
        else:
            _release(shard, row)


# ------------------------------------------------------------------------------------------------ what has to be read


def domains_told(shard: Shard, settlements: Iterable[Settlement], links: Iterable[Link] = ()) -> set[str]:
    """The domains whose rows are read when these are settled or added."""
    found = set()
    for settlement in settlements:
        found.add(shard.names.host(settlement.visit.link.host).domain)
        found |= {shard.names.host(link.host).domain for link in settlement.links}
    return found | {shard.names.host(link.host).domain for link in links}


def need(shard: Shard, domains: Collection[str]) -> None:
    """Read them, with the hosts that wait in front and what is parked there."""
    missing = [name for name in map(tally_name, domains) if name not in shard.hosts]
    if missing:
        raise Lacking(Wanted(hosts=missing))
    for domain in domains:
        name = _linked(_tally(shard, domain)).first
        for _ in range(AT_ONCE):
            host = shard.hosts[name] if name else None
            if host is None:
                break
            _ = shard.parked[name]
            name = _behind(host) or ""

"""For stores behind a network: loads what a verb will need in one round trip.

Verbs that add or settle say in advance what they will read (`need_…`). Leasing goes as far as memory allows, says
what is missing, and gets that together with what the next hosts will need (`look_ahead`). A store at hand needs none
of this.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from skitter import urls
from skitter.frontier import repeating
from skitter.frontier.adding import names_seed, tells_a_date
from skitter.frontier.agenda import drawn
from skitter.frontier.aside import is_passing
from skitter.frontier.held import rules_of
from skitter.frontier.memory import Lacking
from skitter.frontier.obeying import origins_of
from skitter.frontier.pages import indexed
from skitter.frontier.rows import QUEUED, Found, Heads, HostRow, PageRow, Times, UrlRow, Wanted, widened
from skitter.frontier.settling import hop_of
from skitter.frontier.shard import Shard
from skitter.frontier.store import KNOWN
from skitter.model import Level, Link, Page, Purpose, Reason, Settlement, Visit
from skitter.schedule.learning.patterns import of_domain

AT_ONCE = 64  # visits of one host that are leased together, at most
_LOOK_AHEAD = 256  # hosts of each level whose links are loaded together
_DUE_AT_ONCE = 1_000  # URLs that are due

# ------------------------------------------------------------------------------------------------ adding


def need_links(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], wanted: Wanted
) -> list[Link]:
    """Request what adding these links needs; returns those that must be looked up."""
    looked, known, told = [], shard.names.known.ids, shard.names.refused.ids
    for link in links:
        if link.purpose is Purpose.ROBOTS:
            _need_robots(shard, link, wanted)
        elif shard.damping or _is_shorter(shard, link) or _tells(shard, link):  # its row may change
            _need_row(shard, link, wanted)
            looked.append(link)
        elif id(link) in known:
            continue
        elif _need_link(shard, link, wanted):
            looked.append(link)
    for link, _ in refused:
        if _is_shorter(shard, link):
            _need_row(shard, link, wanted)
            looked.append(link)
        elif id(link) not in told:
            id16 = shard.names.id_of(link)
            if shard.seen.refuse(id16, link.depth) != KNOWN and not shard.has_row(id16):
                wanted.urls.append(id16)
    return looked


def _tells(shard: Shard, link: Link) -> bool:
    """Whether a link brings a date, by which its page may be fetched sooner."""
    return shard.refreshing is not None and tells_a_date(link)


def _is_shorter(shard: Shard, link: Link) -> bool:
    return shard.depths is not None and shard.depths.is_shorter(shard.names.id_of(link), link)


def _need_link(shard: Shard, link: Link, wanted: Wanted) -> bool:
    id16, named = shard.names.id_of(link), shard.names.host(link.host)
    if shard.seen.offer(id16, link.level, link.score) == KNOWN and not link.seed:
        return False
    if named.foreign and shard.by_message and shard.depths is None:
        return False
    _need_row(shard, link, wanted)
    return True


def _need_row(shard: Shard, link: Link, wanted: Wanted) -> None:
    id16, named = shard.names.id_of(link), shard.names.host(link.host)
    if not shard.has_row(id16):
        wanted.urls.append(id16)
    if not named.foreign:
        need_host(shard, link.host, wanted)
        if names_seed(link) and (origin := urls.origin(link.url)) not in shard.rules:
            wanted.robots.append(origin)


def need_host(shard: Shard, name: str, wanted: Wanted) -> None:
    """Request a host that is not in memory."""
    if name not in shard.hosts:
        wanted.hosts.append(name)
    if shard.budgets is not None and shard.budgets.has_tallies:
        tallies = shard.budgets.tallies(name, shard.names.host(name).domain)
        wanted.hosts += [tally for tally in tallies if tally not in shard.hosts]


def _need_robots(shard: Shard, link: Link, wanted: Wanted) -> None:
    """Request what a forwarded robots.txt needs: its host for a copy, also the next hop's host for a hop."""
    need_host(shard, urls.host(link.origin), wanted)
    need_host(shard, link.host, wanted)
    id16 = shard.names.id_of(link)
    if not shard.has_row(id16):
        wanted.urls.append(id16)


def need_more(shard: Shard, looked: Sequence[Link]) -> None:
    """Request what the loaded rows refer to: hosts of waiting links, and URLs parked on hosts that are taken back."""
    wanted = Wanted()
    for link in looked:
        host = shard.hosts.get(link.host)
        taken_back = host is not None and names_seed(link) and is_passing(host.aside)
        if taken_back and link.host not in shard.parked:
            wanted.parked.append(link.host)
        row = shard.row(shard.names.id_of(link))
        if row is not None and (row.state == QUEUED or shard.depths is not None):
            _need_own_host(shard, row.host, wanted)
    _raise_if(wanted)


def _need_own_host(shard: Shard, name: str, wanted: Wanted) -> None:
    if not shard.names.host(name).foreign:
        need_host(shard, name, wanted)


def _raise_if(wanted: Wanted) -> None:
    if wanted:
        raise Lacking(wanted)


# ------------------------------------------------------------------------------------------------ settling


def need_settlements(shard: Shard, settlements: Sequence[Settlement], wanted: Wanted) -> list[Link]:
    """Request what settling needs; returns the links that must be looked up."""
    looked = []
    for settlement in settlements:
        link = settlement.visit.link
        if shard.names.id_of(link) not in shard.leases:
            continue
        looked += need_links(shard, settlement.links, settlement.refused, wanted)
        if shard.learns:
            _need_learned(shard, link.host, wanted)
        if link.purpose is Purpose.ROBOTS:
            need_host(shard, urls.host(link.origin), wanted)
            if settlement.again is not None:
                _need_robots(shard, hop_of(link, settlement.again), wanted)
        elif settlement.again is not None:
            need_host(shard, settlement.again.host, wanted)
        for each in settlement.beside:
            if not shard.names.host(each.link.host).foreign:
                need_host(shard, each.link.host, wanted)
        if settlement.page is not None:
            if "?" in settlement.page.key or (shard.samples and settlement.page.key in shard.samples.groups):
                learned, pages = repeating.need(shard, settlement.page)
                wanted.learned += learned
                wanted.pages += pages
            _need_page(shard, settlement.page, shard.names.id_of(link), wanted)
    return looked


def _need_learned(shard: Shard, name: str, wanted: Wanted) -> None:
    for each in (name, of_domain(shard.names.host(name).domain)):
        if each not in shard.learned:
            wanted.learned.append(each)


def _need_page(shard: Shard, page: Page, id16: bytes, wanted: Wanted) -> None:
    need_host(shard, page.host, wanted)
    row = shard.leases[id16].row
    if row is not None and (row.attempts or row.crawl_count or row.status):  # there may be an earlier one
        wanted.pages.append(id16)
    by_digest, by_simhash = indexed(page)
    if by_digest and (page.domain, page.digest) not in shard.compared:
        wanted.digests.append((page.domain, page.digest))
    if by_simhash and page.simhash is not None:
        if shard.nearby.lacks(page.domain, page.simhash):
            shard.simhashes.setdefault((page.domain, page.simhash), None)
        else:
            wanted.simhashes.append((page.domain, page.simhash))


def need_hosts_of_pages(shard: Shard) -> None:
    """Request the hosts of pages to be replaced: they may differ from those of the new ones."""
    wanted = Wanted()
    for row in shard.pages.values():
        if row is not None:
            need_host(shard, row.page.host, wanted)
    _raise_if(wanted)


def need_hops(shard: Shard, settlements: Sequence[Settlement]) -> None:
    """Request robots.txt hops waiting on hosts that are about to be set aside, and their origins' hosts."""
    arriving = {each.again.host for each in settlements if each.again is not None}
    for settlement in settlements:
        link = settlement.visit.link
        if shard.names.id_of(link) not in shard.leases:
            continue
        if settlement.verdict.host_aside is None and not _may_be_given_up(
            shard, settlement, len(settlements)
        ):
            continue
        name = urls.host(link.origin) if link.purpose is Purpose.ROBOTS else link.host
        host = None if shard.names.host(name).foreign else shard.hosts[name]
        need_hops_of(shard, host, one_arrives=name in arriving)


def _may_be_given_up(shard: Shard, settlement: Settlement, most: int) -> bool:
    """Whether settling may give up the host. `most`: so many failures of it may be settled together."""
    heard = settlement.verdict.heard
    if heard is None or not heard.sign or not heard.parks:
        return False
    host = shard.hosts[settlement.visit.link.host]
    pace = None if host is None or host.extra is None else host.extra.pace
    return (pace.failures if pace else 0) + most >= shard.politeness.park_after


def need_hops_of(shard: Shard, host: HostRow | None, *, one_arrives: bool = False) -> None:
    """The same for one host. `one_arrives`: one may be queued there in the same step, before it is set aside."""
    if host is None or not (host.hops or one_arrives):
        return
    window = shard.queue(host, Level.CRITICAL)
    window.has(host.hops + 1 if one_arrives else min(host.hops + 1, host.levels[Level.CRITICAL]))
    wanted = Wanted()
    for spot in window.keys[: host.hops]:
        need_host(shard, urls.host(shard.waiting(window, spot).origin), wanted)
    _raise_if(wanted)


# ------------------------------------------------------------------------------------------------ obeying


def need_blocking(shard: Shard, names: Sequence[str]) -> None:
    """Request what blocking these hosts needs."""
    _need_hosts(shard, names)
    for name in names:
        host = shard.hosts[name]
        if host is not None and host.aside is None:
            need_hops_of(shard, host)


def _need_hosts(shard: Shard, names: Sequence[str]) -> None:
    wanted = Wanted()
    for name in names:
        need_host(shard, name, wanted)
    _raise_if(wanted)


def need_taking_back(shard: Shard, names: Sequence[str]) -> None:
    """Request what taking these hosts back needs."""
    _need_hosts(shard, names)
    wanted = Wanted()
    for name in names:
        host = shard.hosts[name]
        if host is None or host.aside is None:
            continue
        if name not in shard.parked:
            wanted.parked.append(name)
        wanted.robots += [origin for origin in origins_of(name) if origin not in shard.rules]
    _raise_if(wanted)


def need_retries(shard: Shard, ids: Sequence[bytes]) -> None:
    """Request what retrying these URLs needs."""
    wanted = Wanted(urls=[id16 for id16 in ids if not shard.has_row(id16)])
    _raise_if(wanted)
    need_hosts_of_rows(shard, ids)
    for id16 in ids:
        row = shard.row(id16)
        if row is not None and (origin := urls.origin(row.url)) not in shard.rules:
            wanted.robots.append(origin)
    _raise_if(wanted)


# ------------------------------------------------------------------------------------------------ taking a shard over


def need_leases(shard: Shard, leases: dict[bytes, Visit]) -> Wanted:
    """Request what recovering these visits needs."""
    wanted = Wanted(urls=list(leases))
    for visit in leases.values():
        need_host(shard, visit.link.host, wanted)
        if visit.link.purpose is Purpose.ROBOTS:
            _need_robots(shard, visit.link, wanted)
    return wanted


def need_pages(shard: Shard, pages: Sequence[PageRow]) -> Wanted:
    """Request what reopening these needs, except the hosts of their URLs, which the rows name."""
    wanted = Wanted(urls=[row.id for row in pages], pages=[row.id for row in pages])
    for row in pages:
        need_host(shard, row.page.host, wanted)
    return wanted


def need_hosts_of_rows(shard: Shard, ids: Sequence[bytes]) -> None:
    """Request the hosts that loaded rows name."""
    wanted = Wanted()
    for id16 in ids:
        row = shard.row(id16)
        if row is not None:
            need_host(shard, row.host, wanted)
    _raise_if(wanted)


# ------------------------------------------------------------------------------------------------ leasing


def look_ahead(shard: Shard, count: int, wanted: Wanted, now: float) -> Wanted:
    """Add what the next hosts will need to what is missing."""
    lists = [
        Times(kind, window.horizon, window.size) for kind, window in shard.times.items() if window.lacks(1)
    ]
    wanted.times = list({ask.kind: ask for ask in (*wanted.times, *lists)}.values())
    wanted.agenda = list(dict.fromkeys((*wanted.agenda, *shard.agenda.lacking())))
    _look_at_due(shard, now, wanted)
    each = 1 + (depth_of(shard, shard.usual_delay) if shard.ahead else 0)
    later = shard.agenda.later(now + shard.ahead, count) if shard.ahead else []
    for name in (*shard.agenda.ready(min(count, _LOOK_AHEAD)), *(name for _, name in later)):
        _look_at_host(shard, name, each, wanted)
    wanted.heads = list({(ask.host, ask.level): ask for ask in wanted.heads}.values())
    wanted.robots = [origin for origin in wanted.robots if origin not in shard.rules]
    return wanted


def _look_at_due(shard: Shard, now: float, wanted: Wanted) -> None:
    for window in shard.times.values():
        for (time, id16), name in window.in_memory(_DUE_AT_ONCE):
            if time > now:
                break
            need_host(shard, name, wanted)
            if not shard.has_row(id16):
                wanted.urls.append(id16)


def _look_at_host(shard: Shard, name: str, each: int, wanted: Wanted) -> None:
    host = shard.hosts.get(name)
    if host is None:
        wanted.hosts.append(name)
        wanted.robots += [f"https://{name}", f"http://{name}"]
        if shard.learns:
            _need_learned(shard, name, wanted)
        return
    queue, _ = drawn(host, only_assets=shard.only_assets)
    if queue < 0:
        return
    if shard.learns:
        _need_learned(shard, name, wanted)
    window, count = shard.queue(host, queue), min(each, host.levels[queue])
    if window.lacks(count):
        wanted.heads.append(Heads(name, queue, window.horizon, max(window.size, count - len(window))))
    if not window.keys:
        wanted.robots += [f"https://{name}", f"http://{name}"]
    else:
        row = shard.waiting(window, window.keys[0])
        wanted.robots.append(row.origin or urls.origin(row.url))


def depth_of(shard: Shard, delay: float) -> int:
    """How many visits of a host fit into the lease-ahead time."""
    if delay >= shard.ahead:
        return shard.per_host
    return shard.per_host - 1 + min(AT_ONCE, ceil(shard.ahead / max(delay, shard.ahead / AT_ONCE)))


# ------------------------------------------------------------------------------------------------ into memory


def take_in(shard: Shard, wanted: Wanted, found: Found) -> None:
    """Put an answer into memory.

    It is as of the last write: rows and hosts that this verb has changed since are newer, and are not replaced.
    """
    for id16 in wanted.urls:
        if not shard.has_row(id16):
            row = found.urls.get(id16)
            if row is None:
                shard.rows[id16] = None
            else:
                shard.adopt(row)
    for name in wanted.hosts:
        _take_host(shard, name, found.hosts.get(name))
    for origin in wanted.robots:
        shard.rules.setdefault(origin, rules_of(found.robots.get(origin)))
    for name in wanted.learned:
        shard.learned.setdefault(name, found.learned.get(name))
    for host, rows in found.parked.items():
        shard.parked[host] = shard.adopted(rows)
    for id16 in wanted.pages:
        shard.pages.setdefault(id16, found.pages.get(id16))
    for digest in wanted.digests:
        shard.digests.setdefault(digest, found.digests.get(digest))
    for simhash in wanted.simhashes:
        shard.simhashes.setdefault(simhash, found.simhashes.get(simhash))
    for domain, _ in wanted.domains:
        shard.nearby.hold(domain, found.domains.get(domain, []))
    _fill_windows(shard, wanted, found)


def _take_host(shard: Shard, name: str, host: HostRow | None) -> None:
    shard.hosts.setdefault(name, widened(host))


def _fill_windows(shard: Shard, wanted: Wanted, found: Found) -> None:
    if wanted.heads:
        changed = _queued_now(shard)
        for ask, rows in zip(wanted.heads, found.heads, strict=True):
            window = shard.queues.get((ask.host, ask.level))
            if window is not None and ask.after == window.horizon:
                found_rows = [(row.spot(), row.id, row) for row in rows]
                shard.fill_queue(ask, found_rows, window, changed[ask.host, ask.level])
    for span, hosts in zip(wanted.agenda, found.agenda, strict=True):
        for host in hosts:
            _take_host(shard, host.name, host)
        shard.agenda.fill(span, [(host.place, host.name) for host in hosts])
    for times, waiting in zip(wanted.times, found.times, strict=True):
        shard.fill_times(times, waiting)


def _queued_now(shard: Shard) -> defaultdict[tuple[str, int], list[UrlRow]]:
    """Rows that this verb has queued, by host and queue."""
    changed: defaultdict[tuple[str, int], list[UrlRow]] = defaultdict(list)
    for row in shard.batch.urls.values():
        if row is not None and row.state == QUEUED and row.due is None:
            changed[row.host, row.level].append(row)
    return changed

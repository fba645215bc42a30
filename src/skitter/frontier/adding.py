"""Links in: each URL once, wherever it comes from, and links of other shards on their way to them."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from skitter import urls
from skitter.frontier import rules
from skitter.frontier.aside import take_back
from skitter.frontier.held import ALWAYS, NEVER, Rank
from skitter.frontier.names import Named
from skitter.frontier.rows import (
    FAILED,
    FOREIGN,
    QUEUED,
    REFUSED,
    STATES,
    Heads,
    HostRow,
    UrlRow,
    Wanted,
    url_row,
)
from skitter.frontier.shard import Shard
from skitter.model import Level, Link, Purpose, Reason

# ------------------------------------------------------------------------------------------------ what is needed


def need_all(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], wanted: Wanted
) -> list[Link]:
    """Ask for what adding these links takes; says which of them have to be looked at."""
    looked, known, told = [], shard.names.known, shard.names.refused
    for link in links:
        if id(link) in known:
            continue
        if link.purpose is Purpose.ROBOTS:
            need_robots(shard, link, wanted)
        elif _need(shard, link, wanted):
            looked.append(link)
    for link, _ in refused:
        if id(link) not in told:
            id16 = shard.names.id_of(link)
            if id16 not in shard.seen and not shard.has_row(id16):
                wanted.urls.append(id16)
    return looked


def need_host(shard: Shard, name: str, wanted: Wanted) -> None:
    """Ask for a host that is not in memory."""
    if name not in shard.hosts:
        wanted.hosts.append(name)


def need_robots(shard: Shard, link: Link, wanted: Wanted) -> None:
    """Ask for what a robots.txt on its way takes: a copy its host, a hop also the host that it leads to."""
    need_host(shard, urls.host(link.origin), wanted)
    need_host(shard, link.host, wanted)
    id16 = shard.names.id_of(link)
    if not shard.has_row(id16):
        wanted.urls.append(id16)


def _need(shard: Shard, link: Link, wanted: Wanted) -> bool:
    id16, named = shard.names.id_of(link), shard.names.host(link.host)
    rank = shard.seen.get(id16)
    if rank is not None and not link.seed and _rank(link) >= rank:
        return False
    if named.foreign and shard.by_mail:
        return False
    if not shard.has_row(id16):
        wanted.urls.append(id16)
    if not named.foreign:
        need_host(shard, link.host, wanted)
        if rules.names_seed(link) and (origin := urls.origin(link.url)) not in shard.rules:
            wanted.robots.append(origin)
    return True


def need_more(shard: Shard, looked: Sequence[Link]) -> Wanted | None:
    """What the rows have shown to be needed besides: hosts of links that wait, and what waits on hosts taken back."""
    wanted = Wanted()
    for link in looked:
        host = shard.hosts.get(link.host)
        taken_back = host is not None and rules.names_seed(link) and rules.passing(host.aside)
        if taken_back and link.host not in shard.parked:
            wanted.parked.append(link.host)
        row = shard.row(shard.names.id_of(link))
        if row is not None and row.state == QUEUED:
            need_host(shard, row.host, wanted)
    return wanted or None


def find_heads(shard: Shard) -> Wanted | None:
    """Give hosts whose first link has moved away the next one."""
    wanted = Wanted()
    for (_, level), host in list(shard.headless.items()):
        need_heads(shard, host, level, 1, wanted)
        first = shard.queue(host, level).first()
        if first is not None:
            host.heads[level] = first[0]
            del shard.headless[host.name, level]
            shard.touch(host)
    return wanted or None


def need_heads(shard: Shard, host: HostRow, level: int, count: int, wanted: Wanted) -> None:
    """Ask for the first links of a host's level, so many, unless they are in memory."""
    window = shard.queue(host, level)
    if window.lacks(count):
        wanted.heads.append(Heads(host.name, level, window.horizon, max(window.size, count - len(window))))


# ------------------------------------------------------------------------------------------------ what is done


def add(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float
) -> list[bytes]:
    """Accept and refuse links; the ids of all, in order. How many were new shows in the counts."""
    names, seen, counts = shard.names, shard.seen, shard.counts
    ids = [names.known.get(id(link)) for link in links]
    others = [] if all(ids) else [place for place, id16 in enumerate(ids) if id16 is None]
    known = len(ids) - len(others)
    for place in others:
        link = links[place]
        id16 = ids[place] = names.id_of(link)
        if link.purpose is Purpose.ROBOTS:
            _add_robots(shard, link, now)
            continue
        rank = seen.get(id16)
        if rank is not None and not link.seed and _rank(link) >= rank:
            known += 1
            names.known[id(link)] = id16
        else:
            _look_at(shard, id16, link, now)
    counts.seen += known
    counts.known += known
    return cast("list[bytes]", ids) + [_refuse(shard, link, reason, now) for link, reason in refused]


def _rank(link: Link) -> Rank:
    return int(link.level), -link.score


def _look_at(shard: Shard, id16: bytes, link: Link, now: float) -> None:
    """A link that is new or was not offered as urgently, or a seed."""
    host = shard.names.host(link.host)
    if host.foreign and shard.by_mail:
        shard.send(link)
        shard.seen[id16] = NEVER
        return
    row = shard.row(id16)
    named = rules.names_seed(link) and not host.foreign
    if named:
        _take_back(shard, link)
    if row is not None and not _may_enter(shard, row, link, named=named):
        shard.counts.seen += 1
        shard.counts.known += 1
        _move_forward(shard, row, link)
    elif host.foreign:
        _forward(shard, id16, row, link, host, now)
    else:
        if named and row is not None:
            shard.forget_ban(urls.origin(link.url))
        _accept(shard, id16, row, link, host, now)


def _take_back(shard: Shard, seed: Link) -> None:
    """A host that was set aside for a while is wanted again by name."""
    host = shard.hosts[seed.host]
    if host is not None and rules.passing(host.aside):
        take_back(shard, host)
        shard.forget_ban(urls.origin(seed.url))


def _may_enter(shard: Shard, row: UrlRow, link: Link, *, named: bool) -> bool:
    if row.state not in (REFUSED, FAILED):
        return False
    host = shard.hosts.get(link.host)
    if host is not None and host.aside is not None:
        return False
    return rules.may_enter(STATES[row.state], visited=row.seq > 0, named=named)


def _accept(shard: Shard, id16: bytes, known: UrlRow | None, link: Link, named: Named, now: float) -> None:
    """A link that is new, or one that was refused or has failed and may try again."""
    shard.counts.seen += 1
    host = shard.host(link.host)
    row = url_row(id16, link, named.domain, now)
    if known is None:
        if host.aside is not None:
            _keep_refused(shard, row, host.aside)
            return
    else:
        shard.leave(known)
        row.first_seen, row.status, row.crashes = known.first_seen, known.status, known.crashes
        row.crawl_count, row.last_crawl = known.crawl_count, known.last_crawl
    row.seq = shard.next_seq()
    shard.enqueue(row)
    shard.counts.added += known is None or not known.seq


def _keep_refused(shard: Shard, row: UrlRow, reason: Reason) -> None:
    """Its sequence number stays 0: it was never accepted, and may be by the next one who offers it."""
    shard.enter(row, REFUSED, reason)
    shard.keep(row)
    shard.seen[row.id] = ALWAYS


def _forward(shard: Shard, id16: bytes, known: UrlRow | None, link: Link, named: Named, now: float) -> None:
    """A link of another shard is sent there once. Its owner counts it."""
    if known is not None:
        shard.leave(known)
    shard.keep(UrlRow(id16, link.url, link.key, link.host, named.domain, FOREIGN, first_seen=now))
    shard.send(link)
    shard.seen[id16] = NEVER


def _move_forward(shard: Shard, row: UrlRow, link: Link) -> None:
    """A link that still waits is wanted more urgently by somebody else. It keeps its age."""
    if row.state != QUEUED:
        shard.seen[row.id] = ALWAYS if row.state == REFUSED and not row.seq else NEVER
        return
    if rules.better(link.level, link.score, row.level, row.score):
        level, spot = row.level, row.spot()
        if row.due is None:
            shard.take(shard.host(row.host), level, spot)
        row.level, row.score = int(link.level), link.score
        if link.depth < row.depth:
            row.depth, row.parent = link.depth, link.parent
        if row.due is None:
            shard.push(shard.host(row.host), row)
        else:
            shard.keep(row)
    shard.seen[row.id] = row.level, -row.score


def _refuse(shard: Shard, link: Link, reason: Reason, now: float) -> bytes:
    shard.counts.seen += 1
    told = shard.names.refused.get(id(link))
    if told is not None:
        shard.counts.known += 1
        return told
    id16 = shard.names.refused[id(link)] = shard.names.id_of(link)
    if id16 in shard.seen or shard.row(id16) is not None:
        shard.counts.known += 1
        shard.seen.setdefault(id16, ALWAYS)
    else:
        _keep_refused(shard, url_row(id16, link, shard.names.host(link.host).domain, now), reason)
    return id16


# ------------------------------------------------------------------------------------------------ robots.txt


def _add_robots(shard: Shard, link: Link, now: float) -> None:
    """A hop of a robots.txt, or a copy of one, that another shard sends."""
    copy = rules.carried(link)
    if copy is not None:
        shard.keep_robots(copy)
    else:
        queue_hop(shard, link, now)


def queue_hop(shard: Shard, hop: Link, now: float) -> None:
    """The next hop of a robots.txt waits on its own host, before every page there."""
    host = shard.host(hop.host)
    if host.aside is not None:
        problem = f"robots.txt is at {hop.url}, and {host.name} is set aside: {host.aside.detail}"
        shard.keep_robots(rules.unreachable(hop.origin, problem, now))
        return
    id16 = shard.names.id_of(hop)
    if id16 not in shard.leases and shard.row(id16) is None:
        shard.put_back(hop.host)
        hop = replace(hop, level=Level.CRITICAL, score=rules.BEFORE_ALL)
        row = url_row(id16, hop, shard.names.host(hop.host).domain, now)
        row.seq = shard.next_seq()
        shard.enqueue(row)

"""Visits out: what may be made now or soon, and when something may be made that may not be made yet.

Each function goes as far as memory does. Where something has to be asked of the engine first, it says what (`Wanted`), has
changed nothing that it would change again, and is called once more with the answer in memory.
"""

from math import ceil, inf

from skitter import urls
from skitter.frontier import rules
from skitter.frontier.adding import need_heads, need_host
from skitter.frontier.agenda import drawn, is_ready
from skitter.frontier.held import IDLE, Lease, Rules
from skitter.frontier.loading import lacking
from skitter.frontier.rows import QUEUED, RECRAWL, RETRY, HostRow, UrlRow, Wanted, link_of
from skitter.frontier.rules import Suspicion
from skitter.frontier.shard import Shard
from skitter.model import Purpose, Visit

# Hosts and URLs that become due are moved when visits are leased. After a long stop there may be very many; what is left
# over is moved with the next lease, and `next_due` says that it is time.
_MOVED_AT_ONCE = 1_000
AT_ONCE = 64  # visits of one host that are taken out together, at most
_LOOK_AHEAD = 256  # hosts of each level whose links are asked for together
_TRUSTED = Suspicion()

# ------------------------------------------------------------------------------------------------ exactly now


def lease(shard: Shard, limit: int, now: float, visits: list[Visit]) -> Wanted | None:
    """Take out visits that may be made now, and hand them out. To be written before they are used."""
    wanted = prepare(shard, now)
    if wanted is not None:
        return wanted
    while len(visits) < limit and not shard.alone:
        wanted = lacking(shard)
        if wanted is not None:
            return wanted
        chosen = chosen_host(shard)
        if chosen is None:
            return None
        taken = take(shard, chosen[0], now)
        if isinstance(taken, Wanted):
            return look_ahead(shard, limit - len(visits), taken)
        if taken is None:
            return None
        shard.agenda.turn = chosen[1]
        visits.append(hand_out(shard, taken, now))
    return None


def prepare(shard: Shard, now: float) -> Wanted | None:
    """Everything that is due is in its queue, and every host whose clock has come is ready."""
    for host in shard.moved.values():
        shard.place(host, now)
    shard.moved.clear()
    return lacking(shard) or bring_back(shard, now) or lacking(shard) or _free_hosts(shard, now)


def bring_back(shard: Shard, now: float) -> Wanted | None:
    """Put retries and recrawls that are due into the queue."""
    wanted, due = Wanted(), []
    for window in shard.times.values():
        for (time, id16), name in window.heads(_MOVED_AT_ONCE):
            if time > now:
                break
            due.append(id16)
            need_host(shard, name, wanted)
            if not shard.has_row(id16):
                wanted.urls.append(id16)
    if wanted:
        return wanted
    for id16 in due:
        row = shard.row(id16)
        if row is None:
            raise AssertionError(f"{id16.hex()} is due and has no row")
        _bring_back(shard, row)
    for host in shard.moved.values():
        shard.place(host, now)
    return None


def _bring_back(shard: Shard, row: UrlRow) -> None:
    host = shard.host(row.host)
    if host.aside is not None:
        shard.park(row)
        return
    shard.leave(row)
    if row.state == QUEUED:
        host.waiting -= 1
        shard.touch(host)
    shard.set_due(row, None)
    shard.enqueue(row)


def _free_hosts(shard: Shard, now: float) -> Wanted | None:
    """Hosts whose clock has come are ready."""
    wanted = Wanted()
    free = shard.agenda.later(now, _MOVED_AT_ONCE)
    for _, name in free:
        need_host(shard, name, wanted)
    if wanted:
        return wanted
    for _, name in free:
        shard.place(shard.host(name), now)
    return lacking(shard)


def chosen_host(shard: Shard) -> tuple[str, int] | None:
    """The host that is next, and the turn of the levels after it."""
    if shard.drain and not _is_draining(shard):
        shard.drain = ""
    if not shard.drain:
        return shard.agenda.next_ready()
    return None if shard.leases else (shard.drain, shard.agenda.turn)


def _is_draining(shard: Shard) -> bool:
    """Whether the suspected visit that waits for the others to end still may be next."""
    host = shard.hosts.get(shard.drain)
    return host is not None and is_ready(host.place)


def take(shard: Shard, name: str, now: float) -> Lease | Wanted | None:
    """Take out the next visit of a host: its link by level and score, its robots.txt first, as of when the host is free.

    None when it is suspected of killing the process, and has to wait until nothing else is in flight.
    """
    if name not in shard.hosts:
        return Wanted(hosts=[name])
    host = shard.host(name)
    level, turn = drawn(host)
    wanted = Wanted()
    need_heads(shard, host, level, min(2, host.levels[level]), wanted)
    if wanted:
        return wanted
    head = shard.queue(host, level).first()
    if head is None:
        raise AssertionError(f"the queue of {name} has lost its head")
    row: UrlRow | None = head[1]
    link, known = link_of(head[1]), rules_of(shard, head[1])
    if known is None:
        return Wanted(robots=[head[1].origin or urls.origin(link.url)])
    if link.purpose is Purpose.PAGE and known.expires <= max(now, host.ready_at()):
        link, row = rules.robots_link(urls.origin(link.url), name, link), None
    id16 = shard.names.id_of(link)
    suspicion = shard.suspects.get(id16, _TRUSTED)
    alone = rules.suspected(suspicion.crashes, suspicion.in_hand)
    if alone and shard.leases:
        _drain(shard, name)
        return None
    shard.drain = ""
    attempt = head[1].attempts + 1 if link.purpose is Purpose.PAGE else 1 + known.tries + suspicion.crashes
    if row is not None:
        if row.id not in shard.rows:  # else this verb has it, and knows where the engine does
            shard.adopt(row)
        shard.take(host, level, head[0])
        host.turn = turn
        host.hops -= bool(row.origin)
        shard.counts.queued -= 1
    holds = known.expires if link.purpose is Purpose.PAGE else inf
    taken = Lease(_visit(shard, host, Visit(link, attempt, now, alone), now), row, holds)
    shard.begin(id16, taken)
    return taken


def rules_of(shard: Shard, row: UrlRow) -> Rules | None:
    """What is known of the rules that a link is under, or that it will bring; None when they are not in memory."""
    return shard.rules.get(row.origin or urls.origin(row.url))


def _drain(shard: Shard, name: str) -> None:
    """Nothing more is handed out until a suspect may go alone."""
    shard.drain = name
    for host in list(shard.reserve.hosts):
        if host != name:
            shard.put_back(host)


def _visit(shard: Shard, host: HostRow, visit: Visit, now: float) -> Visit:
    pages = host.pages + shard.flights.get(host.name, IDLE).visits  # no robots.txt is in flight here now
    return Visit(visit.link, visit.attempt, now, visit.alone, pages, host.free_at)


def hand_out(shard: Shard, taken: Lease, now: float) -> Visit:
    """Give a visit to its maker."""
    link = taken.visit.link
    host = shard.host(link.host)
    taken.visit, taken.handed = _visit(shard, host, taken.visit, now), True
    shard.fly(link.host, link.purpose)
    if shard.per_host > 1:  # the answer is not awaited, so the clock runs from the request
        host.free_at = max(host.free_at, now + host.delay)
        shard.touched[host.name] = host
    shard.place(host, now)
    return taken.visit


def look_ahead(shard: Shard, count: int, wanted: Wanted) -> Wanted:
    """What the hosts that are soon next will need, asked for together with what this one does."""
    each = 1 + (0 if not shard.ahead else depth_of(shard, shard.delay))
    for name in shard.agenda.ready(min(count, _LOOK_AHEAD)):
        host = shard.hosts.get(name)
        if name not in shard.hosts:
            wanted.hosts.append(name)
        if host is None:
            wanted.robots += [f"https://{name}", f"http://{name}"]
            continue
        level, _ = drawn(host)
        need_heads(shard, host, level, min(each, host.levels[level]), wanted)
        first = shard.queue(host, level).first()
        if first is None:
            wanted.robots += [f"https://{name}", f"http://{name}"]
        elif rules_of(shard, first[1]) is None:
            wanted.robots.append(first[1].origin or urls.origin(first[1].url))
    wanted.heads = list(dict.fromkeys(wanted.heads))
    wanted.robots = [origin for origin in dict.fromkeys(wanted.robots) if origin not in shard.rules]
    return wanted


def depth_of(shard: Shard, delay: float) -> int:
    """How many visits of a host fit into the time that is looked ahead."""
    if delay >= shard.ahead:
        return shard.per_host
    return shard.per_host - 1 + min(AT_ONCE, ceil(shard.ahead / max(delay, shard.ahead / AT_ONCE)))


# ------------------------------------------------------------------------------------------------ when


def next_due(shard: Shard, now: float, refill_at: float) -> float | Wanted | None:
    """When a lease may give more than now; None when nothing waits but for visits in flight."""
    wanted = lacking(shard)
    if wanted is not None:
        return wanted
    if shard.alone and shard.leases[shard.alone].handed:
        return None
    if shard.drain and shard.leases and _is_draining(shard):
        return None
    reserved, later = shard.reserve.next_time(), shard.agenda.next_later()
    times = [] if reserved is None else [reserved]
    if shard.agenda.next_ready() is not None:
        times.append(refill_at)
    if later is not None:
        times.append(max(later - shard.ahead, refill_at))
    for kind in (RETRY, RECRAWL):
        first = _first_wanted(shard, kind)
        if isinstance(first, Wanted):
            return first
        if first is not None and (
            kind == RETRY or first <= now
        ):  # a later recrawl is no work of this crawl yet
            times.append(max(first, refill_at))
    return max(now, min(times)) if times else None


def _first_wanted(shard: Shard, kind: str) -> float | Wanted | None:
    """The earliest time in a list that is not of a host that was set aside meanwhile."""
    while (first := shard.times[kind].first()) is not None:
        (time, id16), name = first
        wanted = Wanted()
        need_host(shard, name, wanted)
        if wanted:
            return wanted
        if shard.host(name).aside is None:
            return time
        if not shard.has_row(id16):
            return Wanted(urls=[id16])
        row = shard.row(id16)
        if row is None:
            raise AssertionError(f"{id16.hex()} is due and has no row")
        shard.park(row)
        wanted_more = lacking(shard)
        if wanted_more is not None:
            return wanted_more
    return None

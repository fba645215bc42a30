"""Visits out: what may be made now or soon, and when something may be made that may not be made yet.

Each function goes as far as memory does. Where something has to be asked of the engine first, it says what (`Wanted`), has
changed nothing that it would change again, and is called once more with the answer in memory.
"""

from math import ceil

from skitter import urls
from skitter.backends import rules
from skitter.backends.remote.adding import need_heads, need_host
from skitter.backends.remote.agenda import drawn, is_ready
from skitter.backends.remote.held import IDLE, Lease, Rules
from skitter.backends.remote.loading import lacking
from skitter.backends.remote.rows import QUEUED, RECRAWL, RETRY, HostRow, Suspicion, UrlRow, Wanted, link_of
from skitter.backends.remote.shard import Shard
from skitter.model import Purpose, Visit

# Hosts and URLs that become due are moved when visits are leased. After a long stop there may be very many; what is left
# over is moved with the next lease, and `next_due` says that it is time.
_MOVED_AT_ONCE = 1_000
_AT_ONCE = 64  # visits of one host that are taken out together, at most
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
        chosen = _chosen(shard)
        if chosen is None:
            return None
        taken = take(shard, chosen[0], now, now)
        if isinstance(taken, Wanted):
            return _look_ahead(shard, limit - len(visits), taken)
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


def _chosen(shard: Shard) -> tuple[str, int] | None:
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


def take(shard: Shard, name: str, now: float, until: float) -> Lease | Wanted | None:
    """Take out the next visit of a host: its link by level and score, its robots.txt first, which must hold until then.

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
    link, known = link_of(head[1]), _rules(shard, head[1])
    if known is None:
        return Wanted(robots=[head[1].origin or urls.origin(link.url)])
    if link.purpose is Purpose.PAGE and known.expires <= until:
        link, row = rules.robots_link(urls.origin(link.url), name), None
    id16 = shard.names.id_of(link)
    suspicion = shard.suspects.get(id16, _TRUSTED)
    alone = rules.suspected(suspicion.crashes, suspicion.in_hand)
    if alone and shard.leases:
        _drain(shard, name)
        return None
    shard.drain = ""
    attempt = head[1].attempts + 1 if link.purpose is Purpose.PAGE else 1 + known.tries + suspicion.crashes
    if row is not None:
        shard.adopt(row)
        shard.take(host, level, head[0])
        host.turn = turn
        host.hops -= bool(row.origin)
        shard.counts.queued -= 1
    taken = Lease(_visit(shard, host, Visit(link, attempt, now, alone), now), row, known.expires)
    shard.begin(id16, taken)
    return taken


def _rules(shard: Shard, row: UrlRow) -> Rules | None:
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


def _look_ahead(shard: Shard, count: int, wanted: Wanted) -> Wanted:
    """What the hosts that are soon next will need, asked for together with what this one does."""
    each = 1 + (0 if not shard.ahead else _depth(shard, shard.delay))
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
        elif _rules(shard, first[1]) is None:
            wanted.robots.append(first[1].origin or urls.origin(first[1].url))
    wanted.heads = list(dict.fromkeys(wanted.heads))
    wanted.robots = [origin for origin in dict.fromkeys(wanted.robots) if origin not in shard.rules]
    return wanted


# ------------------------------------------------------------------------------------------------ ahead


def take_ahead(shard: Shard, target: int, now: float) -> Wanted | None:
    """Take out visits of hosts that are free, then of those that are free soon, until so many wait to be handed out."""
    _put_back_what_lost_its_rules(shard, now)
    wanted = prepare(shard, now)
    if wanted is not None:
        return wanted
    until = now + shard.ahead
    while shard.reserve.size < target and not shard.alone:
        wanted = lacking(shard)
        if wanted is not None:
            return wanted
        chosen = _chosen(shard)
        if chosen is None:
            break
        wanted = _reserve(shard, chosen[0], now, until)
        if wanted is not None:
            return _look_ahead(shard, target - shard.reserve.size, wanted)
        if shard.drain:
            return None
        shard.agenda.turn = chosen[1]
    if shard.alone or shard.drain:
        return None
    return _take_later(shard, target, now, until)


def _take_later(shard: Shard, target: int, now: float, until: float) -> Wanted | None:
    soon = shard.agenda.later(until, max(0, target - shard.reserve.size))
    wanted = Wanted()
    for _, name in soon:
        if name not in shard.hosts:
            wanted.hosts.append(name)
        elif (host := shard.hosts[name]) is not None:
            level, _ = drawn(host)
            need_heads(
                shard,
                host,
                level,
                min(1 + _depth(shard, host.delay or shard.delay), host.levels[level]),
                wanted,
            )
            first = shard.queue(host, level).first()
            if first is not None and _rules(shard, first[1]) is None:
                wanted.robots.append(first[1].origin or urls.origin(first[1].url))
    if wanted:
        return wanted
    for _, name in soon:
        if not _is_suspect(shard, name):
            wanted_more = _reserve(shard, name, now, until)
            if wanted_more is not None:
                return wanted_more
    return None


def _is_suspect(shard: Shard, name: str) -> bool:
    """A host whose next visit may have to be made alone waits until it is free."""
    if not shard.suspects:
        return False
    host = shard.host(name)
    first = shard.queue(host, drawn(host)[0]).first()
    if first is None:
        return False
    robots = rules.robots_link(urls.origin(first[1].url), name)
    return any(id16 in shard.suspects for id16 in (first[1].id, shard.names.id_of(robots)))


def _reserve(shard: Shard, name: str, now: float, until: float) -> Wanted | None:
    """Take out the next visits of a host, several when it is free again at once."""
    depth = 1
    for number in range(_AT_ONCE + shard.per_host):
        if number >= depth:
            break
        taken = take(shard, name, now, until)
        if taken is None:
            break
        if isinstance(taken, Wanted):
            if number:  # what has been taken out is enough for now
                break
            return taken
        host = shard.host(name)
        shard.reserve.put(name, shard.names.id_of(taken.visit.link), host.ready_at())
        depth = 1 if _is_last(shard, host, taken) else _depth(shard, host.delay or shard.delay)
    shard.place(shard.host(name), now)
    return None


def _is_last(shard: Shard, host: HostRow, taken: Lease) -> bool:
    """Whether nothing of a host may be taken out behind this visit."""
    if taken.visit.link.purpose is Purpose.ROBOTS or taken.visit.alone:
        return True
    return not any(host.levels) or host.hops > 0 or _is_suspect(shard, host.name)


def _depth(shard: Shard, delay: float) -> int:
    """How many visits of a host fit into the time that is looked ahead."""
    if delay >= shard.ahead:
        return shard.per_host
    return shard.per_host - 1 + min(_AT_ONCE, ceil(shard.ahead / max(delay, shard.ahead / _AT_ONCE)))


def _put_back_what_lost_its_rules(shard: Shard, now: float) -> None:
    for name in list(shard.reserve.hosts):
        if any(shard.leases[id16].until <= now for id16 in shard.reserve.hosts[name]):
            shard.put_back(name)


def hand_out_reserved(shard: Shard, limit: int, now: float) -> list[Visit]:
    """Visits that were taken out before and may be made now. Nothing has to be written for them."""
    visits: list[Visit] = []
    if shard.drain and not shard.alone:
        return visits
    while len(visits) < limit and (name := shard.reserve.next(now)) is not None:
        host, id16 = shard.host(name), shard.reserve.hosts[name][0]
        taken = shard.leases[id16]
        page = taken.visit.link.purpose is Purpose.PAGE
        ready_at = max(host.free_at, host.held) if page else host.free_at
        if not shard.has_room(name):
            continue  # `end` will look at it again
        if ready_at > now or (page and taken.until <= now) or (shard.alone and shard.alone != id16):
            shard.reserve.look_at(name, max(ready_at, now + shard.ahead / 2))
            continue
        shard.reserve.remove(name, id16)
        visits.append(hand_out(shard, taken, now))
        if shard.has_room(name):
            shard.reserve.look_at(name, max(now, host.free_at))
    return visits


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

"""Visits out: what may be made now, and when something may be made that may not be made yet."""

from skitter import urls
from skitter.backends.rocksdb.layout import PARKED
from skitter.backends.rocksdb.queue import drawn
from skitter.backends.rocksdb.records import QUEUED, Entry, HostState, decode_entry, link_of
from skitter.backends.rocksdb.shard import IDLE, Shard
from skitter.backends.rocksdb.window import Window
from skitter.frontier import rules
from skitter.frontier.rules import Suspicion
from skitter.frontier.sortable import time_of
from skitter.model import Link, Visit

# Hosts and URLs that become due are moved when visits are leased. After a long stop there may be very many; what is left
# over is moved with the next lease, and `next_due` says that it is time.
_MOVED_AT_ONCE = 2_000
_TRUSTED = Suspicion()


def lease(shard: Shard, limit: int, now: float) -> list[Visit]:
    """Take out visits that may be made now. To be committed before they are handed out."""
    bring_back(shard, now)
    _free_hosts(shard, now)
    visits: list[Visit] = []
    while len(visits) < limit and not shard.alone and (visit := _pick(shard, now)) is not None:
        visits.append(visit)
    return visits


def bring_back(shard: Shard, now: float) -> None:
    """Put retries and recrawls that are due into the queue."""
    for window in (shard.retries, shard.recrawls):
        for _ in range(_MOVED_AT_ONCE):
            key = window.first(shard.batch)
            if key is None or time_of(key) > now:
                break
            _bring_back(shard, key[-16:], key, window)


def _bring_back(shard: Shard, id16: bytes, key: bytes, window: Window) -> None:
    entry = shard.entry(id16)
    if entry is None:
        raise AssertionError(f"{id16.hex()} is due and has no record")
    host8, state = shard.host(entry.host)
    if state.aside is not None:
        _park(shard, host8, key, window)
        return
    shard.leave(entry)
    if entry.state == QUEUED:
        state.waiting -= 1
        shard.hosts.touch(host8, state)
    shard.set_due(id16, entry, None)
    shard.enqueue_again(id16, entry)


def _park(shard: Shard, host8: bytes, key: bytes, window: Window) -> None:
    """Nobody waits for this time any more, unless its host is taken back."""
    shard.batch.delete("due", key)
    shard.batch.put("due", PARKED + host8 + key)
    window.discard(key)


def _free_hosts(shard: Shard, now: float) -> None:
    """Hosts whose clock has come are ready. Those that were just touched are placed with the commit."""
    for host8, state in shard.hosts.moved.items():
        shard.agenda.place(host8, state, room=shard.has_room(host8), now=now)
    for _ in range(_MOVED_AT_ONCE):
        following = shard.agenda.next_later()
        if following is None or following[1] > now:
            return
        state = shard.hosts.at(following[0])
        shard.agenda.place(following[0], state, room=True, now=now)
        shard.hosts.touched[following[0]] = state


def _pick(shard: Shard, now: float) -> Visit | None:
    """The next visit: the host by level and score, its link by level and score, its robots.txt first."""
    chosen = _draining(shard) or _next_ready(shard, now)
    if chosen is None or (shard.drain and shard.leases):
        return None
    host8, turn = chosen
    state = shard.hosts.at(host8)
    level, host_turn = drawn(state)
    spot = state.heads[level]
    id16 = state.domain + spot[16:]
    head = decode_entry(shard.queue.head(host8, state, level))
    link, entry = _robots_first(shard, head, now), None
    if link is None:
        link, entry = link_of(head), head
        attempt = entry.attempts + 1 if not entry.origin else _robots_attempt(shard, id16, link)
    else:
        id16 = shard.id_of(link)
        attempt = _robots_attempt(shard, id16, link)
    suspicion = shard.suspects.get(id16, _TRUSTED)
    suspect = rules.suspected(suspicion.crashes, suspicion.in_hand)
    if suspect and shard.leases:
        shard.drain = host8
        return None
    shard.drain, shard.agenda.turn = b"", turn
    if entry is not None:
        _take(shard, host8, state, level, spot)
        state.turn = host_turn
        state.hops -= bool(entry.origin)
    host_pages = state.pages + shard.flights.get(host8, IDLE).visits  # no robots.txt is in flight here now
    visit = Visit(link, attempt, now, suspect, host_pages, state.free_at)
    shard.begin(id16, host8, visit, entry)
    if shard.per_host > 1:  # the answer is not awaited, so the clock runs from the request
        state.free_at = max(state.free_at, now + state.delay)
    shard.agenda.place(host8, state, room=shard.has_room(host8), now=now)
    shard.hosts.touched[host8] = state  # it stands where it belongs already
    return visit


def _next_ready(shard: Shard, now: float) -> tuple[bytes, int] | None:
    """The host that is next.

    After a loss of power any host may have been asked a moment before it, without a trace: each waits its delay.
    """
    if shard.unsure_since is None:
        return shard.agenda.next_ready()
    for _ in range(_MOVED_AT_ONCE):
        chosen = shard.agenda.next_ready()
        if chosen is None:
            return None
        host8, state = chosen[0], shard.hosts.at(chosen[0])
        free_at = shard.unsure_since + max(state.delay, shard.delay)
        if free_at <= now:
            return chosen
        state.free_at = max(state.free_at, free_at)
        shard.agenda.place(host8, state, room=True, now=now)
        shard.hosts.touched[host8] = state
    return None


def _take(shard: Shard, host8: bytes, state: HostState, level: int, spot: bytes) -> None:
    shard.queue.remove(host8, state, level, spot)
    shard.counts.queued -= 1


def _draining(shard: Shard) -> tuple[bytes, int] | None:
    """The host whose suspected visit comes next, if it still may."""
    if not shard.drain:
        return None
    if not _is_ready(shard, shard.drain):
        shard.drain = b""
        return None
    return shard.drain, shard.agenda.turn


def _is_ready(shard: Shard, host8: bytes) -> bool:
    place = shard.hosts.at(host8).place
    return bool(place) and place[0] != 0xFF


def _robots_first(shard: Shard, entry: Entry, now: float) -> Link | None:
    """The request for the robots.txt that must come before a page, if its rules are not known."""
    if entry.origin:
        return None
    origin = urls.origin(entry.url)
    return None if shard.robots_until(origin) > now else rules.robots_link(origin, entry.host, entry)


def _robots_attempt(shard: Shard, id16: bytes, link: Link) -> int:
    copy = shard.robots(link.origin)
    return 1 + (copy.tries if copy else 0) + shard.suspects.get(id16, _TRUSTED).crashes


def next_due(shard: Shard, now: float) -> float | None:
    """When a lease may give more than now; None when nothing waits but for visits in flight."""
    if shard.alone or (shard.drain and shard.leases and _is_ready(shard, shard.drain)):
        return None
    if shard.agenda.next_ready() is not None:
        return now
    times = []
    later = shard.agenda.next_later()
    if later is not None:
        times.append(later[1])
    retry = _first_wanted(shard, shard.retries)
    if retry is not None:
        times.append(retry)
    recrawl = _first_wanted(shard, shard.recrawls) if not times or min(times) > now else None
    if recrawl is not None and recrawl <= now:  # a later one is no work of this crawl yet
        times.append(recrawl)
    return max(now, min(times)) if times else None


def _first_wanted(shard: Shard, window: Window) -> float | None:
    """The earliest time in a window that is not of a host that was set aside meanwhile."""
    while (key := window.first(shard.batch)) is not None:
        entry = shard.entry(key[-16:])
        if entry is None:
            raise AssertionError(f"{key[-16:].hex()} is due and has no record")
        host8, state = shard.host(entry.host)
        if state.aside is None:
            return time_of(key)
        _park(shard, host8, key, window)
    return None

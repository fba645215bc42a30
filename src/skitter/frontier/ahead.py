"""Lease-ahead: one write leases visits of all hosts that are free soon; they are handed out from memory in time.

For stores behind a network: hosts become free one by one, so politeness would cost a round trip per visit. In the
store these visits are leased, so a crash makes them pending like any others; the counts still show them as waiting.
"""

from skitter import urls
from skitter.frontier import robots_first
from skitter.frontier.agenda import drawn
from skitter.frontier.held import Lease
from skitter.frontier.leasing import chosen_host, hand_out, prepare, sift, take
from skitter.frontier.memory import Lacking
from skitter.frontier.prefetch import AT_ONCE, depth_of
from skitter.frontier.rows import HostRow
from skitter.frontier.shard import Shard
from skitter.model import Purpose, Visit


def take_ahead(shard: Shard, target: int, now: float) -> None:
    """Lease visits of free hosts, then of hosts that are free soon, until enough are ready to be handed out."""
    _put_back_what_lost_its_rules(shard, now)
    prepare(shard, now)
    while shard.reserve.size < target and not shard.alone:
        chosen = chosen_host(shard, now)
        if chosen is None:
            break
        _reserve(shard, chosen[0], now)
        if shard.drain:
            return
        shard.agenda.turn = chosen[1]
    if not shard.alone and not shard.drain:
        _take_later(shard, target, now)


def _take_later(shard: Shard, target: int, now: float) -> None:
    for _, name in shard.agenda.later(now + shard.ahead, max(0, target - shard.reserve.size)):
        if not _is_suspect(shard, name):
            _reserve(shard, name, now)


def _is_suspect(shard: Shard, name: str) -> bool:
    """A host whose next visit may have to run alone waits until it is free."""
    if not shard.suspects:
        return False
    host = shard.host(name)
    window = shard.queue(host, drawn(host, only_assets=shard.only_assets)[0])
    first = window.first()
    if first is None:
        return False
    row = shard.waiting(window, first[0])
    robots = robots_first.robots_link(urls.origin(row.url), name)
    return any(id16 in shard.suspects for id16 in (row.id, shard.names.id_of(robots)))


def _reserve(shard: Shard, name: str, now: float) -> None:
    """Lease the next visits of a host: several if it is free again at once."""
    depth = 1
    for number in range(AT_ONCE + shard.per_host):
        if number >= depth:
            break
        try:
            if shard.learns and not sift(shard, name, now):
                break
            taken = take(shard, name, now)
            if taken is None:
                break
            host = shard.host(name)
            shard.reserve.put(name, shard.names.id_of(taken.visit.link), max(now, _ready_at(host, taken)))
            depth = (
                1 if _is_last(shard, host, taken) else depth_of(shard, host.delay or shard.delay(host.name))
            )
        except Lacking:
            if not number:
                raise
            break  # enough is leased for now
    shard.place(shard.host(name), now)


def _is_last(shard: Shard, host: HostRow, taken: Lease) -> bool:
    """Whether nothing of a host may be leased behind this visit."""
    if taken.visit.link.purpose is Purpose.ROBOTS or taken.visit.alone:
        return True
    nothing = drawn(host, only_assets=True)[0] < 0 if shard.only_assets else not any(host.levels)
    return nothing or host.hops > 0 or _is_suspect(shard, host.name)


def _ready_at(host: HostRow, taken: Lease) -> float:
    """When the host clock allows a visit. A robots.txt does not wait for itself."""
    robots = taken.visit.link.purpose is Purpose.ROBOTS
    return host.free_at if robots else max(host.free_at, host.held)


def _put_back_what_lost_its_rules(shard: Shard, now: float) -> None:
    for name in list(shard.reserve.hosts):
        if any(shard.leases[id16].until <= now for id16 in shard.reserve.hosts[name]):
            shard.put_back(name)


def hand_out_reserved(shard: Shard, limit: int, now: float) -> list[Visit]:
    """Visits leased ahead that may start now. Nothing has to be written for them."""
    visits: list[Visit] = []
    if shard.drain and not shard.alone:
        return visits
    while len(visits) < limit and (name := shard.reserve.next(now)) is not None:
        host, id16 = shard.host(name), shard.reserve.hosts[name][0]
        taken = shard.leases[id16]
        ready_at = _ready_at(host, taken)
        if not shard.has_room(name):
            continue  # `end` will look at it again
        lost = taken.until <= now or (shard.alone and shard.alone != id16)
        if ready_at > now or lost:
            shard.reserve.look_at(name, now + shard.ahead / 2 if lost else ready_at)
            continue
        shard.reserve.remove(name, id16)
        visits.append(hand_out(shard, taken, now))
        if shard.has_room(name):
            shard.reserve.look_at(name, max(now, host.free_at))
    return visits

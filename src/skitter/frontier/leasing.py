"""Leases visits: which may start now, and when the next one may.

Every step reads what it needs before it changes anything, so that it can be repeated after something had to be loaded
(see `memory`).
"""

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter import urls
from skitter.frontier import crashes, linked, repeating, robots_first
from skitter.frontier.agenda import drawn, is_ready
from skitter.frontier.crashes import Suspicion
from skitter.frontier.held import IDLE, Lease
from skitter.frontier.levels import DUE_AGAIN, LEVELS, OF_PARKED
from skitter.frontier.rows import (
    RECRAWL,
    RETRY,
    Extra,
    HostExtra,
    HostRow,
    Spot,
    UrlRow,
    Was,
    make_due_again,
    watch_of,
)
from skitter.frontier.shard import Shard
from skitter.model import Level, Link, Purpose, Visit
from skitter.politeness.linked import LinkedBudget
from skitter.schedule.learning import patterns
from skitter.schedule.learning.learned import Learned
from skitter.schedule.learning.patterns import Fate, of_domain

if TYPE_CHECKING:
    from skitter.frontier.refreshing import Refreshing

# Due hosts and URLs are moved when visits are leased. After a long stop there may be very many: the rest is
# moved with the next lease, and `next_due` says that it is time.
_MOVED_AT_ONCE = 2_000
_LOOKED_AT = 16  # recrawls that may be made before their time
_TRUSTED = Suspicion()
_PAGE = Purpose.PAGE  # looked up once
_SIFTED_AT_ONCE = 128  # URLs of a host that are put aside before others have their turn
_SIFTED = 8  # hosts that had nothing else, in one lease
# Whoever is demoted keeps its level, and comes behind all others there. In a lower level it might be drawn sooner: few wait
# in it.
STEP = 1e6
_BEHIND = -1e9  # the score of URLs that wait aside, behind those that are tried again
_NOBODY: frozenset[str] = frozenset()
_WAIT_FOR_NEWS = 0.25  # seconds that a new host of a domain waits while many other new ones are in flight
_MANY_DOMAINS = 1_000

# ------------------------------------------------------------------------------------------------ exactly now


def lease(shard: Shard, limit: int, now: float, visits: list[Visit]) -> None:
    """Lease the visits that may start now, and hand them out. Write before they are used."""
    prepare(shard, now)
    left = _SIFTED
    while len(visits) < limit and not shard.alone:
        chosen = chosen_host(shard, now)
        if chosen is None:
            return
        if shard.learns and not sift(shard, chosen[0], now):
            left -= 1
            if not left:
                return
            continue
        taken = take(shard, chosen[0], now)
        if taken is None:
            return
        shard.agenda.turn = chosen[1]
        visits.append(hand_out(shard, taken, now))


def prepare(shard: Shard, now: float) -> None:
    """Queue everything that is due, and make every host ready whose clock has come."""
    while shard.to_wake:
        wake(shard, shard.host(shard.to_wake[-1]))
        shard.to_wake.pop()
    _place_moved(shard, now)
    _bring_back(shard, now)
    _free_hosts(shard, now)


def _place_moved(shard: Shard, now: float) -> None:
    if shard.moved:
        shard.find_heads()
        for host in shard.moved.values():
            shard.place(host, now)
        shard.moved.clear()


def _bring_back(shard: Shard, now: float) -> None:
    """Queue the retries and recrawls that are due."""
    for kind, window in shard.times.items():
        for _ in range(_MOVED_AT_ONCE):
            if not window.keys and (window.complete or window.first() is None):
                break
            time, id16 = window.keys[0]
            if time > now:
                break
            row = _due_row(shard, id16)
            host = shard.host(row.host)
            if host.aside is not None:
                shard.park(row)
                continue
            if kind == RECRAWL:
                _queue_again(shard, row, now)
                continue
            shard.leave(row)
            host.waiting -= 1
            shard.touch(host)
            shard.set_due(row, None)
            shard.enqueue(row)
    if shard.refreshing is not None:
        _bring_back_early(shard, shard.refreshing, now)
    _place_moved(shard, now)


def _queue_again(shard: Shard, row: UrlRow, now: float) -> None:
    """A page that was answered waits for its next visit."""
    shard.leave(row)
    due = row.due or now
    shard.set_due(row, None)
    worth = None if shard.refreshing is None else shard.refreshing.worth(shard, row, now)
    make_due_again(row, -due if worth is None else round(worth, 1))
    if shard.refreshing is not None:
        row.seq = shard.next_seq()  # among equals, the first that is due comes first
        shard.refreshing.spend(shard.counts, now)
    shard.enqueue(row)


def _bring_back_early(shard: Shard, refreshing: "Refreshing", now: float) -> None:
    """Queue recrawls before their time, as far as more visits are allowed than are due."""
    window = shard.times[RECRAWL]
    if not window.keys and (window.complete or window.first() is None):
        return
    for (_, id16), name in window.in_memory(_LOOKED_AT):
        if refreshing.early_from(shard.counts, shard.host(name), now) > now:
            return
        row = _due_row(shard, id16)
        if shard.host(row.host).aside is None and refreshing.may_be_early(row):
            _queue_again(shard, row, now)


def _due_row(shard: Shard, id16: bytes) -> UrlRow:
    row = shard.row(id16)
    if row is None:
        raise AssertionError(f"{id16.hex()} is due and has no row")
    return row


def _free_hosts(shard: Shard, now: float) -> None:
    """Make the hosts ready whose clock has come."""
    for _ in range(_MOVED_AT_ONCE):
        following = shard.agenda.next_later()
        if following is None or following[0] > now:
            return
        shard.place(shard.host(following[1]), now)


def chosen_host(shard: Shard, now: float) -> tuple[str, int] | None:
    """The next host, and the turn of the levels after it."""
    if shard.drain and not _is_draining(shard):
        shard.drain = ""
    if shard.drain:
        return None if shard.leases else (shard.drain, shard.agenda.turn)
    if shard.budgets is not None and shard.budgets.linked is not None:
        return _host_within_budget(shard, shard.budgets.linked, now)
    return shard.agenda.next_ready() if shard.unsure_since is None else _rested_host(shard, now)


def _host_within_budget(shard: Shard, budget: LinkedBudget, now: float) -> tuple[str, int] | None:
    """The same if domains may have so many pages: hosts of one that has them wait until it may have more."""
    for _ in range(_MOVED_AT_ONCE):
        chosen = shard.agenda.next_ready() if shard.unsure_since is None else _rested_host(shard, now)
        if chosen is None or not linked.is_over(shard, shard.host(chosen[0]), budget):
            return chosen
        linked.wait(shard, shard.host(chosen[0]), budget, now)
    return None


def _is_draining(shard: Shard) -> bool:
    """Whether the suspected visit that waits to run alone may still be next."""
    host = shard.hosts[shard.drain]
    return host is not None and is_ready(host.place)


def _rested_host(shard: Shard, now: float) -> tuple[str, int] | None:
    """After a power loss any host may have been visited just before, without a trace: each waits for its delay."""
    for _ in range(_MOVED_AT_ONCE):
        chosen = shard.agenda.next_ready()
        if chosen is None:
            return None
        host = shard.host(chosen[0])
        rested_at = (shard.unsure_since or 0.0) + max(host.delay, shard.delay(host.name))
        if rested_at <= now:
            return chosen
        host.free_at = max(host.free_at, rested_at)
        shard.place(host, now)
    return None


def take(shard: Shard, name: str, now: float) -> Lease | None:
    """Lease the next visit of a host: its robots.txt first, else its link by level and score, dated when the host
    is free.

    None if the visit is suspected of killing the process and must wait until nothing else is in flight, or if nothing of
    the host is wanted any more.
    """
    host = shard.host(name)
    if shard.budgets is not None and shard.budgets.has_tallies:
        shard.tallies(host)  # looked at when the visit is handed out
    queue, turn = drawn(host, only_assets=shard.only_assets)
    if queue < 0:  # assets alone are wanted since it was placed
        shard.place(host, now)
        return None
    window = shard.queue(host, queue)
    if len(window.keys) < min(2, host.levels[queue]):
        window.has(min(2, host.levels[queue]))  # the second row is the next head
    if not window.keys:
        raise AssertionError(f"queue {queue} of {name} has lost its head")
    spot = window.keys[0]
    waits = window.values[spot]
    first = shard.waiting(window, spot) if isinstance(waits, bytes) else waits
    origin, is_page = first.origin or urls.origin(first.url), not first.origin
    known = shard.rules[origin]
    taken: UrlRow | None = first
    if is_page and known.expires <= max(now, host.free_at, host.held):
        link, taken, is_page = robots_first.robots_link(origin, name, first), None, False
        id16 = shard.names.id_of(link)
    else:
        link, id16 = link_of(first), first.id
    spent = repeating.repeats(shard, first) if is_page and "?" in first.key and shard.samples else None
    suspicion = shard.suspects.get(id16, _TRUSTED)
    alone = suspicion is not _TRUSTED and crashes.suspected(suspicion.crashes, suspicion.in_hand)
    if alone and shard.leases:
        _drain(shard, name)
        return None
    shard.drain = ""
    attempt = first.attempts + 1 if is_page else 1 + known.tries + suspicion.crashes
    if taken is not None:
        shard.take(host, queue, spot)
        host.turn = turn
        host.hops -= bool(taken.origin)
        shard.counts.queued -= 1
        if not taken.attempts and not taken.crawl_count:
            waited, wait = shard.waited, now - taken.first_seen  # `observe`, without a call for every visit
            waited.counts[bisect_left(waited.bounds, wait)] += 1
            waited.total += wait
    recrawl = is_page and first.crawl_count > 0
    visit = Visit(link, attempt, now, alone, _pages(shard, host), host.free_at, recrawl, spent)
    if recrawl and shard.refreshing is not None and shard.refreshing.asks_plainly(host, first):
        visit = replace(visit, plain=True)
    lease = Lease(visit, taken, known.expires if is_page else inf)
    shard.begin(id16, lease)
    return lease


def _drain(shard: Shard, name: str) -> None:
    """Hand out nothing more until the suspect may run alone."""
    shard.drain = name
    for host in list(shard.reserve.hosts):
        if host != name:
            shard.put_back(host)


def _pages(shard: Shard, host: HostRow) -> int:
    """Pages of a host that are stored or may be soon."""
    flight = shard.flights.get(host.name, IDLE)
    return host.pages + flight.visits - flight.others


def hand_out(shard: Shard, taken: Lease, now: float) -> Visit:
    """Hand out a visit."""
    link = taken.visit.link
    host = shard.host(link.host)
    visit = taken.visit
    if shard.ahead:  # it was leased ahead, and others of its host may have been handed out since
        pages = _pages(shard, host)
        taken.visit = replace(visit, leased_at=now, host_pages=pages, host_free=host.free_at)
    if shard.budgets is not None and visit.spent is None:
        spent = shard.budgets.spent(shard, host, link, now, again=visit.recrawl)
        taken.visit = replace(taken.visit, spent=spent)
    taken.handed = True
    shard.fly(link.host, link.purpose)
    if shard.per_host > 1:  # does not wait for the answer, so the clock runs from the request
        host.free_at = max(host.free_at, now + host.delay)
        shard.touched[host.name] = host
    shard.place(host, now)
    shard.moved.pop(host.name, None)  # it is in its place already
    return taken.visit


def link_of(row: UrlRow) -> Link:
    """The link of a row."""
    level, score = row.level, row.score
    if level == DUE_AGAIN:
        level, score = watch_of(row).level, watch_of(row).score
    return Link(
        url=row.url,
        key=row.key,
        host=row.host,
        depth=row.depth,
        parent=row.parent,
        level=LEVELS[level % len(LEVELS)],
        score=score,
        purpose=row.purpose if row.origin or row.extra is not None else _PAGE,
        origin=row.origin,
        requested=row.requested,
        hops=row.hops,
        seed=row.seed,
        meta=row.meta,
        hints=None if row.extra is None else row.extra.hints,
    )


# ------------------------------------------------------------------------------------------------ what is learned


def sift(shard: Shard, name: str, now: float) -> bool:
    """Look at the next URL of a host before it is leased, by what was learned: demote it, or put it aside, and look at
    the next. False if nothing is left to be leased now.
    """
    host = shard.hosts[name] or shard.host(name)
    for _ in range(_SIFTED_AT_ONCE):
        queue, _turn = drawn(host, only_assets=shard.only_assets)
        if queue < 0:
            break
        if host.hops or shard.only_assets:
            return True
        window = shard.queues.get((name, queue))
        if window is None:
            window = shard.queue(host, queue)
        if len(window.keys) < min(2, host.levels[queue]):
            window.has(min(2, host.levels[queue]))  # the second is the next head
        spot = window.keys[0]
        row = window.values[spot]
        if isinstance(row, bytes):
            row = window.values[spot] = shard.source.unpacked(row)
        if queue == OF_PARKED:
            _look_again(shard, host, row, spot, now)
            continue
        if not _is_judged(row):
            return True
        known, of_all = shard.learned[name], shard.learned[f"*.{host.domain}"]
        if _crowds(shard, host, of_all, now):
            break
        fate, names = _fate(host, known, of_all, row.url)
        if not fate.steps or shard.is_kept(row.url):
            return _may_follow(shard, name, known, names)
        if fate.steps > 0 and not _sinks(row, fate):
            return _may_follow(shard, name, known, names)
        _put_lower(shard, host, row, spot, fate)
    shard.place(host, now)
    return False


def _is_judged(row: UrlRow) -> bool:
    """Whether it is a page that was found on others, and never visited. What a person or a sitemap names is not judged."""
    if row.origin or row.seed or row.attempts or row.crawl_count or row.hops:
        return False
    extra = row.extra
    if extra is None:
        return True
    listed = extra.hints is not None and extra.hints.source == "sitemap"
    return extra.purpose is _PAGE and not listed and (extra.was is None or not extra.was.tried)


def _fate(
    host: HostRow, known: Learned | None, of_all: Learned | None, url: str
) -> tuple[Fate, patterns.Names]:
    told = patterns.fate_of(known, url)
    if of_all is not None and not host.pages and host.name != host.domain:
        pattern = of_all.patterns.get(by := patterns.host_pattern(host.name, host.domain))
        if pattern is not None and pattern.parked:
            return Fate(-1, by), told[1]
    return told


def _sinks(row: UrlRow, fate: Fate) -> bool:
    """Whether it has to be demoted further than it is."""
    was = None if row.extra is None else row.extra.was
    return was is None or row.score > was.score - (fate.steps - 0.5) * STEP


def _may_follow(shard: Shard, name: str, known: Learned | None, names: patterns.Names) -> bool:
    """Whether it may be leased while others of its host are: if none of these brings anything, its pattern is parked."""
    out = shard.flights.get(name, IDLE).visits + len(shard.reserve.hosts.get(name, ()))
    return not out or out < patterns.margin(known or Learned(name), names)


def _crowds(shard: Shard, host: HostRow, of_all: Learned | None, now: float) -> bool:
    """Whether too many new hosts of its domain are in flight; then it waits until it is known what they bring."""
    if host.pages or host.name == host.domain:
        return False
    if len(shard.newcomers) > _MANY_DOMAINS:
        shard.newcomers.clear()
    closed, names = shard.newcomers.get(host.domain, (0.0, _NOBODY))
    others = {name for name in names if name in shard.flights or name in shard.reserve.hosts}
    pattern = None if of_all is None else of_all.patterns.get(patterns.host_pattern(host.name, host.domain))
    room = (patterns.OF_HOSTS - (pattern.dry if pattern else 0)) / 2
    if host.name not in others and (now < closed or (others and len(others) >= room)):
        closed = closed if now < closed else now + _WAIT_FOR_NEWS
        host.free_at = max(host.free_at, closed)  # all at the same time: the one found first is the next
        shard.touch(host)
        shard.newcomers[host.domain] = closed, others
        return True
    shard.newcomers[host.domain] = closed, others | {host.name}
    return False


def _put_lower(shard: Shard, host: HostRow, row: UrlRow, spot: Spot, fate: Fate) -> None:
    """Demote a URL, or put it aside; now and then one of a parked pattern stays, to be tried."""
    if row.id not in shard.batch.urls:
        shard.adopt(row)
    shard.take(host, row.level, spot)
    was = (None if row.extra is None else row.extra.was) or Was(row.level, row.score)
    if fate.steps > 0:
        row.score = was.score - fate.steps * STEP
    else:
        was = _aside(shard, host, row, was, fate.by)
    row.extra = replace(row.extra or Extra(), was=was)
    shard.push(host, row)


def _aside(shard: Shard, host: HostRow, row: UrlRow, was: Was, by: str) -> Was:
    of_hosts = not by.startswith("/")
    learned = shard.learned_of(of_domain(host.domain) if of_hosts else host.name)
    pattern = learned.patterns[by]
    if patterns.is_tried(pattern):
        shard.learn(learned, decided=True)
        return replace(was, tried=True)
    row.level, row.score, row.reason = OF_PARKED, _BEHIND, patterns.reason(by, pattern)
    if of_hosts:
        patterns.remember_host(learned, host.name)
    else:
        if learned.asked and row.first_seen >= learned.asked:
            learned.grown += 1
            learned.rest = False
        if pattern.skipped <= patterns.TRIES and not learned.rest:
            row.score = -float(pattern.skipped)
            look_again(shard, host, (host.extra.again if host.extra else 0) + 1)
        if learned.rest:
            wake(shard, host)
    pattern.held += 1
    shard.learn(learned, decided=not pattern.held & (pattern.held - 1))
    return was


def look_again(shard: Shard, host: HostRow, count: int) -> None:
    """So many of the first URLs that wait aside are looked at again, when nothing else of the host waits."""
    host.extra = HostExtra(again=count) if host.extra is None else replace(host.extra, again=count)
    shard.touch(host)


def wake(shard: Shard, host: HostRow) -> None:
    """All URLs that wait aside on a host are looked at again."""
    look_again(shard, host, host.levels[OF_PARKED])


def _look_again(shard: Shard, host: HostRow, row: UrlRow, spot: Spot, now: float) -> None:
    """The first URL that waits aside: it waits for a visit again, or aside behind all others."""
    again = min(host.extra.again if host.extra else 0, host.levels[OF_PARKED])
    known, of_all = shard.learned[host.name], shard.learned[of_domain(host.domain)]
    fate, _names = _fate(host, known, of_all, row.url)
    look_again(shard, host, again - 1)
    if row.id not in shard.batch.urls:
        shard.adopt(row)
    pattern = None
    if fate.steps < 0 and not shard.is_kept(row.url) and not (known is not None and known.rest):
        of_hosts = not fate.by.startswith("/")
        pattern = shard.learned_of(of_domain(host.domain) if of_hosts else host.name).patterns[fate.by]
        if pattern.tried >= patterns.TRIES or of_hosts:
            shard.take(host, row.level, spot)
            row.score, row.seq = _BEHIND, shard.next_seq()
            shard.push(host, row)
            return
        pattern.tried += 1
    if known is not None:
        if pattern is not None and not known.asked:
            known.asked, known.grown = now, 0
        shard.learn(known, decided=True)
    take_from_aside(shard, host, row, tried=pattern is not None or (known is not None and known.rest))


def take_from_aside(shard: Shard, host: HostRow, row: UrlRow, *, tried: bool = False) -> None:
    """A URL that waits aside waits for a visit again."""
    shard.take(host, row.level, row.spot())
    was = (None if row.extra is None else row.extra.was) or Was(Level.NORMAL, 0.0)
    row.level, row.score, row.reason = was.level, was.score, None
    row.extra = replace(row.extra or Extra(), was=replace(was, tried=True) if tried else None)
    if row.extra == Extra():
        row.extra = None
    shard.push(host, row)


# ------------------------------------------------------------------------------------------------ when


def next_due(shard: Shard, now: float, refill_at: float) -> float | None:
    """When a lease may return more than now; None if nothing waits except for visits in flight."""
    if shard.alone and shard.leases[shard.alone].handed:
        return None
    if shard.drain and shard.leases and _is_draining(shard):
        return None
    if shard.depths is not None and shard.depths.owed:
        return now
    later = shard.agenda.next_later()
    times = []
    if shard.ahead and (reserved := shard.reserve.next_time()) is not None:
        times.append(reserved)
    if shard.agenda.next_ready() is not None:
        times.append(refill_at)
    if later is not None:
        times.append(max(later[0] - shard.ahead, refill_at))
    for kind in () if shard.only_assets else (RETRY, RECRAWL):
        first = _first_wanted(shard, kind)
        if kind == RECRAWL and first is not None and first > now and shard.refreshing is not None:
            host = shard.host(shard.times[kind].in_memory(1)[0][1])
            first = min(first, shard.refreshing.early_from(shard.counts, host, now))
        # A later recrawl is work only if the settings want recrawls: else the crawl is over before.
        if first is not None and (kind == RETRY or first <= now or shard.refreshing is not None):
            times.append(max(first, refill_at))
    return max(now, min(times)) if times else None


def _first_wanted(shard: Shard, kind: str) -> float | None:
    """The earliest time in a list, ignoring hosts that were set aside meanwhile."""
    window = shard.times[kind]
    while window.keys or (not window.complete and window.first() is not None):
        time, id16 = window.keys[0]
        if shard.host(window.values[time, id16]).aside is None:
            return time
        shard.park(_due_row(shard, id16))
    return None

"""From a round trip into memory.

The engine answers as of the last write. What a verb has changed since is newer and takes precedence: rows and hosts that it
has are not replaced, and lists are told with its changes in them.
"""

from collections import defaultdict

from skitter.frontier.held import Rules
from skitter.frontier.rows import (
    QUEUED,
    Found,
    Heads,
    HostRow,
    Span,
    Spot,
    Times,
    UrlRow,
    Wanted,
    standing,
)
from skitter.frontier.shard import Shard


def take_in(shard: Shard, wanted: Wanted, found: Found) -> None:
    """Put the answer where the steps of the shard look for it."""
    for id16 in wanted.urls:
        if not shard.has_row(id16):
            row = found.urls.get(id16)
            if row is None:
                shard.rows[id16] = None
            else:
                shard.adopt(row)
    for name in wanted.hosts:
        shard.hosts.setdefault(name, found.hosts.get(name))
    for origin in wanted.robots:
        copy = found.robots.get(origin)
        known = Rules() if copy is None else Rules(copy.expires, copy.tries, copy.access)
        shard.rules.setdefault(origin, known)
    for host, rows in found.parked.items():
        shard.parked[host] = [row if shard.has_row(row.id) else shard.adopt(row) for row in rows]
    for id16 in wanted.pages:
        shard.pages.setdefault(id16, found.pages.get(id16))
    for digest in wanted.digests:
        shard.digests.setdefault(digest, found.digests.get(digest))
    for simhash in wanted.simhashes:
        shard.simhashes.setdefault(simhash, found.simhashes.get(simhash))
    for domain, _ in wanted.domains:
        shard.nearby.hold(domain, found.domains.get(domain, []))
    _fill_windows(shard, wanted, found)


def _fill_windows(shard: Shard, wanted: Wanted, found: Found) -> None:
    if wanted.heads:
        changed = _queued_now(shard)
        for ask, queued in zip(wanted.heads, found.heads, strict=True):
            _fill_queue(shard, ask, queued, changed[ask.host, ask.level])
    for span, hosts in zip(wanted.agenda, found.agenda, strict=True):
        _fill_agenda(shard, span, hosts)
    for times, waiting in zip(wanted.times, found.times, strict=True):
        _fill_times(shard, times, waiting)


def _queued_now(shard: Shard) -> defaultdict[tuple[str, int], list[UrlRow]]:
    """Rows that this verb has put into queues, by host and level."""
    changed: defaultdict[tuple[str, int], list[UrlRow]] = defaultdict(list)
    for row in shard.batch.urls.values():
        if row is not None and row.state == QUEUED and row.due is None:
            changed[row.host, row.level].append(row)
    return changed


def _fill_queue(shard: Shard, ask: Heads, rows: list[UrlRow], changed: list[UrlRow]) -> None:
    window = shard.queues.get((ask.host, ask.level))
    if window is None or ask.after != window.horizon:
        return
    horizon: Spot | None = rows[-1].spot() if len(rows) >= ask.limit else None
    new = [(row.spot(), row) for row in rows if row.id not in shard.batch.urls]
    new += [
        (spot, row)
        for row in changed
        if (spot := row.spot()) > window.horizon and (horizon is None or spot <= horizon)
    ]
    window.fill(new, horizon)


def _fill_agenda(shard: Shard, span: Span, rows: list[HostRow]) -> None:
    horizon = rows[-1].place if len(rows) >= span.limit else None
    end = span.before if horizon is None else horizon
    for row in rows:
        shard.hosts.setdefault(row.name, row)
    now_there = [shard.hosts[row.name] for row in rows] + list(shard.touched.values())
    places = {host.place: host.name for host in now_there if host and span.after < host.place <= end}
    shard.agenda.fill(span, list(places.items()), horizon)


def _fill_times(shard: Shard, ask: Times, rows: list[UrlRow]) -> None:
    window = shard.times[ask.kind]
    last = (rows[-1].due or 0.0, rows[-1].id) if len(rows) >= ask.limit else None
    new = [
        ((row.due, row.id), row.host)
        for row in rows
        if row.due is not None and row.id not in shard.batch.urls
    ]
    for row in shard.batch.urls.values():
        stands = None if row is None else standing(row)
        if row is not None and stands is not None and stands.kind == ask.kind and row.due is not None:
            key = row.due, row.id
            if key > window.horizon and (last is None or key <= last):
                new.append((key, row.host))
    window.fill(new, last)


def lacking(shard: Shard) -> Wanted | None:
    """What the heads of the shard's lists lack, if anything."""
    size = shard.window_size
    spans = shard.agenda.lacking()
    times = [Times(kind, window.horizon, size) for kind, window in shard.times.items() if window.lacks(1)]
    return Wanted(agenda=spans, times=times) if spans or times else None

"""Adds links: each URL once, however often it is offered; links of other shards are forwarded."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from skitter import reasons, urls
from skitter.frontier import robots_first
from skitter.frontier.aside import is_passing, take_back, takes_in
from skitter.frontier.levels import OF_PARKED, better, retried
from skitter.frontier.names import Named
from skitter.frontier.rows import CRAWLED, FAILED, FOREIGN, QUEUED, REFUSED, Extra, UrlRow, extra_of, url_row
from skitter.frontier.shard import Shard
from skitter.frontier.store import KNOWN, NEW
from skitter.model import Level, Link, Purpose, Reason

_LEVELS = len(Level)
_PAGE, _ROBOTS = Purpose.PAGE, Purpose.ROBOTS  # looked up once, not with every link


def add(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float
) -> list[bytes]:
    """Accept and refuse links; returns all ids in order. The counts say how many were new."""
    ids = _offer(shard, links, now) if links else []
    if refused:
        ids += _refuse_all(shard, refused, now)
    if shard.depths is not None:
        shard.depths.offered(shard, links, refused, ids)
    return ids


def _offer(shard: Shard, links: Sequence[Link], now: float) -> list[bytes]:
    names, counts, offer = shard.names, shard.counts, shard.seen.offer
    hash_key, secret = names.hash_key, names.secret
    ids = list(map(names.known.ids.get, map(id, links)))  # 0.1 µs each
    others = [] if all(ids) else [place for place, id16 in enumerate(ids) if id16 is None]
    known = len(ids) - len(others)
    name, host = "", names.host("")
    for place in others:
        link = links[place]
        if link.purpose is _ROBOTS:
            ids[place] = _add_robots(shard, link, now)
            continue
        if link.host != name:  # most links of a page have one host
            name = link.host
            host = names.hosts.get(name) or names.host(name)
        id16 = ids[place] = host.prefix + hash_key(link.key.encode("utf-8", "surrogatepass"), secret)
        told = offer(id16, link.level, link.score)
        if told == KNOWN and not link.seed:
            known += 1
            names.known.remember(link, id16)
        elif told != NEW or link.seed or host.foreign or not _accept_found(shard, id16, host, link, now):
            _look_at(shard, id16, host, link, now, is_new=told == NEW)
    counts.seen += known
    counts.known += known
    return cast("list[bytes]", ids)


def _accept_found(shard: Shard, id16: bytes, named: Named, link: Link, now: float) -> bool:
    """`_accept` for the most common link: new, found on a page, on a host that is not set aside.

    Written out because it is the most frequent step of all. Returns False for any other link.
    """
    if link.hops or link.meta or link.hints is not None or link.purpose is not _PAGE:
        return False
    host = shard.hosts[link.host] or shard.host(link.host)
    if host.aside is not None:
        return False
    shard.meta.seq = seq = shard.meta.seq + 1
    row = UrlRow(
        id16, link.url, link.key, link.host, named.domain, QUEUED, link.level, link.score, seq, link.depth, link.parent, now
    )  # fmt: skip
    shard.push(host, row)
    counts = shard.counts
    counts.seen += 1
    counts.queued += 1
    counts.added += 1
    return True


def _look_at(shard: Shard, id16: bytes, host: Named, link: Link, now: float, *, is_new: bool) -> None:
    """A link that is new, more urgent than before, or a seed."""
    if host.foreign and shard.by_message and not shard.damping and shard.depths is None:
        shard.send(link)
        shard.seen.ended(id16)
        return
    row = None if is_new else shard.row(id16)
    named = names_seed(link) and not host.foreign
    if named:
        _take_back(shard, link)
    if row is not None and not _may_enter(shard, row, link, host, named=named):
        shard.counts.seen += 1
        shard.counts.known += 1
        if named and row.purpose is not link.purpose:
            _change_purpose(shard, row, link)
        _move_forward(shard, row, link, now)
    elif host.foreign:
        _forward(shard, id16, row, link, host, now)
    else:
        if named and row is not None:
            shard.forget_ban(urls.origin(link.url))
        _accept(shard, id16, row, link, host, now)


def names_seed(link: Link) -> bool:
    """Whether a person asks for this very URL; the target of a seed's redirect was named by a server."""
    return link.seed and not link.hops


def _take_back(shard: Shard, seed: Link) -> None:
    """A seed names a host that was set aside for a while: take it back."""
    host = shard.hosts[seed.host]
    if host is not None and is_passing(host.aside):
        take_back(shard, host)
        shard.forget_ban(urls.origin(seed.url))


def _may_enter(shard: Shard, row: UrlRow, link: Link, named_host: Named, *, named: bool) -> bool:
    """Whether a URL with a row is accepted as if it were new.

    A URL that the settings refused, when it was offered or when its turn came, may be accepted from the next link to
    it. One that ended with a visit comes back only as a seed; if it was answered, only as one with another purpose.
    """
    if row.state not in (REFUSED, FAILED) and not (row.state == CRAWLED and row.purpose is not link.purpose):
        return False
    host = None if named_host.foreign else shard.hosts[link.host]
    if host is not None and not takes_in(host.aside):
        return False
    return named or (row.state == REFUSED and (not row.seq or is_by_settings(row.reason)))


def is_by_settings(reason: Reason | None) -> bool:
    """Whether the settings refused a URL, so that other settings may accept it."""
    return reason is not None and reason.code.startswith(reasons.BY_SETTINGS)


def _accept(shard: Shard, id16: bytes, known: UrlRow | None, link: Link, named: Named, now: float) -> None:
    """Accept a link that is new, or that was refused or failed and may be tried again."""
    shard.counts.seen += 1
    host = shard.host(link.host)
    row = url_row(id16, link, named.domain, now)
    if known is None:
        if host.aside is not None and not takes_in(host.aside):
            keep_refused(shard, row, host.aside)
            return
    else:
        shard.leave(known)
        if known.due is not None:  # it was to be fetched again
            shard.set_due(known, None)
        row.first_seen, row.status, row.crashes = known.first_seen, known.status, known.crashes
        row.crawl_count, row.last_crawl = known.crawl_count, known.last_crawl
        if shard.depths is not None and known.depth < row.depth:
            row.depth, row.parent = known.depth, known.parent
        if shard.damping and known.extra is not None and known.extra.cash is not None:
            row.extra = replace(row.extra or Extra(), cash=known.extra.cash)
            row.score = known.extra.cash.received
    row.seq = shard.next_seq()
    shard.enqueue(row)
    shard.counts.added += known is None or not known.seq


def keep_refused(shard: Shard, row: UrlRow, reason: Reason) -> None:
    """Its sequence number stays 0: it was never accepted, but the next link to it may be."""
    shard.enter(row, REFUSED, reason)
    shard.keep(row)
    shard.seen.refused(row.id, row.depth)


def _forward(shard: Shard, id16: bytes, known: UrlRow | None, link: Link, named: Named, now: float) -> None:
    """Forward a link to its shard, once. The owner counts it."""
    if known is not None:
        shard.leave(known)
    if shard.depths is None:
        row = UrlRow(id16, link.url, link.key, link.host, named.domain, depth=link.depth, first_seen=now)
    else:  # it may have to be sent again, at a lesser depth
        row = url_row(id16, link, named.domain, now)
    row.state = FOREIGN
    shard.keep(row)
    shard.send(link)
    shard.seen.ended(id16)


def _change_purpose(shard: Shard, row: UrlRow, link: Link) -> None:
    """A seed names a URL that waits for something else: the person decides."""
    if row.state != QUEUED or shard.is_out(row):
        return
    if row.due is None:
        shard.take(shard.host(row.host), row.level, row.spot())
    cash = None if row.extra is None else row.extra.cash
    row.extra = extra_of(replace(link, hints=row.hints))
    if cash is not None:
        row.extra = replace(row.extra or Extra(), cash=cash)
    if row.due is None:
        shard.push(shard.host(row.host), row)
    else:
        shard.keep(row)


def _move_forward(shard: Shard, row: UrlRow, link: Link, now: float) -> None:
    """A waiting link was offered again as more urgent. It keeps its age, also where scores grow with the time of discovery."""
    if row.state != QUEUED or shard.is_out(row):
        if row.state == REFUSED and (not row.seq or is_by_settings(row.reason)):
            shard.seen.refused(row.id, row.depth)
        else:
            shard.seen.ended(row.id)
        return
    if row.level == OF_PARKED:
        shard.seen.waits(row.id, link.level, link.score)
        return
    level, score = row.level % _LEVELS, link.score - (now - row.first_seen) * shard.decay
    if better(link.level, score, level, row.score):
        if row.due is None:
            shard.take(shard.host(row.host), row.level, row.spot())
        row.level = int(link.level) if row.level == level else retried(link.level)
        row.score = score
        if link.depth < row.depth:
            row.depth, row.parent = link.depth, link.parent
        if row.due is None:
            shard.push(shard.host(row.host), row)
        else:
            shard.keep(row)
    shard.seen.waits(row.id, row.level % _LEVELS, row.score)


def _refuse_all(shard: Shard, refused: Sequence[tuple[Link, Reason]], now: float) -> list[bytes]:
    same, counts = shard.names.refused, shard.counts
    ids = []
    for link, reason in refused:
        id16 = same.ids.get(id(link))
        if id16 is None:
            id16 = shard.names.id_of(link)
            _refuse(shard, id16, link, reason, now)
            same.remember(link, id16)
        ids.append(id16)
    counts.seen += len(ids)
    counts.known += len(ids)
    return ids


def _refuse(shard: Shard, id16: bytes, link: Link, reason: Reason, now: float) -> None:
    told = shard.seen.refuse(id16, link.depth)
    if told == KNOWN:
        return
    row = None if told == NEW else shard.row(id16)
    if row is None:
        keep_refused(shard, url_row(id16, link, shard.names.host(link.host).domain, now), reason)
        shard.counts.known -= 1
    elif row.state == QUEUED and not shard.is_out(row):
        shard.seen.waits(id16, row.level % _LEVELS, row.score)
    elif row.state != REFUSED:
        shard.seen.ended(id16)
    else:
        if not row.seq and link.depth < row.depth:  # settings that allow more may want it from here
            row.depth, row.parent = link.depth, link.parent
            shard.keep(row)
        shard.seen.refused(id16, row.depth)


# ------------------------------------------------------------------------------------------------ robots.txt


def _add_robots(shard: Shard, link: Link, now: float) -> bytes:
    """A robots.txt hop, or a copy of a robots.txt, sent by another shard."""
    copy = robots_first.carried(link)
    if copy is not None:
        shard.keep_robots(copy)
    else:
        queue_hop(shard, link, now)
    return shard.names.id_of(link)


def queue_hop(shard: Shard, hop: Link, now: float) -> None:
    """The next hop of a robots.txt waits on its own host, ahead of every page there."""
    host = shard.host(hop.host)
    if host.aside is not None:
        shard.keep_robots(robots_first.hop_refused(hop.origin, hop.url, host.name, host.aside, now))
        return
    id16 = shard.names.id_of(hop)
    if id16 not in shard.leases and shard.row(id16) is None:
        shard.put_back(hop.host)
        hop = replace(hop, level=Level.CRITICAL, score=robots_first.BEFORE_ALL)
        row = url_row(id16, hop, shard.names.host(hop.host).domain, now)
        row.seq = shard.next_seq()
        shard.enqueue(row)

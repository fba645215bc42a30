"""Links in: each URL once, whoever offers it and however often."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from skitter import urls
from skitter.backends.rocksdb.hosts import Named
from skitter.backends.rocksdb.layout import seen8, spot24, waits_at
from skitter.backends.rocksdb.records import (
    FAILED,
    FOREIGN,
    QUEUED,
    REFUSED,
    STATES,
    Entry,
    entry_of,
    packed_new,
)
from skitter.backends.rocksdb.seen import ALWAYS, NEVER, RANKS
from skitter.backends.rocksdb.shard import Shard
from skitter.backends.rocksdb.table import ABSENT
from skitter.frontier import rules
from skitter.model import Level, Link, Purpose, Reason
from skitter.urls import fingerprint


def add(
    shard: Shard, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float
) -> list[bytes]:
    """Accept and refuse links; the ids of all, in order. How many were new shows in the counts."""
    ids = _offer(shard, links, now)
    return ids + _refuse_all(shard, refused, now) if refused else ids


def _offer(shard: Shard, links: Sequence[Link], now: float) -> list[bytes]:
    seen, counts = shard.seen, shard.counts
    ids = list(map(seen.wanted.ids.get, map(id, links)))  # 0.1 µs each
    others = [] if all(ids) else [place for place, id16 in enumerate(ids) if id16 is None]
    known = len(ids) - len(others)
    secret, setdefault = shard.store.secret, seen.setdefault
    name, host = "", shard.hosts.named("")
    for place in others:
        link = links[place]
        if link.purpose is Purpose.ROBOTS:
            ids[place] = _add_robots(shard, link, now)
            continue
        if link.host != name:  # most links of a page have one host
            name, host = link.host, shard.hosts.named(link.host)
        digest = fingerprint(link.key, secret)
        id16 = ids[place] = host.dom8 + digest.to_bytes(8, "big")
        later, sooner = RANKS[link.score][link.level]
        rank = setdefault(host.domain ^ digest, later)
        if rank == ABSENT:
            seen.log(host.domain ^ digest, later)
            if link.seed or host.foreign or not _accept_found(shard, id16, host, link, now):
                _look_up(shard, id16, host, link, now, offered=False)
        elif sooner >= rank and not link.seed:
            known += 1
            seen.wanted.remember(link, id16)
        else:
            _look_up(shard, id16, host, link, now, offered=True)
    counts.seen += known
    counts.known += known
    return cast("list[bytes]", ids)


def _accept_found(shard: Shard, id16: bytes, host: Named, link: Link, now: float) -> bool:
    """`_accept` for what most links are: new, found on a page, and of a host that is known and not set aside.

    Nothing is built that is not stored, which halves the price; False for any other link.
    """
    state = shard.hosts.get(host.host8)
    if state is None or state.aside is not None or link.hops or link.meta:
        return False
    shard.ledger.seq = seq = shard.ledger.seq + 1
    level = link.level
    head = state.heads[level]
    record = packed_new(link, seq, now)
    row = shard.queue.push(host.host8, state, level, spot24(link.score, seq, id16), record)
    shard.batch.changes["urls"][id16] = waits_at(row)
    shard.hosts.touched[host.host8] = state
    if state.heads[level] is not head:
        shard.hosts.moved[host.host8] = state
    counts = shard.counts
    counts.seen += 1
    counts.queued += 1
    counts.added += 1
    return True


def _look_up(shard: Shard, id16: bytes, host: Named, link: Link, now: float, *, offered: bool) -> None:
    """A link that is new or was not offered as urgently, or a seed."""
    entry = shard.entry(id16) if offered else None
    named = link.seed and rules.names_seed(link) and not host.foreign
    if named:
        _take_back(shard, host, link)
    if entry is not None and not _may_enter(shard, entry, host, named=named):
        shard.counts.seen += 1
        shard.counts.known += 1
        _move_forward(shard, id16, entry, link)
    elif host.foreign:
        _forward(shard, id16, entry, link, now)
    else:
        if named and entry is not None:
            shard.forget_ban(urls.origin(link.url))
        _accept(shard, id16, entry, host, link, now)


def _take_back(shard: Shard, host: Named, seed: Link) -> None:
    """A host that was set aside for a while is wanted again by name."""
    state = shard.hosts.get(host.host8)
    if state is not None and rules.passing(state.aside):
        shard.take_back(host.host8, state)
        shard.forget_ban(urls.origin(seed.url))


def _may_enter(shard: Shard, entry: Entry, host: Named, *, named: bool) -> bool:
    if entry.state not in (REFUSED, FAILED):
        return False
    state = shard.hosts.get(host.host8)
    if state is not None and state.aside is not None:
        return False
    return rules.may_enter(STATES[entry.state], visited=entry.seq > 0, named=named)


def _accept(shard: Shard, id16: bytes, known: Entry | None, host: Named, link: Link, now: float) -> None:
    """A link that is new, or one that was refused or has failed and may try again."""
    shard.counts.seen += 1
    _, state = shard.host(link.host, host)
    entry = entry_of(link, 0, now)
    if known is None:
        if state.aside is not None:
            _keep_refused(shard, id16, entry, state.aside)
            return
    else:
        shard.leave(known)
        entry.first_seen, entry.status, entry.crashes = known.first_seen, known.status, known.crashes
        entry.crawl_count, entry.last_crawl = known.crawl_count, known.last_crawl
    entry.seq = shard.next_seq()
    shard.enqueue(id16, entry, host)
    shard.counts.added += known is None or not known.seq
    if known is not None:
        shard.seen.waits(seen8(id16), RANKS[link.score][link.level][0])


def _keep_refused(shard: Shard, id16: bytes, entry: Entry, reason: Reason) -> None:
    """Its sequence number stays 0: it was never accepted, and may be by the next one who offers it."""
    shard.enter(entry, REFUSED, reason)
    shard.keep(id16, entry)
    shard.seen.add(seen8(id16), ALWAYS)


def _forward(shard: Shard, id16: bytes, known: Entry | None, link: Link, now: float) -> None:
    """A link of another shard is sent there once. Its owner counts it."""
    if known is not None:
        shard.leave(known)
    shard.keep(id16, Entry(link.url, "", link.host, first_seen=now, state=FOREIGN))
    shard.send(link)
    shard.seen.add(seen8(id16), NEVER)


def _move_forward(shard: Shard, id16: bytes, entry: Entry, link: Link) -> None:
    """A link that still waits is wanted more urgently by somebody else. It keeps its age."""
    if entry.state != QUEUED or id16 in shard.leases:
        shard.seen.correct(seen8(id16), _rank_of(entry))
        return
    if rules.better(link.level, link.score, entry.level, entry.score):
        old = entry.level, spot24(entry.score, entry.seq, id16)
        entry.level, entry.score = int(link.level), link.score
        if link.depth < entry.depth:
            entry.depth, entry.parent = link.depth, link.parent
        if entry.due is None:
            _move(shard, id16, entry, *old)
        else:
            shard.keep(id16, entry)
    shard.seen.correct(seen8(id16), _rank_of(entry))


def _rank_of(entry: Entry) -> int:
    """What a link must be better than to be worth a look at this record."""
    if entry.state == QUEUED:
        return RANKS[entry.score][entry.level][0]
    return ALWAYS if entry.state == REFUSED and not entry.seq else NEVER


def _move(shard: Shard, id16: bytes, entry: Entry, level: int, spot: bytes) -> None:
    host8, state = shard.host(entry.host)
    shard.queue.remove(host8, state, level, spot)
    shard.push(id16, entry, host8, state)


def _refuse_all(shard: Shard, refused: Sequence[tuple[Link, Reason]], now: float) -> list[bytes]:
    same, counts = shard.seen.refused, shard.counts
    ids = []
    for link, reason in refused:
        id16 = same.ids.get(id(link))
        if id16 is None:
            id16 = shard.id_of(link)
            if shard.seen.find(seen8(id16)) == ABSENT:
                _keep_refused(shard, id16, entry_of(link, 0, now), reason)
                counts.known -= 1
            same.remember(link, id16)
        ids.append(id16)
    counts.seen += len(ids)
    counts.known += len(ids)
    return ids


# ------------------------------------------------------------------------------------------------ robots.txt


def _add_robots(shard: Shard, link: Link, now: float) -> bytes:
    """A hop of a robots.txt, or a copy of one, that another shard sends."""
    copy = rules.carried(link)
    if copy is not None:
        shard.keep_robots(copy)
    else:
        queue_hop(shard, link, now)
    return shard.id_of(link)


def queue_hop(shard: Shard, hop: Link, now: float) -> None:
    """The next hop of a robots.txt waits on its own host, before every page there."""
    _, state = shard.host(hop.host)
    if state.aside is not None:
        problem = f"robots.txt is at {hop.url}, and {state.name} is set aside: {state.aside.detail}"
        shard.keep_robots(rules.unreachable(hop.origin, problem, now))
        return
    id16 = shard.id_of(hop)
    if id16 not in shard.leases and shard.entry(id16) is None:
        hop = replace(hop, level=Level.CRITICAL, score=rules.BEFORE_ALL)
        shard.enqueue(id16, entry_of(hop, shard.next_seq(), now))

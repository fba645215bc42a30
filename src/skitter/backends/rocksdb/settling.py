"""Visits back: whatever a visit gave, in the one batch that closes it."""

from collections.abc import Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.backends.rocksdb.adding import add, queue_hop
from skitter.backends.rocksdb.layout import seen8
from skitter.backends.rocksdb.records import CODES, CRAWLED, Entry
from skitter.backends.rocksdb.seen import NEVER
from skitter.backends.rocksdb.shard import Shard
from skitter.frontier import rules
from skitter.model import Purpose, Settlement, State


def settle(shard: Shard, settlements: Sequence[Settlement], now: float) -> list[bool]:
    """Close visits; False for those that are not open under their lease."""
    return [_settle(shard, settlement, now) for settlement in settlements]


def _settle(shard: Shard, settlement: Settlement, now: float) -> bool:
    visit, verdict = settlement.visit, settlement.verdict
    id16 = shard.id_of(visit.link)
    if not rules.same_lease(shard.leases.get(id16), visit):
        return False
    targets = add(shard, settlement.links, settlement.refused, now)
    entry = shard.leased.get(id16)
    shard.end(id16)
    shard.suspect(id16, None)
    _, state = shard.host(visit.link.host)  # touched by `end`
    rules.count_answer(shard.counts, state, settlement)
    if verdict.host_free is not None:
        state.free_at = max(state.free_at, verdict.host_free)
    if verdict.host_delay is not None:
        state.delay = verdict.host_delay
    if visit.link.purpose is Purpose.ROBOTS:
        if entry is not None:  # it was a hop, which had to wait in a queue
            shard.batch.delete("urls", id16)
        _settle_robots(shard, settlement, now)
    else:
        if verdict.host_aside is not None:
            shard.set_aside(visit.link.host, verdict.host_aside)
        if entry is None:
            raise AssertionError(f"{visit.link.url} was leased and has no record")
        _settle_page(shard, id16, entry, settlement, targets, now)
    return True


def _settle_page(
    shard: Shard, id16: bytes, entry: Entry, settlement: Settlement, targets: list[bytes], now: float
) -> None:
    verdict, page, again = settlement.verdict, settlement.page, settlement.again
    if page is not None:
        links = b"".join(dict.fromkeys(targets))
        seen_before = bool(entry.attempts or entry.crawl_count or entry.status)
        shard.keep_page(id16, replace(page, text="") if page.text else page, links, replaces=seen_before)
    entry.status = settlement.status or (page.status if page else entry.status)
    entry.attempts = settlement.visit.attempt - (not verdict.attempted)
    entry.reason = verdict.reason
    if again is not None:
        entry.url, entry.host, entry.requested, entry.hops = (
            again.url,
            again.host,
            again.requested,
            again.hops,
        )
        entry.key = settlement.visit.link.key
        entry.attempts = 0  # a redirect is an answer
        shard.enqueue_again(id16, entry)
    elif verdict.state is State.QUEUED and verdict.due is not None:
        shard.wait(id16, entry, verdict.due)
    elif verdict.state is State.QUEUED:
        shard.enqueue_again(id16, entry)
    else:
        shard.enter(entry, CODES[verdict.state], verdict.reason)
        shard.seen.correct(seen8(id16), NEVER)
        if entry.state == CRAWLED:
            entry.attempts, entry.crawl_count, entry.last_crawl = 0, entry.crawl_count + 1, now
            shard.set_due(id16, entry, verdict.due)
        shard.keep(id16, entry)


def _settle_robots(shard: Shard, settlement: Settlement, now: float) -> None:
    """The rules came, or another hop, or nothing. What is said of the host is said of the origin's, not of the hop's."""
    link, verdict = settlement.visit.link, settlement.verdict
    home = urls.host(link.origin)
    if verdict.host_aside is not None and not shard.hosts.named(home).foreign:
        shard.set_aside(home, verdict.host_aside)
    if settlement.robots is not None:
        shard.keep_robots(settlement.robots)
        return
    shard.hold(link.origin, verdict.due or now + rules.HOP_PATIENCE)
    if settlement.again is not None:
        hop = replace(settlement.again, purpose=Purpose.ROBOTS, origin=link.origin)
        if shard.hosts.named(hop.host).foreign:
            shard.send(hop)
        else:
            queue_hop(shard, hop, now)
    elif verdict.host_aside is not None and shard.hosts.named(home).foreign:
        shard.keep_robots(rules.unreachable(link.origin, verdict.host_aside.detail, now))

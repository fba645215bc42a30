"""Visits back: whatever a visit gave, in the one batch that closes it."""

from collections.abc import Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.frontier import rules
from skitter.frontier.adding import add, need_all, need_host, need_robots, queue_hop
from skitter.frontier.aside import set_aside
from skitter.frontier.held import NEVER
from skitter.frontier.pages import keep_page
from skitter.frontier.rows import CODES, CRAWLED, UrlRow, Wanted
from skitter.frontier.shard import Shard
from skitter.model import Link, Page, Purpose, Settlement, State

# A host that was told to wait for longer than this many times the lead, or seconds, has its visits put back meanwhile.
_FAR = 10
_FAR_AT_LEAST = 30.0

# ------------------------------------------------------------------------------------------------ what is needed


def need(shard: Shard, settlements: Sequence[Settlement], wanted: Wanted) -> list[Link]:
    """Ask for what settling takes; says which links have to be looked at."""
    looked = []
    for settlement in settlements:
        link = settlement.visit.link
        if shard.names.id_of(link) not in shard.leases:
            continue
        looked += need_all(shard, settlement.links, settlement.refused, wanted)
        if link.purpose is Purpose.ROBOTS:
            _need_robots(shard, settlement, wanted)
        elif settlement.again is not None:
            need_host(shard, settlement.again.host, wanted)
        if settlement.page is not None:
            _need_page(shard, settlement.page, shard.names.id_of(link), wanted)
    return looked


def _need_robots(shard: Shard, settlement: Settlement, wanted: Wanted) -> None:
    link = settlement.visit.link
    need_host(shard, urls.host(link.origin), wanted)
    if settlement.again is not None:
        need_robots(shard, _hop(link, settlement.again), wanted)


def _need_page(shard: Shard, page: Page, id16: bytes, wanted: Wanted) -> None:
    need_host(shard, page.host, wanted)
    row = shard.leases[id16].row
    if row is not None and (row.attempts or row.crawl_count or row.status):  # there may be an earlier one
        wanted.pages.append(id16)
    by_digest, by_simhash = rules.indexed(page)
    if by_digest:
        _need_digest(shard, (page.domain, page.digest), wanted)
    if by_simhash and page.simhash is not None:
        _need_simhash(shard, (page.domain, page.simhash), wanted)


def need_replaced(shard: Shard) -> Wanted:
    """Ask for the hosts of pages that were loaded to be replaced: they may be others than those of the new ones."""
    wanted = Wanted()
    for row in shard.pages.values():
        if row is not None:
            need_host(shard, row.page.host, wanted)
    return wanted


def _need_digest(shard: Shard, key: tuple[str, str], wanted: Wanted) -> None:
    """Its twins were asked for a moment ago, and pages are only settled here: what that told is still true."""
    if key in shard.compared:
        shard.digests.setdefault(key, shard.compared[key])
    else:
        wanted.digests.append(key)


def _need_simhash(shard: Shard, key: tuple[str, int], wanted: Wanted) -> None:
    if shard.nearby.lacks(*key):
        shard.simhashes.setdefault(key, None)
    else:
        wanted.simhashes.append(key)


# ------------------------------------------------------------------------------------------------ what is done


def settle(shard: Shard, settlements: Sequence[Settlement], now: float) -> list[bool]:
    """Close visits; False for those that are not open under their lease."""
    return [_settle(shard, settlement, now) for settlement in settlements]


def _settle(shard: Shard, settlement: Settlement, now: float) -> bool:
    visit, verdict = settlement.visit, settlement.verdict
    id16 = shard.names.id_of(visit.link)
    lease = shard.leases.get(id16)
    if lease is None or not lease.handed or not rules.same_lease(lease.visit, visit):
        return False
    targets = add(shard, settlement.links, settlement.refused, now)
    shard.end(id16)
    shard.suspect(id16, None)
    host = shard.host(visit.link.host)  # touched by `end`
    rules.count_answer(shard.counts, host, settlement)
    if verdict.host_free is not None:
        host.free_at = max(host.free_at, verdict.host_free)
    if verdict.host_delay is not None:
        host.delay = verdict.host_delay
    if visit.link.purpose is Purpose.ROBOTS:
        if lease.row is not None:  # it was a hop, which had to wait in a queue
            shard.drop(id16)
        _settle_robots(shard, settlement, now)
    else:
        if verdict.host_aside is not None:
            set_aside(shard, host.name, verdict.host_aside)
        if lease.row is None:
            raise AssertionError(f"{visit.link.url} was leased and has no row")
        _settle_page(shard, lease.row, settlement, targets, now)
    if host.ready_at() > now + max(_FAR * shard.ahead, _FAR_AT_LEAST):
        shard.put_back(host.name)
    return True


def _settle_page(shard: Shard, row: UrlRow, settlement: Settlement, targets: list[bytes], now: float) -> None:
    verdict, page, again = settlement.verdict, settlement.page, settlement.again
    if page is not None:
        links = b"".join(dict.fromkeys(targets))
        keep_page(shard, row.id, replace(page, text="") if page.text else page, links)
    row.status = settlement.status or (page.status if page else row.status)
    row.attempts = settlement.visit.attempt - (not verdict.attempted)
    row.reason = verdict.reason
    if again is not None:
        row.url, row.host, row.requested, row.hops = again.url, again.host, again.requested, again.hops
        row.attempts = 0  # a redirect is an answer
        shard.enqueue(row)
    elif verdict.state is State.QUEUED and verdict.due is not None:
        shard.wait(row, verdict.due)
    elif verdict.state is State.QUEUED:
        shard.enqueue(row)
    else:
        shard.enter(row, CODES[verdict.state], verdict.reason)
        shard.seen[row.id] = NEVER
        if row.state == CRAWLED:
            row.attempts, row.crawl_count, row.last_crawl = 0, row.crawl_count + 1, now
            shard.set_due(row, verdict.due)
        shard.keep(row)


def _settle_robots(shard: Shard, settlement: Settlement, now: float) -> None:
    """The rules came, or another hop, or nothing. What is said of the host is said of the origin's, not of the hop's."""
    link, verdict = settlement.visit.link, settlement.verdict
    home = urls.host(link.origin)
    foreign = shard.names.host(home).foreign
    if verdict.host_aside is not None and not foreign:
        set_aside(shard, home, verdict.host_aside)
    if settlement.robots is not None:
        shard.keep_robots(settlement.robots)
        return
    host = shard.hosts[home]
    if host is not None:
        host.held = max(host.held, verdict.due or now + rules.HOP_PATIENCE)
        shard.touch(host)
    if settlement.again is not None:
        hop = _hop(link, settlement.again)
        if shard.names.host(hop.host).foreign:
            shard.send(hop)
        else:
            queue_hop(shard, hop, now)
    elif verdict.host_aside is not None and foreign:
        shard.keep_robots(rules.unreachable(link.origin, verdict.host_aside.detail, now))


def _hop(link: Link, again: Link) -> Link:
    return replace(again, purpose=Purpose.ROBOTS, origin=link.origin)

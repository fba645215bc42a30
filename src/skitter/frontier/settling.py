"""Settles visits: the result of each, in the one batch that closes it."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from skitter import politeness, reasons, urls
from skitter.frontier import counting, flow, linked, repeating, robots_first
from skitter.frontier.adding import add, is_by_settings, queue_hop
from skitter.frontier.aside import set_aside
from skitter.frontier.leasing import STEP, look_again, wake
from skitter.frontier.levels import DUE_AGAIN, LEVELS, OF_PARKED, retried
from skitter.frontier.pages import keep_page
from skitter.frontier.rows import (
    CODES,
    CRAWLED,
    QUEUED,
    REFUSED,
    Extra,
    HostExtra,
    HostRow,
    UrlRow,
    Was,
    make_as_before,
    order_by_cash,
)
from skitter.frontier.shard import Shard
from skitter.model import Link, Page, Purpose, Reason, Settlement, State, Verdict, Visit, is_put_off
from skitter.politeness import listening
from skitter.schedule.learning import patterns
from skitter.schedule.learning.learned import Learned
from skitter.schedule.learning.patterns import NOTHING, SOMETHING, Brought

# If a host asks for a pause longer than this many times the lead, or seconds, its visits leased ahead are put
# back.
_FAR = 10
_FAR_AT_LEAST = 30.0
_ROBOTS = Purpose.ROBOTS  # looked up once, not with every visit
_QUEUED, _CRAWLED, _FAILED = State.QUEUED, State.CRAWLED, State.FAILED


_SHARE_LISTED = 0.9  # of the pages of a host that ask not to be indexed: then it says nothing about a pattern

Targets = Mapping[int, list[bytes]]
"""The ids of links that were added before, by the identity of the settlement."""


def settle(
    shard: Shard, settlements: Sequence[Settlement], now: float, added: Targets | None = None
) -> list[bool]:
    """Close visits; False for those that are not open under their lease. The links in `added` are there already."""
    if added:
        return [_settle(shard, settlement, now, added.get(id(settlement))) for settlement in settlements]
    return [_settle(shard, settlement, now) for settlement in settlements]


def is_open(shard: Shard, visit: Visit) -> bool:
    """Whether a visit is open under its lease."""
    lease = shard.leases.get(shard.names.id_of(visit.link))
    return lease is not None and lease.handed and _is_same(lease.visit, visit)


def _settle(shard: Shard, settlement: Settlement, now: float, targets: list[bytes] | None = None) -> bool:
    visit, verdict = settlement.visit, settlement.verdict
    id16 = shard.names.id_of(visit.link)
    lease = shard.leases.get(id16)
    if lease is None or not lease.handed or not _is_same(lease.visit, visit):
        return False
    before = shard.counts.added
    if targets is None:
        targets = add(shard, settlement.links, settlement.refused, now)
    shard.end(id16)
    if verdict.attempted or not is_put_off(settlement):  # else a suspect still is one
        shard.suspect(id16, None)
    host = shard.host(visit.link.host)  # touched by `end`
    counting.count_answer(shard.counts, host, settlement)
    if shard.budgets is not None:
        shard.budgets.count(shard, host, settlement)
    parked = _set_clock(shard, host, settlement, now)
    if settlement.beside:
        _owe(shard, settlement)
    if visit.link.purpose is _ROBOTS:
        _settle_robots(shard, lease.row, settlement, now)
    else:
        if verdict.host_aside is not None:
            set_aside(shard, host.name, verdict.host_aside, now)
        if lease.row is None:
            raise AssertionError(f"{visit.link.url} was leased and has no row")
        end = _settle_giver if shard.damping else _settle_page
        end(shard, lease.row, _put_off(settlement, parked), targets, now)
        if shard.learns and parked is None and not host.aside:
            learn(shard, host, settlement, targets, now, new=shard.counts.added > before)
    if shard.budgets is not None and shard.budgets.linked is not None:
        linked.settled(shard, settlement, shard.budgets.linked)
    if shard.ahead and host.ready_at() > now + max(_FAR * shard.ahead, _FAR_AT_LEAST):
        shard.put_back(host.name)
    return True


def _set_clock(shard: Shard, host: HostRow, settlement: Settlement, now: float) -> Reason | None:
    """When the host is free again, and its delay. The reason, if it is parked or given up for its failures."""
    verdict, parked = settlement.verdict, None
    if verdict.host_free is not None:
        host.free_at = max(host.free_at, verdict.host_free)
    if verdict.host_delay is not None:
        host.delay = verdict.host_delay
    if shard.politeness.adaptive:
        trouble = verdict.heard is not None and verdict.heard.sign
        if (
            verdict.host_delay or trouble or (host.extra is not None and host.extra.pace is not None)
        ):  # else there is nothing to learn
            parked = _listen(shard, host, settlement, now)
    if verdict.host_held is not None:
        host.held = max(host.held, verdict.host_held)
        if host.hops and settlement.visit.link.purpose is _ROBOTS:
            # While hops are queued, `held` does not hold the host, and the same robots.txt would be next.
            host.free_at = max(host.free_at, verdict.host_held)
    return parked


def _owe(shard: Shard, settlement: Settlement) -> None:
    """What a rendered page has requested followed each other quickly: afterwards each host is owed its delay for each.

    Hosts of other shards are not known here; `crawl.rendering` leaves them alone for as long, in its own process.
    """
    owed: dict[str, float] = {}
    for each in settlement.beside:
        name, exchange = each.link.host, each.exchange
        if shard.names.host(name).foreign:
            continue
        host = shard.host(name)
        counting.count_sent(shard.counts, host, exchange)
        if shard.budgets is not None:
            shard.budgets.count_sent(shard, host, exchange)
        host.free_at = max(host.free_at, exchange.ended + (each.asked or 0.0))
        owed[name] = owed.get(name, 0.0) + max(each.delay, host.delay)
        shard.touch(host)
    for name, seconds in owed.items():
        shard.host(name).free_at += seconds


def _put_off(settlement: Settlement, parked: Reason | None) -> Settlement:
    """If the host is at fault, its page waits, and this was no attempt."""
    if parked is None:
        return settlement
    waits = replace(settlement.verdict, state=State.QUEUED, due=None, reason=parked, attempted=False)
    return replace(settlement, verdict=waits)


def _listen(shard: Shard, host: HostRow, settlement: Settlement, now: float) -> Reason | None:
    """Learn from an answer how much the host can bear. The reason, if it is parked or given up for that."""
    verdict, settings = settlement.verdict, shard.politeness
    before = None if host.extra is None else host.extra.pace
    floor, heard, pace = verdict.host_delay or 0.0, verdict.heard, before
    if heard is not None:
        pace = listening.listen(before, heard, floor, settings)
        host.extra = HostExtra(pace) if host.extra is None else replace(host.extra, pace=pace)
    if pace is None:
        return None
    delay = listening.delay_of(pace, floor, settings)
    if verdict.host_delay is not None:
        host.delay = delay
    sent = settlement.exchange if heard is None else heard
    if verdict.host_free is not None and sent is not None:
        burst = 1 if pace.wait else settings.burst
        free = politeness.free_after(settlement.visit.host_free, sent.started, sent.ended, delay, burst)
        host.free_at = max(host.free_at, free)
    if heard is None or pace.parked == (before.parked if before else 0) or not pace.failures:
        return None
    given_up = listening.given_up(pace, heard.sign, settings)
    if given_up is not None:
        set_aside(shard, host.name, given_up, now)
        return given_up
    host.free_at = max(host.free_at, heard.ended + listening.pause(pace, settings))
    return listening.parked(pace, heard.sign, settings)


def _is_same(held: Visit, visit: Visit) -> bool:
    """Whether a visit is settled under the open lease.

    A redirect to the same key may be leased at the same instant and as the same attempt, but in another form.
    """
    if held is visit:
        return True
    if held.leased_at != visit.leased_at or held.attempt != visit.attempt:
        return False
    return held.link.url == visit.link.url and held.link.hops == visit.link.hops


def _settle_page(shard: Shard, row: UrlRow, settlement: Settlement, targets: list[bytes], now: float) -> None:
    verdict, page, again = settlement.verdict, settlement.page, settlement.again
    if row.level == DUE_AGAIN and (verdict.attempted or again is not None or verdict.state is not _QUEUED):
        make_as_before(row)
    stored = shard.pages[row.id] if page is not None and shard.refreshing and row.crawl_count else None
    if page is not None:
        _keep(shard, row, page, targets)
    elif targets and 300 <= settlement.status < 400:
        row.extra = replace(row.extra or Extra(), leads=targets[0])
    row.status = settlement.status or (page.status if page else row.status)
    row.attempts = settlement.visit.attempt - (not verdict.attempted)
    row.reason = verdict.reason
    if again is not None:
        row.url, row.host, row.requested, row.hops = again.url, again.host, again.requested, again.hops
        row.attempts, row.level = 0, row.level % len(LEVELS)  # a redirect is an answer
        shard.enqueue(row)
    elif verdict.state is _QUEUED and verdict.due is not None and verdict.host_held is None:
        row.level = retried(row.level) if verdict.attempted else row.level
        shard.wait(row, verdict.due)
    elif verdict.state is _QUEUED:  # if its whole host waits, it keeps its place there
        shard.enqueue(row)
    elif shard.refreshing is None:
        _end(shard, row, verdict, verdict.due, now)
    elif verdict.state is not _FAILED or not _stays(shard, row, now):
        due = verdict.due
        if verdict.state is _CRAWLED and due is None:
            due = shard.refreshing.settled(shard, row, settlement, stored, now)
        elif verdict.state is not _CRAWLED:
            shard.refreshing.no_more(shard, row)
        _end(shard, row, verdict, due, now)
    if shard.depths is not None:
        shard.depths.settled(shard, row, settlement.visit)


def _keep(shard: Shard, row: UrlRow, page: Page, targets: list[bytes]) -> None:
    links = b"".join(dict.fromkeys(targets))
    before = bool(row.attempts or row.crawl_count or row.status)  # there may be an earlier page
    keep_page(shard, row.id, replace(page, text="") if page.text else page, links, replaces=before)
    if shard.samples is not None and ("?" in page.key or page.key in shard.samples.groups):
        repeating.learn(shard, page)


def _end(shard: Shard, row: UrlRow, verdict: Verdict, due: float | None, now: float) -> None:
    """A URL is done: answered, given up or refused."""
    row.level %= len(LEVELS)
    shard.enter(row, CODES[verdict.state], verdict.reason)
    if row.state == REFUSED and is_by_settings(row.reason):
        shard.seen.refused(row.id, row.depth)
    else:
        shard.seen.ended(row.id)
    if row.state == CRAWLED:
        row.attempts, row.crawl_count, row.last_crawl = 0, row.crawl_count + 1, now
        shard.set_due(row, due)
    else:
        shard.keep(row)


def _stays(shard: Shard, row: UrlRow, now: float) -> bool:
    """Whether a page that could not be fetched again stays what it was, and is tried at its next visit."""
    due = None if shard.refreshing is None else shard.refreshing.failed(shard, row, now)
    if due is None:
        return False
    row.attempts, row.level = 0, row.level % len(LEVELS)
    shard.enter(row, CRAWLED, row.reason)
    shard.seen.ended(row.id)
    shard.set_due(row, due)
    return True


def _settle_giver(
    shard: Shard, row: UrlRow, settlement: Settlement, targets: list[bytes], now: float
) -> None:
    """The same if pages pass on what they have to their links."""
    order_by_cash(row)
    _settle_page(shard, row, settlement, targets, now)
    flow.pass_on(shard, row, settlement, targets)


def _settle_robots(shard: Shard, hop: UrlRow | None, settlement: Settlement, now: float) -> None:
    """The rules arrived, or another hop, or nothing. The verdict is about the origin's host, not the hop's."""
    if hop is not None:  # it was in a queue
        shard.drop(hop.id)
    link, verdict = settlement.visit.link, settlement.verdict
    home = urls.host(link.origin)
    foreign = shard.names.host(home).foreign
    if verdict.host_aside is not None and not foreign:
        set_aside(shard, home, verdict.host_aside, now)
    if settlement.robots is not None:
        shard.keep_robots(settlement.robots)
        return
    host = None if foreign else shard.hosts[home]
    if host is not None:
        host.held = max(host.held, verdict.due or now + robots_first.HOP_PATIENCE)
        shard.touch(host)
    if settlement.again is not None:
        following = hop_of(link, settlement.again)
        if shard.names.host(following.host).foreign:
            shard.send(following)
        else:
            queue_hop(shard, following, now)
    elif verdict.host_aside is not None and foreign:
        shard.keep_robots(robots_first.unreachable(link.origin, verdict.host_aside.detail, now))


def hop_of(link: Link, again: Link) -> Link:
    """The next request for a redirected robots.txt."""
    return replace(again, purpose=Purpose.ROBOTS, origin=link.origin)


def unstorable(settlement: Settlement, why: str, now: float) -> Settlement:
    """What remains of a visit whose result an engine refuses to store: that it was made, and the reason."""
    reason = Reason(reasons.UNSTORABLE, why)
    link = settlement.visit.link
    robots = robots_first.unreachable(link.origin, why, now) if link.purpose is _ROBOTS else None
    return Settlement(
        visit=settlement.visit,
        verdict=replace(settlement.verdict, state=State.FAILED, reason=reason, due=None),
        robots=robots,
        status=settlement.status,
        exchange=settlement.exchange,
    )


# ------------------------------------------------------------------------------------------------ what is learned


def _doubt(shard: Shard, parent: str, targets: Sequence[bytes], now: float) -> None:
    """What was found on a page that has brought nothing comes after what was found on others; a link on one of these
    moves it forward.
    """
    shard.names.known.forget()
    for id16 in targets:
        row = shard.batch.urls.get(id16)
        if row is None or row.first_seen != now or row.parent != parent or (row.extra and row.extra.was):
            continue
        if row.state == QUEUED and row.due is None:
            host = shard.host(row.host)
            shard.take(host, row.level, row.spot())
            row.extra = replace(row.extra or Extra(), was=Was(row.level, row.score))
            row.score -= STEP
            shard.push(host, row)
            shard.seen.waits(row.id, row.level, row.score)


def learn(
    shard: Shard, host: HostRow, settlement: Settlement, targets: Sequence[bytes], now: float, *, new: bool
) -> None:
    """Count what a visit has brought for the patterns of its URL. `new`: it led to a URL that is new."""
    visit, verdict = settlement.visit, settlement.verdict
    link = visit.link
    if link.purpose is not Purpose.PAGE or not verdict.attempted or visit.recrawl:
        return
    learned, of_all = shard.learned[host.name], shard.learned[f"*.{host.domain}"]
    if learned is None or of_all is None:
        learned, of_all = shard.learned_of_both(host)
    told = _brought(shard, host, settlement, (learned, of_all), new=new)
    if told is None:
        return
    noted = patterns.note_visit(learned, of_all, link.url, told)
    if new and not noted.brought.useful:
        _doubt(shard, link.url, targets, now)
    if noted.freed:
        wake(shard, host)
    elif noted.more:
        look_again(shard, host, noted.more)
    if noted.changed and shard.ahead:
        shard.put_back(host.name)  # what was leased ahead may be parked now
    decided = noted.changed
    if host.name != host.domain and host.pages <= 1:
        decided |= _learn_of_hosts(shard, host, of_all, noted.brought)
    shard.learn_both(learned, of_all, decided=decided)
    _look_at_rest(shard, host, learned)


def _learn_of_hosts(shard: Shard, host: HostRow, of_all: Learned, brought: Brought) -> bool:
    """What the first page of a host says about new hosts of its domain. Returns whether that decides something."""
    name = patterns.host_pattern(host.name, host.domain)
    changed = patterns.note(of_all, patterns.Names(name, ()), brought)
    if changed and not of_all.patterns[name].parked:
        shard.to_wake += of_all.hosts
        of_all.hosts = []
    return bool(changed)


def _look_at_rest(shard: Shard, host: HostRow, learned: Learned) -> None:
    """If nothing else of a host waits, all that wait aside may be few enough."""
    aside = host.levels[OF_PARKED]
    if not aside or learned.rest or host.queued() > aside or (host.extra and host.extra.again):
        return
    if host.name not in shard.flights and patterns.is_rest(learned, aside):
        learned.rest = True
        look_again(shard, host, aside)
        shard.learn(learned, decided=True)


def _brought(
    shard: Shard,
    host: HostRow,
    settlement: Settlement,
    known: tuple[Learned, Learned],
    *,
    new: bool,
) -> Brought | tuple[int, int] | None:
    """What a visit has brought, or how many shingles of its page were new, of how many. None if it says nothing."""
    page, status, (learned, of_all) = settlement.page, settlement.status, known
    if page is None:
        moved = 300 <= status < 400
        leads_on = moved and (new or settlement.again is not None)
        told = settlement.verdict.state is not _QUEUED and (moved or status >= 400) and not leads_on
        return NOTHING if told else None
    learned.unlisted += not page.robots.index
    if page.status >= 400 or page.identical or (page.duplicate_of and _is_copy(page)):
        return NOTHING
    if (
        not page.robots.index and learned.unlisted <= _SHARE_LISTED * host.pages
    ):  # else all of the site asks for it
        return NOTHING
    if not page.text or not shard.near:
        return NOTHING if page.duplicate_of else SOMETHING
    from skitter.dedup.simhash import news  # noqa: PLC0415  it loads numpy, which is there: the page has a SimHash

    found = news(page.text, of_all.sample, of_all.shift)
    if not found.met:
        return NOTHING if page.duplicate_of else None
    of_all.sample, of_all.shift = found.sample, found.shift
    return found.new, found.met


def _is_copy(page: Page) -> bool:
    """Whether it is nearly the same as a page of another pattern. Pages of one pattern may differ in little."""
    return patterns.names_of(page.duplicate_of).leaf != patterns.names_of(page.url).leaf

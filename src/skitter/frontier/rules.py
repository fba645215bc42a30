"""What every frontier decides and counts alike, so that two back ends cannot disagree about it.

Nothing here stores anything: the level draw, the tallies of a settlement, what a crash makes of an open visit, and which
pages lie behind an archive's mark are functions of their arguments.
"""

import base64
import re
import sys
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from skitter.model import (
    Counts,
    Level,
    Link,
    Page,
    Place,
    Purpose,
    Reason,
    RobotsCopy,
    Settlement,
    State,
    UrlRecord,
    Visit,
)
from skitter.ports import Mark

K = TypeVar("K")
LEVELS = tuple(Level)
_SERIAL = re.compile(r"(\d+)(?:\.warc\.gz)?\Z")

# ------------------------------------------------------------------------------------------------ levels

# The ruler sequence: the number of trailing zeros of 1..31 is 0 sixteen times, 1 eight times, … 4 once. Read as levels it
# is a draw by the weights 16:8:4:2:1 that spreads every level evenly and needs one small number as its whole state.
RULER = tuple((n & -n).bit_length() - 1 for n in range(1, 32))


def _next(turn: int, mask: int) -> tuple[int, int]:
    for step in range(len(RULER)):
        slot = (turn + step) % len(RULER)
        if mask >> RULER[slot] & 1:
            return RULER[slot], (slot + 1) % len(RULER)
    return -1, turn


DRAW = tuple(tuple(_next(turn, mask) for turn in range(len(RULER))) for mask in range(1 << len(Level)))
"""DRAW[mask][turn] is (level drawn, turn afterwards); bit n of the mask says that level n has something to give."""

# ------------------------------------------------------------------------------------------------ crashes

CRASHES = 3  # a visit found open this often is handed out alone from then on
CRASHES_IN_HAND = 3  # a visit in hand this often is given up
CRASHES_ALONE = (
    10  # … and one that was merely alone in flight this often, for it may be somebody outside who kills us
)


class Suspicion(Struct, array_like=True, gc=False):
    """How often the process died while a visit was open, and how often while it was in hand."""

    crashes: int = 0
    in_hand: int = 0

    def once_more(self, *, in_hand: bool) -> "Suspicion":
        """After the next death."""
        return Suspicion(self.crashes + 1, self.in_hand + in_hand)


def suspected(crashes: int, in_hand: int) -> bool:
    """Whether a visit must be made alone, so that the next crash tells whether it was the cause."""
    return crashes >= CRASHES or in_hand >= 1


def crash_reason(crashes: int, in_hand: int) -> Reason | None:
    """Why a visit is given up for good; None: it is not."""
    if in_hand >= CRASHES_IN_HAND:
        return Reason("crash", f"the process died {in_hand} times while it worked on this answer")
    if crashes >= CRASHES + CRASHES_ALONE:
        return Reason("crash", f"the process died {crashes} times while this was fetched")
    return None


def unstorable(settlement: Settlement, why: str, now: float) -> Settlement:
    """What is left of a visit when an engine refuses to store what came of it: that it was made, and the reason."""
    reason = Reason("unstorable", why)
    link = settlement.visit.link
    robots = unreachable(link.origin, why, now) if link.purpose is Purpose.ROBOTS else None
    return Settlement(
        visit=settlement.visit,
        verdict=msgspec.structs.replace(settlement.verdict, state=State.FAILED, reason=reason, due=None),
        robots=robots,
        status=settlement.status,
        exchange=settlement.exchange,
    )


# ------------------------------------------------------------------------------------------------ another chance

# Why a host may be set aside that is worth another look when somebody names it: what these say of it can change.
_PASSING = ("robots.unreachable", "retry-after", "crawl-delay")


def names_seed(link: Link) -> bool:
    """Whether somebody asks for this very URL. Where a seed's redirect leads was named by a server."""
    return link.seed and not link.hops


def passing(aside: Reason | None) -> bool:
    """Whether a host is set aside for a reason that a named seed overrules."""
    return aside is not None and aside.code.startswith(_PASSING)


def may_enter(state: State, *, visited: bool, named: bool) -> bool:
    """Whether a URL with a record is accepted as if it were new. What was refused when it was offered, and never
    visited, may be wanted by the next one who offers it; what a visit ended is only for a seed to bring back."""
    if state is State.REFUSED:
        return named or not visited
    return named and state is State.FAILED


# ------------------------------------------------------------------------------------------------ robots.txt

# How long a host waits for the next hop of its robots.txt, which may be on a host with a clock of its own, before the
# robots.txt is asked for from the start.
HOP_PATIENCE = 60.0
# The score of such a hop: before every page of its host.
BEFORE_ALL = sys.float_info.max
# RFC 9309 2.4: a cached copy is used for a day at most.
NO_ROBOTS_FOR = 86400.0


class Waiting(Protocol):
    """A page that waits for its robots.txt, as any store keeps it."""

    @property
    def url(self) -> str: ...  # noqa: D102

    @property
    def depth(self) -> int: ...  # noqa: D102


def robots_link(origin: str, host: str, page: Waiting | None = None) -> Link:
    """The request for an origin's robots.txt, which comes before any page of it. It names the page it is for."""
    url = f"{origin}/robots.txt"
    return Link(
        url=url,
        key=url,
        host=host,
        depth=page.depth if page else 0,
        parent=page.url if page else "",
        level=Level.CRITICAL,
        purpose=Purpose.ROBOTS,
        origin=origin,
    )


def unreachable(origin: str, problem: str, now: float) -> RobotsCopy:
    """RFC 9309 2.3.1.4: where the rules cannot be had, everything is disallowed."""
    return RobotsCopy(
        origin=origin, access="none", fetched_at=now, expires=now + NO_ROBOTS_FOR, tries=1, problem=problem
    )


def carry(copy: RobotsCopy, host: str) -> Link:
    """A copy for an origin of another shard, as a link in the outbox: the next hop was ours, the pages are theirs."""
    packed = base64.b85encode(msgspec.msgpack.encode(copy)).decode()
    return msgspec.structs.replace(robots_link(copy.origin, host), meta={"robots": packed})


def carried(link: Link) -> RobotsCopy | None:
    """The copy that a link from another shard brings."""
    if link.purpose is not Purpose.ROBOTS or not link.meta or "robots" not in link.meta:
        return None
    return msgspec.msgpack.decode(base64.b85decode(link.meta["robots"]), type=RobotsCopy)


# ------------------------------------------------------------------------------------------------ tallies


class Tally(Protocol):
    """What is counted per host."""

    pages: int
    requests: int
    errors: int
    bytes: int


def count_state(counts: Counts, state: State, reason: Reason | None, by: int) -> None:
    """A number of URLs enters a state, or leaves it."""
    if state is State.QUEUED:
        counts.queued += by
    elif state is State.CRAWLED:
        counts.crawled += by
    elif state is State.FAILED:
        counts.failed += by
        _bump(counts.failures, reason.code if reason else "unknown", by)
    elif state is State.REFUSED:
        _bump(counts.refused, reason.code if reason else "unknown", by)


def count_waiting(counts: Counts, aside: Reason | None, by: int) -> None:
    """A number of URLs waits on a host, or waits no more. On a host that is set aside they count as refused."""
    count_state(counts, State.QUEUED if aside is None else State.REFUSED, aside, by)


def count_answer(counts: Counts, host: Tally, settlement: Settlement) -> None:
    """What a settled visit cost, whatever it gave."""
    exchange = settlement.exchange
    if exchange is not None:
        received = len(exchange.head) + len(exchange.body)
        counts.requests += 1
        counts.bytes += received
        host.requests += 1
        host.bytes += received
    verdict = settlement.verdict
    failed = verdict.state is State.FAILED or (verdict.state is State.QUEUED and verdict.due is not None)
    unheard = settlement.robots is not None and settlement.robots.tries > 0  # its robots.txt could not be had
    if (failed and verdict.attempted) or unheard:  # what was only put off is no error of the host
        host.errors += 1
    if settlement.status and settlement.visit.link.purpose is Purpose.PAGE:
        _bump(counts.statuses, settlement.status, 1)
        counts.not_found += settlement.status in (404, 410)


def count_page(counts: Counts, host: Tally, page: Page, by: int) -> None:
    """A stored page comes, or goes."""
    if 200 <= page.status < 300:
        host.pages += by
        counts.pages += by
        counts.processed += 0 if page.ignored else by
        _bump(counts.depths, page.depth, by)
    counts.duplicates += by if page.duplicate_of else 0


def _bump(counts: dict[K, int], name: K, by: int) -> None:
    value = counts.get(name, 0) + by
    if value:
        counts[name] = value
    else:
        counts.pop(name, None)


# ------------------------------------------------------------------------------------------------ what can be read back


class Known(Protocol):
    """A URL as a store keeps it; its state and level are told apart, because stores number them."""

    url: str
    key: str  # empty where it is the URL
    reason: Reason | None
    depth: int
    parent: str
    level: int
    score: float
    attempts: int
    crashes: int
    crawl_count: int
    status: int
    first_seen: float
    last_crawl: float | None
    due: float | None


def url_record(known: Known, state: State, aside: Reason | None) -> UrlRecord:
    """What is told of a URL. What waits on a host that was set aside is refused, for the same reason."""
    reason = known.reason
    if state is State.QUEUED and aside is not None:
        state, reason = State.REFUSED, aside
    return UrlRecord(
        url=known.url,
        key=known.key or known.url,
        state=state,
        reason=reason,
        depth=known.depth,
        parent=known.parent,
        level=LEVELS[known.level],
        score=known.score,
        attempts=known.attempts,
        crashes=known.crashes,
        crawl_count=known.crawl_count,
        status=known.status,
        first_seen=known.first_seen,
        last_crawl=known.last_crawl,
        next_crawl=None if state is State.REFUSED else known.due,
    )


# ------------------------------------------------------------------------------------------------ small questions


def better(level: int, score: float, than_level: int, than_score: float) -> bool:
    """Whether one place in the queue is before another."""
    return level < than_level or (level == than_level and score > than_score)


def behind(place: Place | None, mark: Mark) -> bool:
    """Whether a record lies, or ends, behind the mark. Files are ordered by the number at the end of their names."""
    if place is None:
        return False
    if place.file == mark.file:
        return place.offset + place.length > mark.end
    return _serial(place.file) > _serial(mark.file)


def _serial(file: str) -> tuple[int, str]:
    digits = _SERIAL.search(file)
    return (int(digits[1]) if digits else -1), file


def indexed(page: Page) -> tuple[bool, bool]:
    """Whether later pages are compared with this one: by digest, by SimHash."""
    good = 200 <= page.status < 300
    by_simhash = good and page.simhash is not None and not page.duplicate_of
    return good and bool(page.digest) and not page.identical, by_simhash


def same_lease(held: Visit | None, visit: Visit) -> bool:
    """Whether a visit is settled under the lease that is open. A redirect to the same key may be leased in the same
    instant and as the same attempt, but in another form."""
    if held is None or held.leased_at != visit.leased_at or held.attempt != visit.attempt:
        return False
    return held.link.url == visit.link.url and held.link.hops == visit.link.hops

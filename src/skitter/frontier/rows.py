"""The rows of one shard, the same for every store, and the questions and writes of the store port.

A row is a value: it belongs to the caller, who changes it and writes it back whole. Every index of a store is a
function of its rows (see `standing`), so a row alone says where it is found.
"""

from typing import Any, NamedTuple

from msgspec import Struct, field

from skitter.frontier.crashes import Suspicion
from skitter.frontier.levels import DUE_AGAIN, QUEUES
from skitter.model import (
    Cash,
    Counts,
    Hints,
    Level,
    Link,
    Linked,
    Pace,
    Page,
    Purpose,
    Reason,
    RobotsCopy,
    State,
    Usage,
    Visit,
)
from skitter.ports import Mark
from skitter.schedule.learning.learned import Learned

Spot = tuple[float, int]
"""A link's place in a queue of its host: (-score, sequence number). Smaller comes first; no two are equal."""

# A row's state as a number. FOREIGN was sent to the shard that owns it, and is not sent again. A row in
# flight stays in its queue unchanged: only its lease says that it is in flight. So a lease does not rewrite
# the row.
QUEUED, CRAWLED, FAILED, REFUSED, FOREIGN = range(5)
STATES = (State.QUEUED, State.CRAWLED, State.FAILED, State.REFUSED)
CODES = {state: code for code, state in enumerate(STATES)}


class Was(Struct, frozen=True, array_like=True, gc=False):
    """The place of a URL before it was demoted or put aside."""

    level: int
    score: float
    tried: bool = False  # it is visited all the same, to see whether its pattern brings something by now


class Extra(Struct, frozen=True, array_like=True, gc=False):
    """What few URLs have. Every store keeps it as one value, so that a new field, at the end, changes no store."""

    hints: Hints | None = None
    purpose: Purpose = Purpose.PAGE
    cash: Cash | None = None
    leads: bytes = b""  # the id that it redirects to
    was: Was | None = None


class UrlRow(Struct, array_like=True, gc=False):
    """A URL, or a robots.txt hop, and its state."""

    id: bytes  # 16 bytes, a hash of the key
    url: str
    key: str
    host: str
    domain: str
    state: int = QUEUED
    level: int = Level.NORMAL  # the queue it waits in: its level's, or the retry queue (see `levels`)
    score: float = 0.0
    seq: int = 0  # its age; 0 if never accepted
    depth: int = 0
    parent: str = ""
    first_seen: float = 0.0
    last_crawl: float | None = None
    due: float | None = None  # when it returns to the queue; until then it is not in it
    crawl_count: int = 0
    attempts: int = 0
    crashes: int = 0
    status: int = 0
    reason: Reason | None = None
    parked: bool = False  # it came due while its host was set aside: its time no longer counts
    requested: str = ""
    hops: int = 0
    seed: bool = False
    meta: dict[str, Any] | None = None
    origin: str = ""  # of a robots.txt hop; empty for a page
    extra: Extra | None = None

    @property
    def hints(self) -> Hints | None:
        """What was said about it where it was found."""
        return None if self.extra is None else self.extra.hints

    @property
    def purpose(self) -> Purpose:
        """What it is fetched for. A robots.txt hop is known by its origin."""
        if self.origin:
            return Purpose.ROBOTS
        return Purpose.PAGE if self.extra is None else self.extra.purpose

    def spot(self) -> Spot:
        """Its place in its queue."""
        return -self.score, self.seq


class HostExtra(Struct, frozen=True, array_like=True, gc=False):
    """What a host's row has besides its queues and counts. Every store keeps it as one value, so that a new field, at the end, changes no store."""

    pace: Pace | None = None  # how it answers, and the delay learnt from that
    usage: Usage | None = None  # what it has used of its budget
    linked: Linked | None = None  # of a domain: who links to it, and which of its hosts wait until more do
    behind: str | None = (
        None  # of a host that waits for that: the next one, "" for none; None if it does not wait
    )
    again: int = 0  # so many of the first URLs that wait aside are looked at again, when nothing else waits


class HostRow(Struct, array_like=True, gc=False):
    """A host: its clock, the heads of its queues, and its counts."""

    name: str
    domain: str
    levels: list[int]  # links in each of its queues
    heads: list[Spot | None]  # the first of them
    free_at: float = 0.0
    held: float = 0.0  # until then, its pages wait for a robots.txt that is fetched elsewhere
    delay: float = 0.0
    turn: int = 0
    hops: int = 0  # robots.txt hops queued here
    waiting: int = 0  # retries that are not due yet
    place: bytes = b""  # its place in the agenda; empty if nothing waits
    pages: int = 0
    requests: int = 0
    errors: int = 0
    bytes: int = 0
    aside: Reason | None = None
    extra: HostExtra | None = None

    def queued(self) -> int:
        """Links waiting for a visit, due or not."""
        return sum(self.levels) + self.waiting

    def lined_up(self) -> int:
        """Those of them that wait for their host alone, retries included: a large number may change its place among hosts."""
        return sum(self.levels[:DUE_AGAIN])

    def ready_at(self) -> float:
        """When its clock allows the next visit."""
        return self.free_at if self.hops else max(self.free_at, self.held)


class PageRow(Struct, array_like=True, gc=False):
    """A stored page without its text, the ids of its links, and whether later pages are compared with it.

    At most one page of a domain represents a digest, and at most one a SimHash.
    """

    id: bytes
    page: Page
    links: bytes = b""  # concatenated ids, 16 bytes each
    by_digest: bool = False
    by_simhash: bool = False


Compared = dict[tuple[str, str], PageRow | None]
"""By domain and digest, the page that represents it, or None."""


class Meta(Struct, array_like=True):
    """Replaced with every write."""

    seq: int = 0
    mark: Mark = field(default_factory=Mark)
    counts: Counts = field(default_factory=Counts)
    positions: dict[str, str] = field(default_factory=dict)  # how far messages are stored, by source
    clock: float = 0.0  # when this was written, by the owner's clock
    judged_by: str = ""  # a digest of the settings that last judged waiting and refused URLs


# ------------------------------------------------------------------------------------------------ where a URL stands

QUEUE, RETRY, RECRAWL, PARKED = "queue", "retry", "recrawl", "parked"


class Standing(Struct, frozen=True, gc=False):
    """The one index that has a row besides its id: its host's queue, or one of the lists of times."""

    kind: str  # QUEUE, RETRY, RECRAWL or PARKED
    host: str  # of QUEUE and PARKED
    level: int  # of QUEUE
    order: float  # -score in QUEUE, else the time it is due
    seq: int  # of QUEUE


def standing(row: UrlRow) -> Standing | None:
    """The index entry of a row; None if it is found only by its id."""
    if row.state == QUEUED and row.due is None:
        return Standing(QUEUE, row.host, row.level, -row.score, row.seq)
    if row.due is None or row.state not in (QUEUED, CRAWLED):
        return None
    if row.parked:
        return Standing(PARKED, row.host, 0, row.due, 0)
    return Standing(RETRY if row.state == QUEUED else RECRAWL, "", 0, row.due, 0)


# ------------------------------------------------------------------------------------------------ a round trip


class Heads(NamedTuple):
    """The first links of a host's queue, after a spot."""

    host: str
    level: int
    after: Spot | None
    limit: int


class Span(NamedTuple):
    """The first hosts of the agenda between two places."""

    after: bytes
    before: bytes
    limit: int


class Times(NamedTuple):
    """The first URLs of a list of times (RETRY or RECRAWL), ordered by (due, id), after such a pair."""

    kind: str
    after: tuple[float, bytes] | None
    limit: int


class Wanted(Struct, gc=False):
    """Everything needed that is not in memory, requested at once."""

    urls: list[bytes] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    robots: list[str] = field(default_factory=list)
    pages: list[bytes] = field(default_factory=list)
    heads: list[Heads] = field(default_factory=list)
    agenda: list[Span] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)  # hosts
    digests: list[tuple[str, str]] = field(default_factory=list)  # (domain, digest)
    simhashes: list[tuple[str, int]] = field(default_factory=list)  # (domain, SimHash)
    domains: list[tuple[str, int]] = field(default_factory=list)  # (domain, at most this many)
    learned: list[str] = field(default_factory=list)  # hosts, or names that stand for all hosts of a domain

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Found(Struct, gc=False):
    """The answer, by key; missing keys do not exist. For lists, one answer each, in the same order."""

    urls: dict[bytes, UrlRow] = field(default_factory=dict)
    hosts: dict[str, HostRow] = field(default_factory=dict)
    robots: dict[str, RobotsCopy] = field(default_factory=dict)
    pages: dict[bytes, PageRow] = field(default_factory=dict)
    heads: list[list[UrlRow]] = field(default_factory=list)
    agenda: list[list[HostRow]] = field(default_factory=list)
    times: list[list[UrlRow]] = field(default_factory=list)
    parked: dict[str, list[UrlRow]] = field(default_factory=dict)
    digests: dict[tuple[str, str], PageRow] = field(default_factory=dict)  # represents a digest
    simhashes: dict[tuple[str, int], PageRow] = field(default_factory=dict)  # represents a SimHash
    domains: dict[str, list[int]] = field(default_factory=dict)  # SimHashes that a page represents
    learned: dict[str, Learned] = field(default_factory=dict)


class Batch(Struct, gc=False):
    """One atomic write: rows to put, or to delete if the value is None.

    A store that maintains its own indexes finds in `stood`, `placed` and `replaced` where the rows were before.
    `outbox` is only used if the store keeps links for other shards (see `store.Outbox`). `number` grows from one
    batch of an owner to the next; 0 if a batch needs none.
    """

    meta: Meta
    number: int = 0
    urls: dict[bytes, UrlRow | None] = field(default_factory=dict)
    hosts: dict[str, HostRow] = field(default_factory=dict)
    pages: dict[bytes, PageRow | None] = field(default_factory=dict)
    robots: dict[str, RobotsCopy | None] = field(default_factory=dict)
    leases: dict[bytes, Visit | None] = field(default_factory=dict)
    suspects: dict[bytes, Suspicion | None] = field(default_factory=dict)
    learned: dict[str, Learned | None] = field(default_factory=dict)
    outbox: dict[int, Link | None] = field(default_factory=dict)
    stood: dict[bytes, Standing] = field(default_factory=dict)  # of URLs that were in an index
    placed: dict[str, bytes] = field(
        default_factory=dict
    )  # of hosts that moved in the agenda; empty if new there
    replaced: dict[bytes, PageRow] = field(default_factory=dict)
    last: bool = False  # the owner gives the shard back with this batch


class Opening(Struct, gc=False):
    """What a new owner must know first."""

    meta: Meta
    leases: dict[bytes, Visit]
    suspects: dict[bytes, Suspicion]
    power_lost: bool = (
        False  # the machine went down since the last owner opened the shard: writes may be missing
    )


# ------------------------------------------------------------------------------------------------ rows and the model


def new_host(name: str, domain: str) -> HostRow:
    """The row of a new host."""
    return HostRow(name, domain, [0] * QUEUES, [None] * QUEUES)


def widened(host: HostRow | None) -> HostRow | None:
    """A host with all queues that there are today: it may have been written when there were fewer."""
    if host is not None and (missing := QUEUES - len(host.levels)) > 0:
        host.levels += [0] * missing
        host.heads += [None] * missing
    return host


def url_row(id16: bytes, link: Link, domain: str, now: float) -> UrlRow:
    """The row of a new link."""
    return UrlRow(
        id=id16,
        url=link.url,
        key=link.key,
        host=link.host,
        domain=domain,
        level=int(link.level),
        score=link.score,
        depth=link.depth,
        parent=link.parent,
        first_seen=now,
        requested=link.requested,
        hops=link.hops,
        seed=link.seed,
        meta=dict(link.meta) if link.meta else None,
        origin=link.origin if link.purpose is Purpose.ROBOTS else "",
        extra=extra_of(link),
    )


def order_by_cash(row: UrlRow) -> None:
    """What a URL has received decides about its place. The row must not be in a queue; one that is due again has another order."""
    if row.extra is not None and row.extra.cash is not None and row.level < DUE_AGAIN:
        row.score = row.extra.cash.received


def extra_of(link: Link) -> Extra | None:
    """What few links have; None for all others."""
    if link.hints is None and (link.purpose is Purpose.PAGE or link.purpose is Purpose.ROBOTS):
        return None
    return Extra(link.hints, Purpose.PAGE if link.purpose is Purpose.ROBOTS else link.purpose)

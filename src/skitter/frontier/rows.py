"""The rows of one shard as any store keeps them, and what a store is asked and told.

A row is a value: what a store returns belongs to the caller, who changes it and writes it back whole. Every index that a
store keeps is a function of its rows (see `standing`), so a row alone says where it is found.
"""

from typing import Any, NamedTuple

from msgspec import Struct, field

from skitter.frontier.crashes import Suspicion
from skitter.frontier.levels import QUEUES
from skitter.model import Counts, Level, Link, Page, Purpose, Reason, RobotsCopy, State, Visit
from skitter.ports import Mark

Spot = tuple[float, int]
"""Where a link stands in its host's level: (-score, sequence number). The smaller comes first; no two are equal."""

# A row's state as a number. FOREIGN was sent to the shard that owns it, and shall not be sent again. A row that is out for
# a visit stays as it is, in its queue: that it is out, its lease says. So a lease does not rewrite the row.
QUEUED, CRAWLED, FAILED, REFUSED, FOREIGN = range(5)
STATES = (State.QUEUED, State.CRAWLED, State.FAILED, State.REFUSED)
CODES = {state: code for code, state in enumerate(STATES)}


class UrlRow(Struct, array_like=True, gc=False):
    """A URL, or a hop of a robots.txt, and what became of it."""

    id: bytes  # 16 bytes, a hash of the key
    url: str
    key: str
    host: str
    domain: str
    state: int = QUEUED
    level: int = Level.NORMAL  # the queue it waits in: its level, or that of a retry (see `levels`)
    score: float = 0.0
    seq: int = 0  # its age; 0: never accepted
    depth: int = 0
    parent: str = ""
    first_seen: float = 0.0
    last_crawl: float | None = None
    due: float | None = None  # when it comes back to the queue; it is not in the queue before
    crawl_count: int = 0
    attempts: int = 0
    crashes: int = 0
    status: int = 0
    reason: Reason | None = None
    parked: bool = False  # it was due while its host was set aside: nobody waits for its time any more
    requested: str = ""
    hops: int = 0
    seed: bool = False
    meta: dict[str, Any] | None = None
    origin: str = ""  # of a hop of a robots.txt; empty for a page

    def spot(self) -> Spot:
        """Where it stands in its host's level."""
        return -self.score, self.seq


class HostRow(Struct, array_like=True, gc=False):
    """A host: its clock, the heads of its queues, and its tallies."""

    name: str
    domain: str
    levels: list[int]  # links in each of its queues
    heads: list[Spot | None]  # the first of them
    free_at: float = 0.0
    held: float = 0.0  # its pages wait until then for a robots.txt that is being fetched elsewhere
    delay: float = 0.0
    turn: int = 0
    hops: int = 0  # hops of redirected robots.txt files that are queued here
    waiting: int = 0  # retries that are not due yet
    place: bytes = b""  # where it stands in the agenda; empty while it has nothing to give
    pages: int = 0
    requests: int = 0
    errors: int = 0
    bytes: int = 0
    aside: Reason | None = None

    def queued(self) -> int:
        """Links that wait for a visit, due or not."""
        return sum(self.levels) + self.waiting

    def ready_at(self) -> float:
        """When it may be touched, as far as its clock says."""
        return self.free_at if self.hops else max(self.free_at, self.held)


class PageRow(Struct, array_like=True, gc=False):
    """A stored page without its text, the ids of its links, and whether later pages are compared with it.

    At most one page of a domain stands for a digest, and at most one for a SimHash.
    """

    id: bytes
    page: Page
    links: bytes = b""  # ids in a row, 16 bytes each
    by_digest: bool = False
    by_simhash: bool = False


Compared = dict[tuple[str, str], PageRow | None]
"""By domain and digest, the page that stands for it; None for none."""


class Meta(Struct, array_like=True):
    """What is replaced with every write."""

    seq: int = 0
    mark: Mark = field(default_factory=Mark)
    counts: Counts = field(default_factory=Counts)
    positions: dict[str, str] = field(default_factory=dict)  # how far messages are taken in, by source
    clock: float = 0.0  # when this was written, by the owner's clock
    judged_by: str = ""  # a digest of the settings by which waiting and refused URLs were judged last


# ------------------------------------------------------------------------------------------------ where a URL stands

QUEUE, RETRY, RECRAWL, PARKED = "queue", "retry", "recrawl", "parked"


class Standing(NamedTuple):
    """The one index in which a row is found besides its id: its host's queue, or one of the lists of times."""

    kind: str  # QUEUE, RETRY, RECRAWL or PARKED
    host: str  # of QUEUE and PARKED
    level: int  # of QUEUE
    order: float  # -score in QUEUE, else the time it is due
    seq: int  # of QUEUE


def standing(row: UrlRow) -> Standing | None:
    """Where a row is found; None: by its id alone."""
    if row.state == QUEUED and row.due is None:
        return Standing(QUEUE, row.host, row.level, -row.score, row.seq)
    if row.due is None or row.state not in (QUEUED, CRAWLED):
        return None
    if row.parked:
        return Standing(PARKED, row.host, 0, row.due, 0)
    return Standing(RETRY if row.state == QUEUED else RECRAWL, "", 0, row.due, 0)


# ------------------------------------------------------------------------------------------------ a round trip


class Heads(NamedTuple):
    """The first links of a host's level, behind a spot."""

    host: str
    level: int
    after: Spot | None
    limit: int


class Span(NamedTuple):
    """The first hosts of the agenda whose place is between two others."""

    after: bytes
    before: bytes
    limit: int


class Times(NamedTuple):
    """The first URLs of a list of times (RETRY or RECRAWL), by (due, id), behind a pair of these."""

    kind: str
    after: tuple[float, bytes] | None
    limit: int


class Wanted(Struct, gc=False):
    """What is not in memory and needed, all of it asked for at once."""

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
    domains: list[tuple[str, int]] = field(default_factory=list)  # (domain, at most so many)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Found(Struct, gc=False):
    """The answer, by key; what does not exist is not in it. Where lists were asked for, one each in the same order."""

    urls: dict[bytes, UrlRow] = field(default_factory=dict)
    hosts: dict[str, HostRow] = field(default_factory=dict)
    robots: dict[str, RobotsCopy] = field(default_factory=dict)
    pages: dict[bytes, PageRow] = field(default_factory=dict)
    heads: list[list[UrlRow]] = field(default_factory=list)
    agenda: list[list[HostRow]] = field(default_factory=list)
    times: list[list[UrlRow]] = field(default_factory=list)
    parked: dict[str, list[UrlRow]] = field(default_factory=dict)
    digests: dict[tuple[str, str], PageRow] = field(default_factory=dict)  # that stands for a digest
    simhashes: dict[tuple[str, int], PageRow] = field(default_factory=dict)  # that stands for a SimHash
    domains: dict[str, list[int]] = field(default_factory=dict)  # SimHashes that a page stands for


class Batch(Struct, gc=False):
    """One atomic step: rows put, or deleted where the value is None.

    A store that keeps its indexes by hand finds in `stood`, `placed` and `replaced` where the rows stood before.
    `outbox` is only filled where the store keeps links for other shards (see `store.Outbox`).
    `number` grows from one batch of an owner to the next; 0 for one that needs none.
    """

    meta: Meta
    number: int = 0
    urls: dict[bytes, UrlRow | None] = field(default_factory=dict)
    hosts: dict[str, HostRow] = field(default_factory=dict)
    pages: dict[bytes, PageRow | None] = field(default_factory=dict)
    robots: dict[str, RobotsCopy | None] = field(default_factory=dict)
    leases: dict[bytes, Visit | None] = field(default_factory=dict)
    suspects: dict[bytes, Suspicion | None] = field(default_factory=dict)
    outbox: dict[int, Link | None] = field(default_factory=dict)
    stood: dict[bytes, Standing] = field(default_factory=dict)  # of URLs that stood somewhere
    placed: dict[str, bytes] = field(
        default_factory=dict
    )  # of hosts that moved in the agenda; empty: new there
    replaced: dict[bytes, PageRow] = field(default_factory=dict)
    last: bool = False  # the owner gives the shard back with this one


class Opening(Struct, gc=False):
    """All that a new owner must know before anything else."""

    meta: Meta
    leases: dict[bytes, Visit]
    suspects: dict[bytes, Suspicion]
    power_lost: bool = (
        False  # the machine went down since the last owner opened the shard: writes may be missing
    )


# ------------------------------------------------------------------------------------------------ rows and the model


def new_host(name: str, domain: str) -> HostRow:
    """The row of a host that is met for the first time."""
    return HostRow(name, domain, [0] * QUEUES, [None] * QUEUES)


def url_row(id16: bytes, link: Link, domain: str, now: float) -> UrlRow:
    """The row of a link that is new."""
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
    )

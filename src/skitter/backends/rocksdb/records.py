"""The records that stand in the store, and how they become the values of the model."""

from typing import Any

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from skitter.frontier.rules import LEVELS, Suspicion
from skitter.model import (
    Counts,
    Level,
    Link,
    Page,
    Purpose,
    Reason,
    RobotsCopy,
    State,
    Visit,
)
from skitter.ports import Mark

# An entry's state as a number. FOREIGN is a link that was sent to the shard that owns it, and shall not be sent again.
STATES = (State.QUEUED, State.CRAWLED, State.FAILED, State.REFUSED)
QUEUED, CRAWLED, FAILED, REFUSED, FOREIGN = range(5)
CODES = {state: code for code, state in enumerate(STATES)}


class Entry(Struct, array_like=True, gc=False):
    """A URL, or a hop of a robots.txt, and what became of it. A leased one is QUEUED here and in its lease.

    The fields that a new link fills come first: `packed_new` writes no others.
    """

    url: str
    key: str  # empty when it is the URL itself
    host: str
    seq: int = 0
    level: int = Level.NORMAL
    score: float = 0.0
    depth: int = 0
    parent: str = ""
    first_seen: float = 0.0
    state: int = QUEUED
    attempts: int = 0
    due: float | None = None  # it is in `due`, not in `queue`
    reason: Reason | None = None
    status: int = 0
    crawl_count: int = 0
    last_crawl: float | None = None
    crashes: int = 0
    requested: str = ""
    hops: int = 0
    seed: bool = False
    meta: dict[str, Any] | None = None
    origin: str = ""  # of a hop of a robots.txt; empty for a page


class Lease(Struct, array_like=True, gc=False):
    """An open visit. Its link is that of the entry, which waits in no queue meanwhile; a robots.txt may have none."""

    attempt: int
    leased_at: float
    alone: bool
    host_pages: int
    host_free: float
    entry: Entry | None = None
    link: Link | None = None

    def visit(self) -> Visit:
        """The visit as it was handed out."""
        link = self.link if self.entry is None else link_of(self.entry)
        if link is None:
            raise AssertionError("a lease without a link")
        return Visit(link, self.attempt, self.leased_at, self.alone, self.host_pages, self.host_free)


class Stored(Struct, array_like=True, gc=False):
    """A page with the ids of its links."""

    page: Page
    links: bytes


class StoredLinks(Struct, array_like=True, gc=False):
    """The same, when only the links are asked for."""

    page: Raw
    links: bytes


class HostState(Struct, array_like=True, gc=False):
    """A host: its clock, the heads of its queues, and its tallies."""

    name: str
    domain: bytes  # dom8
    levels: list[int]  # links in the queue, by level
    heads: list[bytes]  # spot24 of the first of them, by level; the cursor from which the queue is read
    free_at: float = 0.0
    held: float = 0.0  # its pages wait until then for a robots.txt that is being fetched elsewhere
    delay: float = 0.0
    turn: int = 0
    hops: int = 0  # hops of redirected robots.txt files that are queued here
    waiting: int = 0  # retries that are not due yet
    place: bytes = b""  # its key in the agenda; empty while it has nothing to give
    pages: int = 0
    requests: int = 0
    errors: int = 0
    aside: Reason | None = None
    bytes: int = 0

    def queued(self) -> int:
        """Links that wait for a visit, due or not."""
        return sum(self.levels) + self.waiting

    def ready_at(self) -> float:
        """When it may be touched, as far as its clock says."""
        return self.free_at if self.hops else max(self.free_at, self.held)


class Ledger(Struct, array_like=True):
    """What is rewritten with every commit."""

    seq: int
    mark: Mark
    counts: Counts


encode = Encoder().encode
decode_entry = Decoder(Entry).decode
decode_host = Decoder(HostState).decode
decode_ledger = Decoder(Ledger).decode
decode_suspicion = Decoder(Suspicion).decode
decode_lease = Decoder(Lease).decode
decode_link = Decoder(Link).decode
decode_stored = Decoder(Stored).decode
decode_links = Decoder(StoredLinks).decode
decode_robots = Decoder(RobotsCopy).decode


def entry_of(link: Link, seq: int, now: float) -> Entry:
    """The record of a link that is new."""
    return Entry(
        url=link.url,
        key="" if link.key == link.url else link.key,
        host=link.host,
        seq=seq,
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


def packed_new(link: Link, seq: int, now: float) -> bytes:
    """The same, packed, of a link that was found on a page: half the time, a fifth less to store."""
    url, key = link.url, link.key
    key = "" if key == url else key
    return encode((url, key, link.host, seq, link.level, link.score, link.depth, link.parent, now))


def link_of(entry: Entry) -> Link:
    """The link that a record stands for."""
    return Link(
        url=entry.url,
        key=entry.key or entry.url,
        host=entry.host,
        depth=entry.depth,
        parent=entry.parent,
        level=LEVELS[entry.level],
        score=entry.score,
        purpose=Purpose.ROBOTS if entry.origin else Purpose.PAGE,
        origin=entry.origin,
        requested=entry.requested,
        hops=entry.hops,
        seed=entry.seed,
        meta=entry.meta,
    )

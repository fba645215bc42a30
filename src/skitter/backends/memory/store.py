"""What a frontier in memory keeps, and what survives the death of its owner."""

from dataclasses import dataclass, field

from skitter.model import Counts, Level, Link, Page, Purpose, Reason, RobotsCopy, State, Visit
from skitter.ports import Mark

Name = tuple[str, str]  # what a lease is known by: ("", key) for a page, (host, origin) for a robots.txt
Spot = tuple[float, int, Name]  # where a link stands in its host's level: (-score, sequence number, name)


@dataclass
class Entry:
    """A URL and what became of it."""

    link: Link
    state: State
    reason: Reason | None = None
    seq: int = 0
    attempts: int = 0
    crashes: int = 0
    crawl_count: int = 0
    status: int = 0
    first_seen: float = 0.0
    last_crawl: float | None = None
    due: float | None = None  # not in the queue but waiting for this time

    def spot(self) -> Spot:
        """Where it stands in its host's level."""
        return -self.link.score, self.seq, name_of(self.link)


@dataclass
class Host:
    """A host, its clock and its queue."""

    name: str
    free_at: float = 0.0
    held: float = 0.0  # its pages wait until then for a robots.txt that is being fetched elsewhere
    delay: float = 0.0
    turn: int = 0
    hops: int = 0  # hops of redirected robots.txt files that are queued here
    waiting: int = 0  # retries that are not due yet
    pages: int = 0
    requests: int = 0
    errors: int = 0
    bytes: int = 0
    aside: Reason | None = None
    in_flight: int = 0
    robots_in_flight: bool = False  # nothing else of this host meanwhile
    queue: tuple[list[Spot], ...] = field(default_factory=lambda: tuple([] for _ in Level))

    def queued(self) -> int:
        """Links that wait for a visit, due or not."""
        return sum(map(len, self.queue)) + self.waiting

    def ready_at(self) -> float:
        """When it may be touched, as far as its clock says."""
        return self.free_at if self.hops else max(self.free_at, self.held)


@dataclass
class MemoryStore:
    """What survives the death of its owner."""

    entries: dict[Name, Entry] = field(default_factory=dict)
    foreign: dict[Name, Link] = field(default_factory=dict)  # forwarded once, never again
    hosts: dict[str, Host] = field(default_factory=dict)
    due: set[Name] = field(default_factory=set)  # entries that wait for a time
    leases: dict[Name, Visit] = field(default_factory=dict)
    suspects: dict[Name, tuple[int, int]] = field(default_factory=dict)  # crashes, of these in hand
    pages: dict[Name, Page] = field(default_factory=dict)
    links: dict[Name, list[Name]] = field(default_factory=dict)
    digests: dict[tuple[str, str], Name] = field(
        default_factory=dict
    )  # (domain, digest) -> the page that was first
    simhashes: dict[str, dict[int, Name]] = field(
        default_factory=dict
    )  # domain -> SimHash -> the page that was first
    robots: dict[str, RobotsCopy] = field(default_factory=dict)
    outbox: dict[int, Link] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    mark: Mark = field(default_factory=Mark)
    hand: Name | None = None
    seq: int = 0


def name_of(link: Link) -> Name:
    """What a link's lease and entry are known by."""
    return ("", link.key) if link.purpose is Purpose.PAGE else (link.host, link.origin)

"""The ports below the frontier: a store keeps rows and their order, and decides nothing.

Every store implements `Store`. One in this process or on this machine's disk also implements `AtHand`: rows are read
from it one by one, when needed. A store behind a network is asked for many rows in one round trip (see `prefetch`).
`Seen` knows which URLs were offered before.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from skitter.frontier.rows import (
    Batch,
    Found,
    Heads,
    HostRow,
    Meta,
    Opening,
    PageRow,
    Span,
    Spot,
    Times,
    UrlRow,
    Wanted,
)
from skitter.model import Link, RobotsCopy
from skitter.runtime.metrics import SeenMetrics, StoreMetrics
from skitter.schedule.learning.learned import Learned


class Store(Protocol):
    """One shard on an engine, held under one epoch.

    1. `write` is atomic: all of a batch, or nothing. Once it has returned, what was written survives a crash of the
       writer and `kill -9` of the engine.
    2. `write` under another epoch than the shard's raises `Fenced` and changes nothing. The check is part of the step.
    3. `write` is idempotent: the same batch may be written again when it is not known whether the first try arrived.
       Rows carry values, never differences. A try that was given up and arrives behind a batch with a higher number
       of the same epoch (an engine was frozen, with the try in its queue) changes nothing.
    4. `load` is one round trip for any number of keys, sees everything written before it, and returns rows of the
       caller's own. A key that does not exist is left out of the answer.
    5. Every index follows from the rows: the queues of a host by (-score, seq), the lists of times by (due, id),
       parked URLs by host (see `rows.standing`); the agenda by `HostRow.place`, bytes compared as such, where it is not
       empty; digests and SimHashes of the pages that say `by_digest` and `by_simhash`.
    6. Reading asks for no epoch: anybody may, also while an owner works. The iterators give every row that is there from
       their beginning to their end at least once, a bounded number at a time.
    7. An engine that is away is `EngineAway`; the call may be made again.
    """

    @property
    def hash_key(self) -> Callable[[bytes, int], bytes]:
        """The function from a URL's key and `secret` to a hash: with the prefix of its domain, 16 bytes that no two
        keys share.
        """
        ...

    @property
    def secret(self) -> int:
        """If keys with the same hash could be constructed without it; else any number."""
        ...

    def domain_prefix(self, domain: str) -> bytes:
        """The common prefix of the ids of a domain's URLs; may be empty."""
        ...

    async def open(self) -> Opening:
        """What a new owner must know: counts and positions, open leases, suspects."""
        ...

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        ...

    async def write(self, batch: Batch) -> None:
        """Make a batch durable, atomically."""
        ...

    async def sync(self) -> None:
        """Make everything written survive a power loss."""
        ...

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        ...

    def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL, including robots.txt hops and links of other shards."""
        ...

    def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        ...

    def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        ...

    def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        ...

    def metrics(self) -> StoreMetrics:
        """Round trips and rows."""
        ...

    async def close(self) -> None:
        """Close the connection or directory."""
        ...


class Outbox(Protocol):
    """Links for other shards, stored by the shard that found them until their owners have them."""

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links after a number."""
        ...


class Forwarding(Protocol):
    """Sends links to other shards, through an engine that transports messages.

    1. What `send` has acknowledged survives a crash of the sender and of the engine, until its receiver has trimmed it.
    2. It may arrive twice and in any order; adding a link is idempotent.
    """

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Send links to their shards, by number. Returns when they are safe."""
        ...


Positions = Mapping[str, str]
"""How far the messages to a shard are stored, by source. Only the engine knows the format."""


Waiting = UrlRow | bytes
"""A waiting row. Many are read ahead: packed, they take a quarter of the memory."""


class Source(Protocol):
    """Rows, read when needed: from a store at hand, or by raising `memory.Lacking`.

    What it returns belongs to the caller. It shows what is written; the caller's own changes since are newer.
    """

    def url(self, id16: bytes) -> UrlRow | None:
        """The row of a URL."""
        ...

    def host(self, name: str) -> HostRow | None:
        """The row of a host."""
        ...

    def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        ...

    def learned_of(self, name: str) -> Learned | None:
        """What was learned of a host."""
        ...

    def page(self, id16: bytes) -> PageRow | None:
        """A stored page."""
        ...

    def digest(self, key: tuple[str, str]) -> PageRow | None:
        """The page that represents a digest, by (domain, digest)."""
        ...

    def simhash(self, key: tuple[str, int]) -> PageRow | None:
        """The page that represents a SimHash, by (domain, SimHash)."""
        ...

    def parked(self, host: str) -> list[UrlRow]:
        """URLs that came due while their host was set aside."""
        ...

    def heads(self, ask: Heads) -> list[tuple[Spot, bytes, Waiting]]:
        """The first links of a host's queue: spot, id, and the row, maybe packed."""
        ...

    def unpacked(self, packed: bytes) -> UrlRow:
        """Unpack a row from `heads`."""
        ...

    def agenda(self, ask: Span) -> list[tuple[bytes, str]]:
        """The first hosts of a part of the agenda: place and name."""
        ...

    def times(self, ask: Times) -> list[UrlRow]:
        """The first URLs of a list of times."""
        ...


class Seen(Protocol):
    """Which URLs were offered before, and whether offering one again would change anything."""

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """NEW, KNOWN or LOOK. A NEW URL is recorded as waiting at this level and score."""
        ...

    def refuse(self, id16: bytes, depth: int) -> int:
        """NEW, KNOWN or LOOK, for an unwanted link. A NEW URL is recorded as refused at this depth."""
        ...

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """A URL waits at this level and score. True if a link that changed nothing before may change something now."""
        ...

    def refused(self, id16: bytes, depth: int) -> None:
        """A URL is refused. A link that wants it changes something, and so does a refusal at a lesser depth."""
        ...

    def ended(self, id16: bytes) -> None:
        """Offering this URL changes nothing, until it waits again."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether there are too many entries."""
        ...

    def trim(self) -> None:
        """Drop some entries. Called between two verbs."""
        ...

    def metrics(self) -> SeenMetrics:
        """How much is in memory."""
        ...


NEW, KNOWN, LOOK = range(3)
"""What `Seen` says about a link: its URL is new; it changes nothing; the row must be looked up."""


class AtHand(Source, Protocol):
    """The local side of a store: a row costs microseconds, so it is read when needed."""

    @property
    def seen(self) -> Seen:
        """Which URLs were offered before."""
        ...

    def nearest(self, domain: str, simhash: int, distance: int) -> list[int]:
        """The SimHashes of a domain's pages nearest to this one, all at the same distance, within the limit."""
        ...

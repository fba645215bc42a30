"""The ports below the frontier: a store keeps rows and their order, and decides nothing.

`Store` is what every store has. One that is in this process, or on this machine's disk, also is `AtHand`: rows are read from
it one by one, when they are needed. What is behind a network is asked for many rows in one round trip (see `prefetch`).
`Seen` says which URLs were offered before.
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
    def hash_key(self) -> Callable[[bytes], bytes]:
        """Makes of a key what its URL is known by: with the prefix of its domain 16 bytes that no two keys share."""
        ...

    def domain_prefix(self, domain: str) -> bytes:
        """The beginning of the ids of a domain's URLs; may be empty."""
        ...

    async def open(self) -> Opening:
        """What a new owner must know: counts and positions, open leases, suspects."""
        ...

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        ...

    async def write(self, batch: Batch) -> None:
        """Make a batch durable, in one step."""
        ...

    async def sync(self) -> None:
        """Make everything written survive a power loss."""
        ...

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        ...

    def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL, hops of robots.txt files and links of other shards among them."""
        ...

    def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        ...

    def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        ...

    def statistics(self) -> dict[str, dict[str, float]]:
        """Round trips, caches and filters in numbers, by name."""
        ...

    async def close(self) -> None:
        """Let go of the engine."""
        ...


class Outbox(Protocol):
    """Links for other shards, kept with the shard that found them until their owners have them."""

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest of them behind a number."""
        ...


class Forwarding(Protocol):
    """Links on their way to other shards, by an engine that carries messages.

    1. What `send` has acknowledged survives a crash of the sender and of the engine, until its receiver has trimmed it.
    2. It may arrive twice and in any order; adding a link is idempotent.
    """

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Bring links to their shards, by number. Returns when they are safe."""
        ...


Positions = Mapping[str, str]
"""How far the messages to a shard are taken in, by source. Only the engine knows what the words mean."""


Waiting = UrlRow | bytes
"""A row that waits. Many are read ahead: packed they take a quarter of the memory."""


class Source(Protocol):
    """Rows, read when they are needed: from a store at hand, or by raising `memory.Lacking`.

    What it returns belongs to the caller. It tells what is written; what the caller has changed since is newer.
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

    def page(self, id16: bytes) -> PageRow | None:
        """A stored page."""
        ...

    def digest(self, key: tuple[str, str]) -> PageRow | None:
        """The page that stands for a digest, by (domain, digest)."""
        ...

    def simhash(self, key: tuple[str, int]) -> PageRow | None:
        """The page that stands for a SimHash, by (domain, SimHash)."""
        ...

    def parked(self, host: str) -> list[UrlRow]:
        """URLs that were due while their host was set aside."""
        ...

    def heads(self, ask: Heads) -> list[tuple[Spot, bytes, Waiting]]:
        """The first links of a host's queue: spot, id, and the row, perhaps packed."""
        ...

    def unpacked(self, packed: bytes) -> UrlRow:
        """A row that `heads` gave packed."""
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
        """NEW, KNOWN or LOOK. A URL that is NEW waits at this level and score from now on, as far as this set knows."""
        ...

    def refuse(self, id16: bytes, depth: int) -> int:
        """NEW, KNOWN or LOOK, for a link that is not wanted. One that is NEW is refused at this depth from now on."""
        ...

    def waits(self, id16: bytes, level: int, score: float) -> bool:
        """A URL waits at this level and score. True when a link that changed nothing before may change something now."""
        ...

    def refused(self, id16: bytes, depth: int) -> None:
        """A URL is refused: whoever wants it changes something, and so does who refuses it at a lesser depth."""
        ...

    def ended(self, id16: bytes) -> None:
        """Offering this URL changes nothing, until it waits again."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether some are to be forgotten."""
        ...

    def trim(self) -> None:
        """Forget some. Called between two verbs."""
        ...

    def statistics(self) -> dict[str, float]:
        """How much is known."""
        ...


NEW, KNOWN, LOOK = range(3)
"""What `Seen` says of a link: nobody offered its URL before; it changes nothing; the row must be looked at."""


class AtHand(Source, Protocol):
    """The side of a store that is on this machine: a row costs microseconds, so it is read when it is needed."""

    @property
    def seen(self) -> Seen:
        """Which URLs were offered before."""
        ...

    def nearest(self, domain: str, simhash: int, distance: int) -> list[int]:
        """SimHashes of a domain's pages that are nearest to this one, all equally far, within the distance."""
        ...

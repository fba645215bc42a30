"""The seam between the frontier of a cluster and the engine that keeps it: rows by key, heads of lists, atomic writes.

A store knows neither robots.txt nor levels nor time. It keeps what it is given, answers for any number of keys in one
round trip, and refuses whoever is not the owner any more.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from skitter.frontier.rows import Batch, Found, HostRow, Meta, Opening, PageRow, UrlRow, Wanted
from skitter.model import Link


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
    5. Every index follows from the rows: the queue of a host's level by (-score, seq), the lists of times by (due, id),
       parked URLs by host (see `rows.standing`); the agenda by `HostRow.place`, bytes compared as such, where it is not
       empty; digests and SimHashes of the pages that say `by_digest` and `by_simhash`.
    6. Reading asks for no epoch: anybody may, also while an owner works. The iterators give every row that is there from
       their beginning to their end at least once, a bounded number at a time.
    7. An engine that is away is `EngineAway`; the call may be made again.
    """

    async def open(self) -> Opening:
        """What a new owner must know: counts and positions, open leases, suspects."""
        ...

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        ...

    async def write(self, batch: Batch) -> None:
        """Make a batch durable, in one step."""
        ...

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        ...

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links for other shards behind a number."""
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

    def statistics(self) -> dict[str, float]:
        """reads, writes: round trips; rows_read, rows_written."""
        ...

    async def close(self) -> None:
        """Let go of the engine."""
        ...

"""One shard in PostgreSQL, held under one epoch: the `Store` port.

Every verb is one statement, and so one round trip and one transaction. A write changes the owner's row where the epoch is
still ours, and everything else only where that happened (`sql/write.sql`). A load is one row with arrays of whole rows.
"""

import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from skitter.backends.postgres import columns
from skitter.backends.postgres.pool import Pool
from skitter.backends.postgres.statements import Texts
from skitter.backends.remote.rows import (
    RECRAWL,
    RETRY,
    Batch,
    Found,
    HostRow,
    Meta,
    Opening,
    PageRow,
    Times,
    UrlRow,
    Wanted,
)
from skitter.backends.rules import Suspicion
from skitter.model import Link
from skitter.ports import EngineError, Fenced

_AT_ONCE = 1000  # rows that an iterator holds
_IDS_AT_ONCE = 5000


class PostgresStore:
    """`skitter.backends.remote.store.Store` on PostgreSQL. Reading alone needs no epoch."""

    def __init__(self, pool: Pool, shard: int, epoch: int = 0) -> None:
        self._pool = pool
        self._shard = shard
        self._epoch = epoch
        self._texts = Texts(pool.schema, shard)
        self._counts = dict.fromkeys(("reads", "writes", "rows_read", "rows_written"), 0)

    # ------------------------------------------------------------------------------------------------ owner

    async def open(self) -> Opening:
        """Counts and positions, open leases, suspects."""
        row = await self._row("opening")
        suspicions = zip(row["crashes"], row["in_hand"], strict=True)
        return Opening(
            columns.meta_of(*row[:5]),
            dict(zip(row["lease_ids"], map(columns.visit, row["visits"]), strict=True)),
            dict(zip(row["suspect_ids"], (Suspicion(*pair) for pair in suspicions), strict=True)),
        )

    async def write(self, batch: Batch) -> None:
        """All of it, or nothing; Fenced when the shard is somebody else's."""
        values = columns.meta_arguments(batch.meta)
        values |= {"epoch": self._epoch, "batch": batch.number}
        names = _describe(batch, values)
        statement = self._texts.write(names)
        self._counts["writes"] += 1
        row = await self._pool.row(statement, values)
        if row[0] == 0:
            raise Fenced(f"shard {self._shard}: epoch {self._epoch} is over")
        self._counts["rows_written"] += sum(
            len(part) for part in (batch.urls, batch.hosts, batch.pages, batch.robots, batch.leases)
        )

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        names, values = _questions(wanted)
        if not names:
            return Found()
        self._counts["reads"] += 1
        found = _answers(wanted, await self._pool.row(self._texts.load(names), values))
        self._counts["rows_read"] += len(found.urls) + len(found.hosts) + sum(map(len, found.heads))
        return found

    # ------------------------------------------------------------------------------------------------ reading

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        return columns.meta_of(*await self._row("meta"))

    async def _row(self, name: str) -> Any:  # noqa: ANN401
        self._counts["reads"] += 1
        row = await self._pool.row(self._texts.one("read", name), {})
        if row is None:
            raise EngineError(
                f"PostgreSQL: the schema {self._pool.schema} has no shard {self._shard}; run `skitter cluster init`"
            )
        return row

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links for other shards behind a number."""
        self._counts["reads"] += 1
        statement = self._texts.one("read", "outbox")
        rows = await self._pool.rows(statement, {"after": after, "limit": limit})
        return [(row["number"], columns.link(row["link"])) for row in rows]

    async def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        async for record in self._all("all_urls", b""):
            yield columns.url_row(record)

    async def ids(self) -> AsyncIterator[Sequence[bytes]]:
        """The ids of every URL, a bounded number at a time."""
        statement, after = self._texts.one("read", "all_ids"), b""
        while True:
            self._counts["reads"] += 1
            rows = await self._pool.rows(statement, {"after": after, "limit": _IDS_AT_ONCE})
            found = [row["id"] for row in rows]
            if found:
                yield found
                after = found[-1]
            if len(found) < _IDS_AT_ONCE:
                return

    async def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        async for record in self._all("all_pages", b""):
            yield columns.page_row(record)

    async def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        async for record in self._all("all_hosts", ""):
            yield columns.host_row(record)

    async def _all(self, name: str, after: bytes | str) -> AsyncIterator[Any]:
        """Rows in the order of their keys, a bounded number at a time."""
        statement = self._texts.one("read", name)
        while True:
            self._counts["reads"] += 1
            records = await self._pool.rows(statement, {"after": after, "limit": _AT_ONCE})
            for record in records:
                yield record
            if len(records) < _AT_ONCE:
                return
            after = records[-1][1]

    def statistics(self) -> dict[str, float]:
        """Round trips, and rows."""
        return dict(self._counts)

    async def close(self) -> None:
        """The pool belongs to the worker; nothing is held here."""


# ------------------------------------------------------------------------------------------------ a write, described


def _describe(batch: Batch, values: dict[str, Any]) -> list[str]:
    """The pieces of the statement, and its values."""
    names: list[str] = []

    def put(name: str, changes: Mapping[Any, Any], arguments: Any) -> None:  # noqa: ANN401
        kept = {key: row for key, row in changes.items() if row is not None}
        gone = [key for key, row in changes.items() if row is None]
        if kept:
            names.append(name)
            values.update(arguments(kept))
        if gone:
            names.append(f"{name}_gone")
            values[f"gone_{name}"] = gone

    put("urls", batch.urls, lambda rows: columns.url_arguments(rows.values()))
    put("hosts", batch.hosts, lambda rows: columns.host_arguments(rows.values()))
    put("pages", batch.pages, lambda rows: columns.page_arguments(rows.values()))
    put("robots", batch.robots, lambda rows: columns.robots_arguments(rows.values()))
    put("leases", batch.leases, columns.lease_arguments)
    put("suspects", batch.suspects, columns.suspect_arguments)
    put("outbox", batch.outbox, columns.outbox_arguments)
    return names


# ------------------------------------------------------------------------------------------------ a load, described


def _questions(wanted: Wanted) -> tuple[list[str], dict[str, Any]]:
    """The pieces of the statement, and its values."""
    values: dict[str, Any] = {}
    names: list[str] = []
    for name in ("urls", "hosts", "robots", "pages", "parked"):
        if keys := getattr(wanted, name):
            names.append(name)
            values[name] = keys
    if wanted.heads:
        names.append("heads")
        first = (-math.inf, -1)
        values |= _arrays(
            ("head_host", "head_level", "head_rank", "head_seq", "head_limit"),
            ((ask.host, ask.level, *(ask.after or first), ask.limit) for ask in wanted.heads),
        )
    if wanted.agenda:
        names.append("agenda")
        values |= _arrays(("span_after", "span_before", "span_limit"), wanted.agenda)
    for kind in (RETRY, RECRAWL):
        asks = [(number, ask) for number, ask in enumerate(wanted.times, 1) if ask.kind == kind]
        if asks:
            names.append(kind)
            values |= _arrays((f"{kind}_n", f"{kind}_due", f"{kind}_id", f"{kind}_limit"), map(_behind, asks))
    if wanted.digests:
        names.append("digests")
        values |= _arrays(("digest_domain", "digest"), wanted.digests)
    if wanted.simhashes:
        names.append("simhashes")
        pairs = ((domain, columns.signed(simhash)) for domain, simhash in wanted.simhashes)
        values |= _arrays(("simhash_domain", "simhash"), pairs)
    if wanted.domains:
        names.append("domains")
        values |= _arrays(("near_domain", "near_limit"), wanted.domains)
    return names, values


def _behind(numbered: tuple[int, Times]) -> tuple[int, float, bytes, int]:
    number, ask = numbered
    due, id16 = ask.after or (-math.inf, b"")
    return number, due, id16, ask.limit


def _arrays(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> dict[str, Any]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _answers(wanted: Wanted, row: Mapping[str, Any]) -> Found:
    found = Found()
    for record in row.get("urls") or ():
        url = columns.url_row(record)
        found.urls[url.id] = url
    for record in row.get("hosts") or ():
        host = columns.host_row(record)
        found.hosts[host.name] = host
    for record in row.get("robots") or ():
        copy = columns.robots_copy(record)
        found.robots[copy.origin] = copy
    for record in row.get("pages") or ():
        page = columns.page_row(record)
        found.pages[page.id] = page
    found.parked = {host: [] for host in wanted.parked}
    for record in row.get("parked") or ():
        url = columns.url_row(record)
        found.parked[url.host].append(url)
    _list_answers(wanted, row, found)
    _twin_answers(wanted, row, found)
    return found


def _list_answers(wanted: Wanted, row: Mapping[str, Any], found: Found) -> None:
    heads = _by_question(row, "heads")
    found.heads = [list(map(columns.url_row, heads[number])) for number in range(1, len(wanted.heads) + 1)]
    agenda = _by_question(row, "agenda")
    found.agenda = [
        list(map(columns.host_row, agenda[number])) for number in range(1, len(wanted.agenda) + 1)
    ]
    times = {kind: _by_question(row, kind) for kind in (RETRY, RECRAWL)}
    found.times = [
        list(map(columns.url_row, times[ask.kind][number])) for number, ask in enumerate(wanted.times, 1)
    ]


def _by_question(row: Mapping[str, Any], name: str) -> defaultdict[int, list[Any]]:
    answers: defaultdict[int, list[Any]] = defaultdict(list)
    for number, record in zip(row.get(f"{name}_of") or (), row.get(name) or (), strict=True):
        answers[number].append(record)
    return answers


def _twin_answers(wanted: Wanted, row: Mapping[str, Any], found: Found) -> None:
    for record in row.get("digests") or ():
        page = columns.page_row(record)
        found.digests[page.page.domain, page.page.digest] = page
    for record in row.get("simhashes") or ():
        page = columns.page_row(record)
        if page.page.simhash is not None:
            found.simhashes[page.page.domain, page.page.simhash] = page
    near = _by_question(row, "domains")
    for number, (domain, _) in enumerate(wanted.domains, 1):
        found.domains[domain] = [columns.unsigned(simhash) or 0 for simhash in near[number]]

"""Checks that a store is consistent: reads every row, which verifies RocksDB's checksums, and recounts the counts.

A store opened for reading is a snapshot, so all families can be compared while a crawl runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec import MsgspecError

from skitter.backends.rocksdb.layout import FAMILIES, LEARNED, RECRAWL, RETRY, WAITS, after, row_of, waits_at
from skitter.backends.rocksdb.store import RocksStore, decode
from skitter.frontier.counting import count_page, count_state, count_waiting, is_tally
from skitter.frontier.levels import QUEUES
from skitter.frontier.rows import FOREIGN, QUEUED, STATES, HostRow
from skitter.frontier.sortable import time_of
from skitter.model import Counts, Reason
from skitter.ports import Mark, StateError

_HOST = 8  # bytes of a host's fingerprint
_PROGRESS_EVERY = 10_000
_SHOWN = 3  # examples of one kind

Progress = Callable[[int], None]
"""Called with the number of rows read so far."""


@dataclass
class _Told:
    """The problems found: each kind once, with its number."""

    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, example: str) -> None:
        self.kinds[kind] += 1
        if self.kinds[kind] <= _SHOWN:
            self.examples.setdefault(kind, []).append(example)

    def lines(self) -> Iterator[str]:
        for kind, number in self.kinds.items():
            shown = ", ".join(self.examples[kind])
            yield f"{kind}: {number:,} ({shown}{', …' if number > _SHOWN else ''})"


class StoreCheck:
    """One pass over an open store."""

    def __init__(self, store: RocksStore, progress: Progress) -> None:
        self._store, self._db, self._progress, self._read = store, store.db, progress, 0
        self._told = _Told()
        self._counted = Counts()
        self._asides: dict[str, Reason] = {}
        self._out: set[bytes] = set()  # URLs in flight; their rows stay in the queue
        self.mark = Mark()  # where the archive ends, according to the store
        self.unreadable = False  # so not everything was checked
        self._host_pages = self._host_waiting = self._waiting = self._waits = 0

    def problems(self) -> Iterator[str]:
        """All inconsistencies, in words."""
        steps = (self._hosts, self._leases, self._urls, self._queue, self._due, self._pages, self._others)
        for step in steps:
            try:
                step()
            except (StateError, MsgspecError) as problem:
                self.unreadable = True
                yield str(problem)
                return  # unreadable rows cannot be counted
        yield from self._told.lines()
        yield from self._disagreements()

    def _rows(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        for row in self._db.scan_all(family):
            yield row
            self._read += 1
            if self._read % _PROGRESS_EVERY == 0:
                self._progress(self._read)

    # -- families ----------------------------------------------------------------------------------------------

    def _hosts(self) -> None:
        counted = self._counted
        for _, packed in self._rows("hosts"):
            host = decode.host(packed)
            if is_tally(host.name):
                continue
            counted.hosts += 1
            self._host_pages += host.pages
            self._host_waiting += host.waiting
            if host.aside is not None:
                counted.hosts_aside += 1
                self._asides[host.name] = host.aside
            if host.place and self._db.get("agenda", host.place) is None:
                self._told.add("hosts that are not where they wait", host.name)

    def _leases(self) -> None:
        for id16, packed in self._rows("leases"):
            decode.visit(packed)
            self._counted.leased += 1
            self._out.add(id16)

    def _urls(self) -> None:
        for id16, packed in self._rows("urls"):
            if packed[:1] == WAITS:
                self._waits += 1
                if self._db.get("queue", row_of(packed, id16)) is None:
                    self._told.add("URLs that wait in no queue", id16.hex())
                continue
            row = decode.url(packed)
            if row.state == QUEUED:
                self._waiting += 1
                count_waiting(self._counted, self._asides.get(row.host), 1)
            elif row.state < len(STATES):
                count_state(self._counted, STATES[row.state], row.reason, 1)
            elif row.state != FOREIGN:
                self._told.add("URLs in no known state", row.url)

    def _queue(self) -> None:
        """The rows of a host are adjacent, so its queues are counted without keeping them."""
        host8, lengths, rows = b"", [0] * QUEUES, 0
        for key, packed in self._rows("queue"):
            if key[:_HOST] != host8:
                self._compare_host(host8, lengths)
                host8, lengths = key[:_HOST], [0] * QUEUES
            rows += 1
            row = self._store.waiting(key, packed)
            if row.id not in self._out:
                lengths[key[_HOST]] += 1
                count_waiting(self._counted, self._asides.get(row.host), 1)
            if self._db.get("urls", row.id) != waits_at(key):
                self._told.add("URLs in a queue whose record is elsewhere", row.url)
        self._compare_host(host8, lengths)
        if self._waits != rows:
            self._told.add("URLs that wait, and rows of the queue", f"{self._waits:,} and {rows:,}")

    def _compare_host(self, host8: bytes, lengths: list[int]) -> None:
        if not host8:
            return
        packed = self._db.get("hosts", host8)
        if packed is None:
            self._told.add("queues without a host", host8.hex())
        elif (host := decode.host(packed)).levels + [0] * (QUEUES - len(host.levels)) != lengths:
            self._told.add("hosts whose queue has another length", host.name)

    def _due(self) -> None:
        for key, _ in self._rows("due"):
            if key[:1] not in (RETRY, RECRAWL):
                continue
            packed = self._db.get("urls", key[-16:])
            row = None if packed is None or packed[:1] == WAITS else decode.url(packed)
            if row is None or row.due != time_of(key):
                self._told.add("times without a URL that is due then", key[-16:].hex())

    def _pages(self) -> None:
        anybody = HostRow("", "", [], [])
        for id16, packed in self._rows("pages"):
            page = decode.page(packed).page
            count_page(self._counted, anybody, page, 1)
            if self._db.get("urls", id16) is None:
                self._told.add("pages without a record of their URL", page.url)

    def _others(self) -> None:
        readers: dict[str, Callable[[bytes], object]] = {
            "robots": decode.robots,
            "outbox": decode.link,
            "suspects": decode.suspicion,
        }
        done = {"hosts", "leases", "urls", "queue", "due", "pages"}
        for family in (name for name in FAMILIES if name not in done):
            for _, packed in self._rows(family):
                readers.get(family, len)(packed)
                self._counted.outbox += family == "outbox"
        for _, packed in self._db.scan("default", LEARNED, after(LEARNED)):
            decode.learned(packed)

    # -- counts ------------------------------------------------------------------------------------------------

    def _disagreements(self) -> Iterator[str]:
        meta = self._store.meta_now()
        counts, self.mark = meta.counts, meta.mark
        names = (
            "pages",
            "processed",
            "duplicates",
            "depths",
            "others",
            "crawled",
            "failed",
            "failures",
            "refused",
        )
        for name in (*names, "queued", "leased", "hosts", "hosts_aside", "outbox"):
            written, found = getattr(counts, name), getattr(self._counted, name)
            if written != found:
                yield f"its count of {name} is {written}, and its rows say {found}"
        for what, tally, found in (
            ("pages", self._host_pages, self._counted.pages),
            ("URLs that wait for another try", self._host_waiting, self._waiting),
        ):
            if tally != found:
                yield f"its hosts count {tally:,} {what}, and there are {found:,}"

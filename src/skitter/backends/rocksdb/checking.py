"""Does a store agree with itself? Every row is read, which verifies RocksDB's checksums, and the counts are counted again.

A store that is open to read is the state of one moment, so all families can be compared while a crawl goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from msgspec import MsgspecError

from skitter.backends.rocksdb.layout import FAMILIES, RECRAWL, RETRY, WAITS, fp8, row_of, waits_at
from skitter.backends.rocksdb.records import (
    CRAWLED,
    FAILED,
    FOREIGN,
    QUEUED,
    REFUSED,
    Entry,
    Ledger,
    decode_entry,
    decode_host,
    decode_lease,
    decode_ledger,
    decode_link,
    decode_robots,
    decode_stored,
    decode_suspicion,
)
from skitter.backends.rocksdb.store import Store
from skitter.frontier.sortable import time_of
from skitter.model import Counts
from skitter.ports import Mark, StateError

_HOST = 8  # bytes of a host's fingerprint
_PROGRESS_EVERY = 10_000
_SHOWN = 3  # examples of one kind

Progress = Callable[[int], None]
"""Told how many rows were read so far."""


@dataclass
class _Told:
    """What was found, each kind of it once, with how often."""

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

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store, self._progress, self._read = store, progress, 0
        self._told = _Told()
        self._counted = Counts()
        self._asides: dict[bytes, str] = {}
        self.mark = Mark()  # where the archive ends, as of the store
        self.unreadable = False  # and so not all of it was looked at
        self._host_pages = self._host_waiting = self._waiting = self._waits = self._entries_leased = 0

    def problems(self) -> Iterator[str]:
        """Everything that does not fit, in words."""
        steps = (self._hosts, self._leases, self._urls, self._queue, self._due, self._pages, self._others)
        for step in steps:
            try:
                step()
            except (StateError, MsgspecError) as problem:
                self.unreadable = True
                yield str(problem)
                return  # what cannot be read cannot be counted
        yield from self._told.lines()
        yield from self._disagreements()

    def _rows(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        for row in self._store.scan_all(family):
            yield row
            self._read += 1
            if self._read % _PROGRESS_EVERY == 0:
                self._progress(self._read)

    # -- families ----------------------------------------------------------------------------------------------

    def _hosts(self) -> None:
        counted = self._counted
        for host8, packed in self._rows("hosts"):
            state = decode_host(packed)
            counted.hosts += 1
            self._host_pages += state.pages
            self._host_waiting += state.waiting
            if state.aside is not None:
                counted.hosts_aside += 1
                self._asides[host8] = state.aside.code
            if state.place and self._store.get("agenda", state.place) is None:
                self._told.add("hosts that are not where they wait", state.name)

    def _leases(self) -> None:
        for _, packed in self._rows("leases"):
            self._counted.leased += 1
            self._entries_leased += decode_lease(packed).entry is not None

    def _urls(self) -> None:
        for id16, packed in self._rows("urls"):
            if packed[:1] == WAITS:
                self._waits += 1
                row = row_of(packed, id16)
                if self._store.get("queue", row) is None and self._store.get("leases", id16) is None:
                    self._told.add("URLs that wait in no queue", id16.hex())
                continue
            self._count(decode_entry(packed))

    def _count(self, entry: Entry) -> None:
        counted, code = self._counted, entry.reason.code if entry.reason else "unknown"
        if entry.state == QUEUED:
            self._waiting += 1
            self._wait(entry, self._aside_of(entry))
        elif entry.state == CRAWLED:
            counted.crawled += 1
        elif entry.state == FAILED:
            counted.failed += 1
            counted.failures[code] = counted.failures.get(code, 0) + 1
        elif entry.state == REFUSED:
            counted.refused[code] = counted.refused.get(code, 0) + 1
        elif entry.state != FOREIGN:
            self._told.add("URLs in no known state", entry.url)

    def _wait(self, entry: Entry, aside: str | None) -> None:
        counted = self._counted
        if aside is None:
            counted.queued += 1
        elif not entry.origin:
            counted.refused[aside] = counted.refused.get(aside, 0) + 1

    def _aside_of(self, entry: Entry) -> str | None:
        return self._asides.get(fp8(entry.host, self._store.secret)) if self._asides else None

    def _queue(self) -> None:
        """The rows of a host are neighbours, so its levels are counted without keeping them."""
        host8, levels, rows = b"", [0] * 5, 0
        for row, packed in self._rows("queue"):
            if row[:_HOST] != host8:
                self._compare_host(host8, levels)
                host8, levels = row[:_HOST], [0] * 5
            levels[row[_HOST]] += 1
            rows += 1
            entry = decode_entry(packed)
            self._wait(entry, self._asides.get(host8))
            state = self._store.get("hosts", host8)
            id16 = (decode_host(state).domain if state else bytes(8)) + row[-8:]
            if self._store.get("urls", id16) != waits_at(row):
                self._told.add("URLs in a queue whose record is elsewhere", entry.url)
        self._compare_host(host8, levels)
        if self._waits != rows + self._entries_leased:
            self._told.add(
                "URLs that wait, and rows of the queue",
                f"{self._waits:,} and {rows + self._entries_leased:,}",
            )

    def _compare_host(self, host8: bytes, levels: list[int]) -> None:
        if not host8:
            return
        packed = self._store.get("hosts", host8)
        if packed is None:
            self._told.add("queues without a host", host8.hex())
        elif (state := decode_host(packed)).levels != levels:
            self._told.add("hosts whose queue has another length", state.name)

    def _due(self) -> None:
        for key, _ in self._rows("due"):
            if key[:1] not in (RETRY, RECRAWL):
                continue
            packed = self._store.get("urls", key[-16:])
            entry = None if packed is None or packed[:1] == WAITS else decode_entry(packed)
            if entry is None or entry.due != time_of(key):
                self._told.add("times without a URL that is due then", key[-16:].hex())

    def _pages(self) -> None:
        counted = self._counted
        for id16, packed in self._rows("pages"):
            page = decode_stored(packed).page
            counted.duplicates += bool(page.duplicate_of)
            if 200 <= page.status < 300:
                counted.pages += 1
                counted.processed += not page.ignored
                counted.depths[page.depth] = counted.depths.get(page.depth, 0) + 1
            if self._store.get("urls", id16) is None:
                self._told.add("pages without a record of their URL", page.url)

    def _others(self) -> None:
        readers: dict[str, Callable[[bytes], object]] = {
            "robots": decode_robots,
            "outbox": decode_link,
            "suspects": decode_suspicion,
        }
        done = {"hosts", "leases", "urls", "queue", "due", "pages"}
        for family in (name for name in FAMILIES if name not in done):
            for _, packed in self._rows(family):
                readers.get(family, len)(packed)
                self._counted.outbox += family == "outbox"

    # -- counts ------------------------------------------------------------------------------------------------

    def _disagreements(self) -> Iterator[str]:
        packed = self._store.get("default", b"ledger")
        ledger = decode_ledger(packed) if packed else Ledger(0, Mark(), Counts())
        counts, self.mark = ledger.counts, ledger.mark
        names = ("pages", "processed", "duplicates", "depths", "crawled", "failed", "failures", "refused")
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

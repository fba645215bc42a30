"""The read side: everything that can be asked of a store, by its owner and, while that runs, by any other process.

It reads what is committed and nothing else, so that all readers are told the same.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from skitter import urls
from skitter.backends.rocksdb import twins
from skitter.backends.rocksdb.layout import WAITS, fp8, row_of
from skitter.backends.rocksdb.nearby import Nearby
from skitter.backends.rocksdb.records import (
    FOREIGN,
    STATES,
    Entry,
    HostState,
    decode_entry,
    decode_host,
    decode_lease,
    decode_ledger,
    decode_links,
    decode_robots,
    decode_stored,
)
from skitter.backends.rocksdb.store import Store
from skitter.frontier import rules
from skitter.model import Counts, HostRecord, Page, Reason, RobotsCopy, State, UrlRecord
from skitter.ports import Likeness, Twin

_READER_CACHE = 16 << 20


class RocksReader:
    """The read side of `skitter.ports.Frontier`, on an open store."""

    def __init__(self, store: Store) -> None:
        self._reads = store
        self._nearby: Nearby | None = None  # only the owner knows when it changes

    async def close(self) -> None:
        """Let go of the store."""
        self._reads.close()

    async def counts(self) -> Counts:
        """The crawl in numbers."""
        packed = self._reads.get("default", b"ledger")
        return decode_ledger(packed).counts if packed else Counts()

    async def url(self, key: str, host: str) -> UrlRecord | None:
        """What is known of a URL."""
        entry, leased = self._entry(self._id(key, host))
        if entry is None or entry.state == FOREIGN:
            return None
        return rules.url_record(entry, _state(entry, leased=leased), self._aside(entry.host))

    async def page(self, key: str, host: str) -> Page | None:
        """The stored page."""
        packed = self._reads.get("pages", self._id(key, host))
        return None if packed is None else decode_stored(packed).page

    async def host(self, name: str) -> HostRecord | None:
        """What is known of a host."""
        state = self._state(name)
        return None if state is None else _host_record(state, self._in_flight()[name])

    async def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        packed = self._reads.get("robots", origin.encode())
        return None if packed is None else decode_robots(packed)

    async def twin(self, domain: str, digest: str, simhash: int | None, distance: int) -> Twin | None:
        """The page with the same digest, else the nearest."""
        dom8 = fp8(domain, self._reads.secret)
        return twins.find(self._reads, self._nearby, dom8, digest, simhash, distance)

    async def twins(self, pages: Sequence[Likeness], distance: int) -> list[Twin | None]:
        """The same for many pages."""
        reads, nearby = self._reads, self._nearby
        return [
            twins.find(reads, nearby, fp8(page.domain, reads.secret), page.digest, page.simhash, distance)
            for page in pages
        ]

    async def urls(self) -> AsyncIterator[UrlRecord]:
        """Every URL: what is in no queue, what is in flight, what waits."""
        asides: dict[str, Reason | None] = {}
        for entry, leased in self._entries():
            if entry.state == FOREIGN or entry.origin:
                continue
            if entry.host not in asides:
                if len(asides) > 10_000:  # URLs of one host are neighbours: a few would do
                    asides.clear()
                asides[entry.host] = self._aside(entry.host)
            yield rules.url_record(entry, _state(entry, leased=leased), asides[entry.host])

    async def pages(self) -> AsyncIterator[Page]:
        """Every page, domain by domain."""
        for _, packed in self._reads.scan_all("pages"):
            yield decode_stored(packed).page

    async def hosts(self) -> AsyncIterator[HostRecord]:
        """Every host."""
        in_flight = self._in_flight()
        for _, packed in self._reads.scan_all("hosts"):
            state = decode_host(packed)
            yield _host_record(state, in_flight[state.name])

    async def links(self) -> AsyncIterator[tuple[str, str]]:
        """Every link from a stored page."""
        for source, packed in self._reads.scan_all("pages"):
            url, targets = self._url(source), decode_links(packed).links
            for start in range(0, len(targets), 16):
                target = self._url(targets[start : start + 16])
                if url and target:
                    yield url, target

    def statistics(self) -> dict[str, dict[str, float]]:
        """A reader has no caches worth telling of."""
        return {}

    def _id(self, key: str, host: str) -> bytes:
        secret = self._reads.secret
        return fp8(urls.registrable_domain(host), secret) + fp8(key, secret)

    def _entry(self, id16: bytes) -> tuple[Entry | None, bool]:
        """The record of a URL wherever it stands, and whether it is in flight."""
        packed = self._reads.get("urls", id16)
        if packed is not None and packed[:1] == WAITS:
            lease = self._reads.get("leases", id16)
            if lease is not None:
                return decode_lease(lease).entry, True
            packed = self._reads.get("queue", row_of(packed, id16))
        return None if packed is None else decode_entry(packed), False

    def _entries(self) -> Iterator[tuple[Entry, bool]]:
        """Every record. All three are read as they are at the beginning, so none is met twice or missed."""
        settled, leased, queued = map(self._reads.scan_all, ("urls", "leases", "queue"))
        for _, packed in settled:
            if packed[:1] != WAITS:
                yield decode_entry(packed), False
        for _, packed in leased:
            entry = decode_lease(packed).entry
            if entry is not None:
                yield entry, True
        for _, packed in queued:
            yield decode_entry(packed), False

    def _url(self, id16: bytes) -> str:
        entry, _ = self._entry(id16)
        return "" if entry is None else entry.url

    def _state(self, name: str) -> HostState | None:
        packed = self._reads.get("hosts", fp8(name, self._reads.secret))
        return None if packed is None else decode_host(packed)

    def _aside(self, name: str) -> Reason | None:
        state = self._state(name)
        return None if state is None else state.aside

    def _in_flight(self) -> Counter[str]:
        leases = (decode_lease(packed) for _, packed in self._reads.scan_all("leases"))
        return Counter(lease.visit().link.host for lease in leases)


def open_reader(path: Path) -> RocksReader:
    """Read a shard's store as it is now, also while its owner runs."""
    return RocksReader(Store(path, _READER_CACHE, read_only=True))


def _state(entry: Entry, *, leased: bool) -> State:
    return State.LEASED if leased else STATES[entry.state]


def _host_record(state: HostState, in_flight: int) -> HostRecord:
    return HostRecord(
        host=state.name,
        domain=urls.registrable_domain(state.name),
        free_at=state.free_at,
        delay=state.delay,
        queued=0 if state.aside else state.queued(),
        in_flight=in_flight,
        pages=state.pages,
        requests=state.requests,
        errors=state.errors,
        bytes=state.bytes,
        aside=state.aside,
    )

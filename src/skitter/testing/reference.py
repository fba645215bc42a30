"""A store in memory: the reference for the others, and the store of small tests.

`MemoryRows` is the data that survives, `MemoryStore` is one owner's access to it. Rows are kept packed, so that
nobody can change one in place, and every list is sorted when it is read. `MemoryStore` is read in round trips, as if
behind a network; `MemoryAtHand` row by row, as if on a disk. `memory_frontier` makes a frontier on either.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from skitter.frontier import ShardFrontier
from skitter.frontier.adding import is_by_settings
from skitter.frontier.crashes import Suspicion
from skitter.frontier.names import hash16
from skitter.frontier.rows import (
    PARKED,
    QUEUE,
    QUEUED,
    REFUSED,
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
    standing,
)
from skitter.frontier.seen import LatelySeen
from skitter.frontier.store import NEW, Waiting
from skitter.frontier.verbs import HandMark
from skitter.model import Level, Link, RobotsCopy, Visit
from skitter.ports import Fenced
from skitter.runtime.metrics import StoreMetrics
from skitter.schedule.learning.learned import Learned
from skitter.settings import Settings

_encode = Encoder().encode
_meta = Decoder(Meta).decode
_url = Decoder(UrlRow).decode
_host = Decoder(HostRow).decode
_page = Decoder(PageRow).decode
_robots = Decoder(RobotsCopy).decode
_learned = Decoder(Learned).decode
_lease = Decoder(Visit).decode
_suspicion = Decoder(Suspicion).decode
_link = Decoder(Link).decode


@dataclass
class MemoryRows:
    """The rows of one shard, and its epoch."""

    epoch: int = 1
    written: tuple[int, int] = (0, 0)  # epoch and number of the last batch
    meta: bytes = field(default_factory=lambda: _encode(Meta()))
    urls: dict[bytes, bytes] = field(default_factory=dict)
    hosts: dict[str, bytes] = field(default_factory=dict)
    pages: dict[bytes, bytes] = field(default_factory=dict)
    robots: dict[str, bytes] = field(default_factory=dict)
    learned: dict[str, bytes] = field(default_factory=dict)
    leases: dict[bytes, bytes] = field(default_factory=dict)
    suspects: dict[bytes, bytes] = field(default_factory=dict)
    outbox: dict[int, bytes] = field(default_factory=dict)


class MemoryStore:
    """`skitter.frontier.store.Store` in dictionaries."""

    def __init__(self, rows: MemoryRows | None = None, epoch: int = 1) -> None:
        self.rows = rows or MemoryRows()
        self._epoch = epoch
        self._metrics = StoreMetrics()

    hash_key, secret = staticmethod(hash16), 0

    def domain_prefix(self, domain: str) -> bytes:  # noqa: ARG002  other stores keep domains together
        """None."""
        return b""

    async def open(self) -> Opening:
        """Counts, leases and suspects."""
        rows = self.rows
        return Opening(
            _meta(rows.meta),
            {id16: _lease(packed) for id16, packed in rows.leases.items()},
            {id16: _suspicion(packed) for id16, packed in rows.suspects.items()},
        )

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        rows = self.rows
        found = Found(
            urls={id16: _url(rows.urls[id16]) for id16 in wanted.urls if id16 in rows.urls},
            hosts={name: _host(rows.hosts[name]) for name in wanted.hosts if name in rows.hosts},
            robots={name: _robots(rows.robots[name]) for name in wanted.robots if name in rows.robots},
            pages={id16: _page(rows.pages[id16]) for id16 in wanted.pages if id16 in rows.pages},
            agenda=[self._agenda(ask) for ask in wanted.agenda],
            learned={name: _learned(rows.learned[name]) for name in wanted.learned if name in rows.learned},
        )
        if wanted.heads or wanted.times or wanted.parked:
            self._find_lists(wanted, found)
        if wanted.digests or wanted.simhashes or wanted.domains:
            self._find_twins(wanted, found)
        self._metrics.reads += 1
        self._metrics.rows_read += sum(len(getattr(found, name)) for name in found.__struct_fields__)
        return found

    def _standing(self) -> dict[tuple[str, str, int], list[tuple[float, int, bytes, UrlRow]]]:
        """Every list, in order, by its identifying values."""
        lists: dict[tuple[str, str, int], list[tuple[float, int, bytes, UrlRow]]] = {}
        for row in map(_url, self.rows.urls.values()):
            spot = standing(row)
            if spot is not None:
                lists.setdefault((spot.kind, spot.host, spot.level), []).append(
                    (spot.order, spot.seq, row.id, row)
                )
        for some in lists.values():
            some.sort(key=lambda item: item[:3])
        return lists

    def _find_lists(self, wanted: Wanted, found: Found) -> None:
        lists = self._standing()
        for ask in wanted.heads:
            queue = lists.get((QUEUE, ask.host, ask.level), [])
            behind = [row for order, seq, _, row in queue if ask.after is None or (order, seq) > ask.after]
            found.heads.append(behind[: ask.limit])
        for times in wanted.times:
            waiting = lists.get((times.kind, "", 0), [])
            later = [row for due, _, id16, row in waiting if times.after is None or (due, id16) > times.after]
            found.times.append(later[: times.limit])
        for host in wanted.parked:
            found.parked[host] = [row for _, _, _, row in lists.get((PARKED, host, 0), [])]

    def _agenda(self, ask: Span) -> list[HostRow]:
        hosts = [host for host in map(_host, self.rows.hosts.values()) if host.place]
        inside = [host for host in hosts if ask.after < host.place < ask.before]
        return sorted(inside, key=lambda host: host.place)[: ask.limit]

    def _find_twins(self, wanted: Wanted, found: Found) -> None:
        pages = [_page(packed) for packed in self.rows.pages.values()]
        digests = {(row.page.domain, row.page.digest): row for row in pages if row.by_digest}
        near = {
            (row.page.domain, row.page.simhash): row
            for row in pages
            if row.by_simhash and row.page.simhash is not None
        }
        found.digests = {key: digests[key] for key in wanted.digests if key in digests}
        found.simhashes = {key: near[key] for key in wanted.simhashes if key in near}
        for domain, limit in wanted.domains:
            found.domains[domain] = [simhash for name, simhash in near if name == domain][:limit]

    async def write(self, batch: Batch) -> None:
        """Write everything at once, unless another worker owns the shard."""
        if self.rows.epoch != self._epoch:
            raise Fenced(f"epoch {self._epoch} is over, now is {self.rows.epoch}")
        if batch.number:
            if (self._epoch, batch.number) < self.rows.written:
                return
            self.rows.written = self._epoch, batch.number
        self._check_former_places(batch)
        tables = ("urls", "hosts", "pages", "robots", "learned", "leases", "suspects", "outbox")
        for name in tables:
            self._put(getattr(self.rows, name), getattr(batch, name))
        self.rows.meta = _encode(batch.meta)
        self._metrics.writes += 1
        self._metrics.rows_written += sum(len(getattr(batch, name)) for name in tables)

    def _check_former_places(self, batch: Batch) -> None:
        """A store that maintains its lists removes rows from where it is told they were: that must be true."""
        for id16, row in batch.urls.items():
            before = self.rows.urls.get(id16)
            stood = None if before is None else standing(_url(before))
            stands = None if row is None else standing(row)
            if stood not in (None, stands, batch.stood.get(id16)):
                raise AssertionError(f"{id16.hex()} stood at {stood}, not at {batch.stood.get(id16)}")
        for name, host in batch.hosts.items():
            place = _host(self.rows.hosts[name]).place if name in self.rows.hosts else b""
            if place != batch.placed.get(name, host.place) and place != host.place:
                raise AssertionError(f"{name} stood at {place!r}, not at {batch.placed.get(name)!r}")
        for id16, page in batch.pages.items():
            former = self.rows.pages.get(id16)
            if former is not None and _page(former) not in (page, batch.replaced.get(id16)):
                raise AssertionError(f"{id16.hex()} replaces {_page(former)}, not {batch.replaced.get(id16)}")

    def _put(self, table: dict[Any, bytes], changes: dict[Any, Any]) -> None:
        for key, row in changes.items():
            if row is None:
                table.pop(key, None)
            else:
                table[key] = _encode(row)

    async def sync(self) -> None:
        """There is no power to lose."""

    async def meta(self) -> Meta:
        """The last one written."""
        return _meta(self.rows.meta)

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links."""
        numbers = sorted(number for number in self.rows.outbox if number > after)[:limit]
        return [(number, _link(self.rows.outbox[number])) for number in numbers]

    async def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        for packed in _still(self.rows.urls.values()):
            yield _url(packed)

    async def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        for packed in _still(self.rows.pages.values()):
            yield _page(packed)

    async def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        for packed in _still(self.rows.hosts.values()):
            yield _host(packed)

    async def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        for packed in _still(self.rows.learned.values()):
            yield _learned(packed)

    def metrics(self) -> StoreMetrics:
        """Round trips and rows, as if there were an engine."""
        return replace(self._metrics)

    async def close(self) -> None:
        """The rows stay."""


class MemoryAtHand(MemoryStore):
    """The same, read row by row, and with a set of every URL."""

    def __init__(self, rows: MemoryRows | None = None, epoch: int = 1) -> None:
        super().__init__(rows, epoch)
        self.seen = EverySeen()

    async def open(self) -> Opening:
        """Also rebuild the set of URLs."""
        self.seen = EverySeen()
        for row in map(_url, self.rows.urls.values()):
            if row.state == QUEUED:
                self.seen.waits(row.id, row.level % len(Level), row.score)
            elif row.state == REFUSED and (not row.seq or is_by_settings(row.reason)):
                self.seen.refused(row.id, row.depth)
            else:
                self.seen.ended(row.id)
        return await super().open()

    def url(self, id16: bytes) -> UrlRow | None:
        """The row of a URL."""
        packed = self.rows.urls.get(id16)
        return None if packed is None else _url(packed)

    def host(self, name: str) -> HostRow | None:
        """The row of a host."""
        packed = self.rows.hosts.get(name)
        return None if packed is None else _host(packed)

    def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        packed = self.rows.robots.get(origin)
        return None if packed is None else _robots(packed)

    def learned_of(self, name: str) -> Learned | None:
        """What was learned of a host."""
        packed = self.rows.learned.get(name)
        return None if packed is None else _learned(packed)

    def page(self, id16: bytes) -> PageRow | None:
        """A stored page."""
        packed = self.rows.pages.get(id16)
        return None if packed is None else _page(packed)

    def digest(self, key: tuple[str, str]) -> PageRow | None:
        """The page that represents a digest."""
        self._find_twins(Wanted(digests=[key]), found := Found())
        return found.digests.get(key)

    def simhash(self, key: tuple[str, int]) -> PageRow | None:
        """The page that represents a SimHash."""
        self._find_twins(Wanted(simhashes=[key]), found := Found())
        return found.simhashes.get(key)

    def nearest(self, domain: str, simhash: int, distance: int) -> list[int]:
        """The nearest SimHashes of a domain."""
        self._find_twins(Wanted(domains=[(domain, len(self.rows.pages))]), found := Found())
        apart = {other: (other ^ simhash).bit_count() for other in found.domains[domain]}
        least = min(apart.values(), default=distance + 1)
        return [other for other, bits in apart.items() if bits == least <= distance]

    def parked(self, host: str) -> list[UrlRow]:
        """URLs that came due while their host was set aside."""
        self._find_lists(Wanted(parked=[host]), found := Found())
        return found.parked[host]

    def heads(self, ask: Heads) -> list[tuple[Spot, bytes, Waiting]]:
        """The first links of a host's queue."""
        self._find_lists(Wanted(heads=[ask]), found := Found())
        return [(row.spot(), row.id, self.rows.urls[row.id]) for row in found.heads[0]]

    def unpacked(self, packed: bytes) -> UrlRow:
        """Unpack a row that was read ahead."""
        return _url(packed)

    def agenda(self, ask: Span) -> list[tuple[bytes, str]]:
        """The first hosts of a part of the agenda."""
        return [(host.place, host.name) for host in self._agenda(ask)]

    def times(self, ask: Times) -> list[UrlRow]:
        """The first URLs of a list of times."""
        self._find_lists(Wanted(times=[ask]), found := Found())
        return found.times[0]


class EverySeen(LatelySeen):
    """`skitter.frontier.store.Seen` that drops nothing, so it knows for certain what is new."""

    def __init__(self) -> None:
        super().__init__(capacity=1 << 60)

    def offer(self, id16: bytes, level: int, score: float) -> int:
        """NEW the first time."""
        if id16 not in self._ranks:
            self.waits(id16, level, score)
            return NEW
        return super().offer(id16, level, score)

    def refuse(self, id16: bytes, depth: int) -> int:
        """NEW the first time."""
        if id16 not in self._ranks:
            self.refused(id16, depth)
            return NEW
        return super().refuse(id16, depth)


def memory_frontier(
    rows: MemoryRows | None = None,
    settings: Settings | None = None,
    *,
    shard: int = 0,
    shards: int = 1,
    in_hand: HandMark | None = None,
    epoch: int = 1,
) -> ShardFrontier:
    """A frontier with all its data in memory."""
    store = MemoryAtHand(rows, epoch)
    return ShardFrontier(store, settings, shard=shard, shards=shards, at_hand=store, in_hand=in_hand)


def _still(values: Iterable[bytes]) -> list[bytes]:
    return list(values)

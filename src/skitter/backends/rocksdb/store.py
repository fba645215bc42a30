"""The rows of a shard in RocksDB: the `Store` port, at hand, with an outbox and a set of every URL.

A URL's text is stored once: the row of a waiting URL is in the queue itself, where a lease reads it in order, and
`urls` says where. See `layout` for the keys.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path

from msgspec.msgpack import Decoder, Encoder
from xxhash import xxh3_64_digest as digest8

from skitter import urls
from skitter.backends.rocksdb.database import Changes, Database, no_changes
from skitter.backends.rocksdb.layout import (
    BLOCKS,
    LEARNED,
    PARKED,
    QUEUE,
    RECRAWL,
    RETRY,
    WAITS,
    Fingerprints,
    after,
    queue_end,
    queue_start,
    row_of,
)
from skitter.backends.rocksdb.seen import Seen
from skitter.frontier import rows as kinds
from skitter.frontier.crashes import Suspicion
from skitter.frontier.rows import (
    QUEUED,
    Batch,
    Found,
    Heads,
    HostRow,
    Meta,
    Opening,
    PageRow,
    Span,
    Spot,
    Standing,
    Times,
    UrlRow,
    Wanted,
    standing,
)
from skitter.frontier.sortable import number8, number_of, order_of, score8, time8
from skitter.frontier.store import Waiting
from skitter.model import Link, RobotsCopy, Visit
from skitter.ports import StateError
from skitter.runtime.metrics import StoreMetrics
from skitter.schedule.learning.learned import Learned

_META, _BOOT = (
    b"meta",
    b"boot",
)  # boot: while a shard is open, the id of the machine's boot in which it was opened
_UNKNOWN = b"unknown"
_ID = 16
# A site can be built so that all its pages share a block of their SimHashes. Reading of one block is bounded;
# the first values in SimHash order then hide the rest, and a near-duplicate may go unnoticed.
_READ_AT_MOST = 2_000
_DUE = {kinds.RETRY: RETRY, kinds.RECRAWL: RECRAWL}

_encode = Encoder().encode


class decode:  # noqa: N801  a set of functions
    """The types stored in each family."""

    meta = Decoder(Meta).decode
    url = Decoder(UrlRow).decode
    host = Decoder(HostRow).decode
    page = Decoder(PageRow).decode
    robots = Decoder(RobotsCopy).decode
    learned = Decoder(Learned).decode
    visit = Decoder(Visit).decode
    suspicion = Decoder(Suspicion).decode
    link = Decoder(Link).decode


_decode_url, _decode_host = decode.url, decode.host


def boot_id() -> bytes:
    """The id of this machine's boot (random(4)), if the system has one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return _UNKNOWN


class RocksStore:
    """`skitter.frontier.store.Store`, `AtHand` and `Outbox` in a directory. One process owns it, any number may read."""

    def __init__(self, path: Path, block_cache: int, *, read_only: bool = False) -> None:
        self.path = path
        self._block_cache = block_cache
        self._db: Database | None = None
        self._seen: Seen | None = None
        self._name_keys(0)  # until it is open
        self._first_out = b""  # the outbox has nothing before this key
        self._read_only = read_only
        if read_only:
            self._db = Database(path, block_cache, read_only=True)
            self._name_keys(self._db.secret)

    @property
    def db(self) -> Database:
        """The open directory."""
        if self._db is None:
            raise StateError(f"the frontier in {self.path} is not open")
        return self._db

    @property
    def seen(self) -> Seen:
        """Every URL ever offered."""
        if self._seen is None:
            raise StateError(f"the frontier in {self.path} is not open")
        return self._seen

    # -- names -------------------------------------------------------------------------------------------------

    hash_key = staticmethod(digest8)

    def _name_keys(self, secret: int) -> None:
        """Fingerprints; without the secret, nobody can construct two names or keys with the same one."""
        self.secret = secret
        self._host8, self._domain8 = Fingerprints(secret), Fingerprints(secret)

    def domain_prefix(self, domain: str) -> bytes:
        """URLs of a domain are adjacent."""
        return self._domain8[domain]

    # -- owning ------------------------------------------------------------------------------------------------

    async def open(self) -> Opening:
        """Open the directory; a reader refreshes its view."""
        power_lost = False
        if not self._read_only:
            if self._db is None:
                self._db = Database(self.path, self._block_cache)
                self._name_keys(self._db.secret)
            try:
                self._seen = Seen(self._db)
                power_lost = self._note_boot()
            except BaseException:
                await self.close()
                raise
        db = self.db
        leases = {id16: decode.visit(packed) for id16, packed in db.scan_all("leases")}
        suspects = {id16: decode.suspicion(packed) for id16, packed in db.scan_all("suspects")}
        return Opening(await self.meta(), leases, suspects, power_lost)

    def _note_boot(self) -> bool:
        """Whether the machine went down while the shard was open. Leaves a note for the next owner.

        A killed process loses nothing that it wrote. A machine that goes down loses what was not synced: leases of
        the last second, and with them the times at which hosts were last visited.
        """
        before, boot = self.db.get("default", _BOOT), boot_id()
        self.db.commit({"default": {_BOOT: boot}})
        return before is not None and (before != boot or boot == _UNKNOWN)

    async def write(self, batch: Batch) -> None:
        """Write all of it, or nothing."""
        changes = no_changes()
        self._put_urls(batch, changes)
        self._put_hosts(batch, changes)
        self._put_pages(batch, changes)
        _put_others(batch, changes)
        seen = self.seen
        if seen.new or seen.note is not None:
            seen.save(changes)
        if batch.last:  # everything is synced now: a machine that goes down later loses nothing
            changes["default"][_BOOT] = None
        self.db.commit(changes)
        if seen.snapshot_file or seen.behind > seen.snapshot_at:
            seen.saved()
        if batch.last:
            self.db.sync()

    async def sync(self) -> None:
        """Bring the log to the disk, in a thread: it may take a while."""
        await asyncio.to_thread(self.db.sync)

    async def close(self) -> None:
        """Close the directory."""
        db, self._db, self._seen = self._db, None, None
        if db is not None:
            db.close()

    # -- writing -----------------------------------------------------------------------------------------------

    def _put_urls(self, batch: Batch, changes: Changes) -> None:
        rows, queue, due, host8 = changes["urls"], changes["queue"], changes["due"], self._host8
        for id16, stood in batch.stood.items():
            if stood.kind == kinds.QUEUE:
                key = host8[stood.host] + QUEUE[stood.level] + score8(-stood.order) + number8(stood.seq)
                queue[key + id16[8:]] = None
            else:
                due[self._due_key(stood, id16)] = None
        for id16, row in batch.urls.items():
            if row is None:
                rows[id16] = None
            elif row.state == QUEUED and row.due is None:
                key = host8[row.host] + QUEUE[row.level] + score8(row.score) + number8(row.seq)
                queue[key + id16[8:]] = _packed(row)
                rows[id16] = WAITS + key
            else:
                rows[id16] = _packed(row)
                if row.due is not None and (stands := standing(row)) is not None:
                    due[self._due_key(stands, id16)] = b""

    def _due_key(self, stands: Standing, id16: bytes) -> bytes:
        if stands.kind == kinds.PARKED:
            return PARKED + self._host8[stands.host] + time8(stands.order) + id16
        return _DUE[stands.kind] + time8(stands.order) + id16

    def _put_hosts(self, batch: Batch, changes: Changes) -> None:
        hosts, agenda = changes["hosts"], changes["agenda"]
        for name, host in batch.hosts.items():
            hosts[self._host8[name]] = _encode(host)
        for name, before in batch.placed.items():
            if before:
                agenda.setdefault(before, None)  # unless another host has taken it
            if place := batch.hosts[name].place:
                agenda[place] = name.encode()

    def _put_pages(self, batch: Batch, changes: Changes) -> None:
        pages, twins = changes["pages"], changes["twins"]
        for old in batch.replaced.values():
            twins.update(dict.fromkeys(self._twin_keys(old)))
        for id16, row in batch.pages.items():
            if row is None:
                pages[id16] = None
            else:
                pages[id16] = _encode((b"", row.page, row.links, row.by_digest, row.by_simhash))
                for key in self._twin_keys(row):
                    twins[key] = id16

    def _twin_keys(self, row: PageRow) -> list[bytes]:
        page, found = row.page, []
        if row.by_digest or row.by_simhash:
            dom8 = self._domain8[page.domain]
            if row.by_digest:
                found.append(_by_digest(dom8, page.digest))
            if row.by_simhash and page.simhash is not None:
                found += _by_simhash(dom8, page.simhash)
        return found

    # -- at hand -----------------------------------------------------------------------------------------------

    def url(self, id16: bytes) -> UrlRow | None:
        """The row of a URL, in either family."""
        packed = self.db.get("urls", id16)
        if packed is not None and packed[:1] == WAITS:
            packed = self.db.get("queue", row_of(packed, id16))
            if packed is None:
                raise AssertionError(f"{id16.hex()} waits and is not in the queue")
        return None if packed is None else self._row(packed, id16)

    def _row(self, packed: bytes, id16: bytes) -> UrlRow:
        row = _decode_url(packed)
        if not row.id:
            row.id, row.domain = id16, urls.registrable_domain(row.host)
            row.key = row.key or row.url
        return row

    def host(self, name: str) -> HostRow | None:
        """The row of a host."""
        packed = self.db.get("hosts", self._host8[name])
        return None if packed is None else _decode_host(packed)

    def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        packed = self.db.get("robots", origin.encode())
        return None if packed is None else decode.robots(packed)

    def learned_of(self, name: str) -> Learned | None:
        """What was learned of a host."""
        packed = self.db.get("default", LEARNED + name.encode())
        return None if packed is None else decode.learned(packed)

    def page(self, id16: bytes) -> PageRow | None:
        """A stored page."""
        packed = self.db.get("pages", id16)
        return None if packed is None else _page_row(id16, packed)

    def digest(self, key: tuple[str, str]) -> PageRow | None:
        """The page that represents a digest."""
        dom8 = self._domain8[key[0]]
        return self._standing(_by_digest(dom8, key[1]))

    def simhash(self, key: tuple[str, int]) -> PageRow | None:
        """The page that represents a SimHash."""
        return self._standing(_by_block(self._domain8[key[0]], 0, whole := key[1].to_bytes(8, "big")) + whole)

    def _standing(self, key: bytes) -> PageRow | None:
        id16 = self.db.get("twins", key)
        return None if id16 is None else self.page(id16)

    def nearest(self, domain: str, simhash: int, distance: int) -> list[int]:
        """The nearest SimHashes, up to three bits apart.

        Two 64-bit SimHashes that differ in at most three bits agree in one of four blocks of 16 bits (pigeonhole), so
        each page is filed under its four blocks, and four short ranges are read instead of all pages (Manku, Jain and
        Das Sarma, 2007).
        """
        dom8, whole = self._domain8[domain], simhash.to_bytes(8, "big")
        least, found = min(distance, BLOCKS - 1), set[int]()
        for block in range(BLOCKS):
            prefix = _by_block(dom8, block, whole)
            for key, _ in islice(self.db.scan("twins", prefix, after(prefix)), _READ_AT_MOST):
                other = int.from_bytes(key[-8:], "big")
                apart = (other ^ simhash).bit_count()
                if apart < least:
                    least, found = apart, {other}
                elif apart == least:
                    found.add(other)
        return sorted(found)

    def parked(self, host: str) -> list[UrlRow]:
        """URLs that came due while their host was set aside."""
        prefix = PARKED + self._host8[host]
        rows = (self.url(key[-16:]) for key, _ in self.db.scan("due", prefix, after(prefix)))
        return [row for row in rows if row is not None]

    def heads(self, ask: Heads) -> list[tuple[Spot, bytes, Waiting]]:
        """The first links of a host's queue, packed, after their ids."""
        host8, dom8 = self._host8[ask.host], self._domain8[urls.registrable_domain(ask.host)]
        start = queue_start(host8, ask.level, ask.after)
        found = islice(self.db.scan("queue", start, queue_end(host8, ask.level)), ask.limit)
        rows: list[tuple[Spot, bytes, Waiting]] = []
        for key, packed in found:
            id16 = dom8 + key[-8:]
            rows.append(((order_of(key[9:17]), number_of(key[17:25])), id16, id16 + packed))
        return rows

    def unpacked(self, packed: bytes) -> UrlRow:
        """Unpack a row that was read ahead."""
        return self._row(packed[_ID:], packed[:_ID])

    def agenda(self, ask: Span) -> list[tuple[bytes, str]]:
        """The first hosts of a part of the agenda."""
        found = self.db.scan("agenda", ask.after + b"\x00", ask.before)
        return [(place, name.decode()) for place, name in islice(found, ask.limit)]

    def times(self, ask: Times) -> list[UrlRow]:
        """The first URLs of a list of times."""
        prefix = _DUE[ask.kind]
        start = prefix if ask.after is None else prefix + time8(ask.after[0]) + ask.after[1] + b"\x00"
        found = islice(self.db.scan("due", start, after(prefix)), ask.limit)
        rows = (self.url(key[-16:]) for key, _ in found)
        return [row for row in rows if row is not None]

    # -- many at once ------------------------------------------------------------------------------------------

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        found = Found()
        found.urls = {id16: row for id16 in wanted.urls if (row := self.url(id16)) is not None}
        found.hosts = {name: host for name in wanted.hosts if (host := self.host(name)) is not None}
        found.robots = {origin: copy for origin in wanted.robots if (copy := self.robots(origin)) is not None}
        found.pages = {id16: page for id16 in wanted.pages if (page := self.page(id16)) is not None}
        found.digests = {key: page for key in wanted.digests if (page := self.digest(key)) is not None}
        found.simhashes = {key: page for key in wanted.simhashes if (page := self.simhash(key)) is not None}
        found.learned = {name: told for name in wanted.learned if (told := self.learned_of(name)) is not None}
        found.heads = [[self._head(row) for _, _, row in self.heads(ask)] for ask in wanted.heads]
        found.times = [self.times(ask) for ask in wanted.times]
        found.parked = {host: self.parked(host) for host in wanted.parked}
        found.domains = {domain: self._simhashes(domain, limit) for domain, limit in wanted.domains}
        for ask in wanted.agenda:
            hosts = (self.host(name) for _, name in self.agenda(ask))
            found.agenda.append([host for host in hosts if host is not None])
        return found

    def _head(self, row: Waiting) -> UrlRow:
        return self.unpacked(row) if isinstance(row, bytes) else row

    def _simhashes(self, domain: str, limit: int) -> list[int]:
        prefix = self._domain8[domain] + b"0"
        found = islice(self.db.scan("twins", prefix, after(prefix)), limit)
        return [int.from_bytes(key[-8:], "big") for key, _ in found]

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        return self.meta_now()

    def meta_now(self) -> Meta:
        """The same, for callers at hand."""
        packed = self.db.get("default", _META)
        return decode.meta(packed) if packed else Meta()

    async def outbox(self, limit: int, after: int) -> list[tuple[int, Link]]:
        """The oldest links waiting to be forwarded."""
        start = number8(after + 1) if after else self._first_out
        rows = list(islice(self.db.scan("outbox", start, b"\xff" * 9), limit))
        if rows and not after:
            self._first_out = rows[0][0]
        return [(number_of(key), decode.link(packed)) for key, packed in rows]

    def all_urls(self) -> Iterator[UrlRow]:
        """Every URL. Both families are read as of the start, so none is repeated or missed."""
        settled, waiting = self.db.scan_all("urls"), self.db.scan_all("queue")
        for id16, packed in settled:
            if packed[:1] != WAITS:
                yield self._row(packed, id16)
        for key, packed in waiting:
            yield self.waiting(key, packed)

    def waiting(self, key: bytes, packed: bytes) -> UrlRow:
        """A row of the queue."""
        row = self._row(packed, key[-8:])
        if len(row.id) < _ID:
            row.id = self._domain8[row.domain] + row.id
        return row

    async def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL."""
        for row in self.all_urls():
            yield row

    async def pages(self) -> AsyncIterator[PageRow]:
        """Every page, domain by domain."""
        for id16, packed in self.db.scan_all("pages"):
            yield _page_row(id16, packed)

    async def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        for _, packed in self.db.scan_all("hosts"):
            yield _decode_host(packed)

    async def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        for _, packed in self.db.scan("default", LEARNED, after(LEARNED)):
            yield decode.learned(packed)

    def metrics(self) -> StoreMetrics:
        """A store at hand counts no round trips."""
        return StoreMetrics()


def _put_others(batch: Batch, changes: Changes) -> None:
    robots, leases, suspects, outbox = (changes[name] for name in ("robots", "leases", "suspects", "outbox"))
    for origin, copy in batch.robots.items():
        robots[origin.encode()] = None if copy is None else _encode(copy)
    for name, learned in batch.learned.items():
        changes["default"][LEARNED + name.encode()] = None if learned is None else _encode(learned)
    for id16, visit in batch.leases.items():
        leases[id16] = None if visit is None else _encode(visit)
    for id16, suspicion in batch.suspects.items():
        suspects[id16] = None if suspicion is None else _encode(suspicion)
    for number, link in batch.outbox.items():
        outbox[number8(number)] = None if link is None else _encode(link)
    changes["default"][_META] = _encode(batch.meta)


def _packed(row: UrlRow) -> bytes:
    """Encode a row. Of the most common one, an untried link found on a page, only what its key does not say.

    Field by field, because every new link comes here: tuples of all fields cost more than asking for each.
    """
    if (
        row.crawl_count or row.attempts or row.status or row.hops or row.seed or row.crashes or row.parked or row.origin or row.requested
        or row.last_crawl is not None or row.due is not None or row.reason is not None or row.meta is not None or row.extra is not None
    ):  # fmt: skip
        return _encode(row)
    key = "" if row.key == row.url else row.key
    return _encode(
        (b"", row.url, key, row.host, "", row.state, row.level, row.score, row.seq, row.depth, row.parent, row.first_seen)
    )  # fmt: skip


def _page_row(id16: bytes, packed: bytes) -> PageRow:
    row = decode.page(packed)
    row.id = id16
    return row


def _by_digest(dom8: bytes, digest: str) -> bytes:
    """The key that names the page for a digest."""
    return dom8 + b"d" + digest.encode()


_PARTS = tuple((b"%d" % block, slice(6 - 2 * block, 8 - 2 * block)) for block in range(BLOCKS))


def _by_block(dom8: bytes, block: int, simhash: bytes) -> bytes:
    """The common prefix of all SimHashes of a domain that agree in this block. Block 0 is the last 16 bits."""
    name, part = _PARTS[block]
    return dom8 + name + simhash[part]


def _by_simhash(dom8: bytes, simhash: int) -> list[bytes]:
    """The keys that name the page for a SimHash: one for each block."""
    whole = simhash.to_bytes(8, "big")
    return [dom8 + name + whole[part] + whole for name, part in _PARTS]

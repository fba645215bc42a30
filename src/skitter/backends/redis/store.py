"""One shard in Redis, held under one epoch: the `Store` port.

key, behind `{name:shard}:`    kind    what
epoch                          string  see claims
claim                          hash    see claims
written                        hash    epoch and number of the last batch
meta                           string  Meta
urls, pages, leases, suspects  hash    by id
hosts, learned, robots         hash    by name, by name, by origin
q:<level>:<host>               zset    score + sequence number + id: the queue of a host's level
retry, recrawl                 zset    time + id
parked:<host>                  set     id
agenda                         zset    place + name + length of the place
digests                        hash    domain NUL digest -> id
sim:<domain>                   hash    SimHash -> id

Rows are MessagePack. The members of a sorted set all have score 0 and are ordered as bytes, which is exact for any number
of equal scores and can be read on from anywhere. A write is one script that checks the epoch and then runs the commands it
is given; a load is one pipeline: hashes by key, and one script for lists.

There is no Bloom filter before the hash `urls`: inside the server, asking for a field that does not exist costs 0.09 µs, the
seven bits of a filter 1.3 µs in one BITFIELD_RO and 3.4 µs in a script. In front of an engine that is slower to say no, a
filter does pay (see `bloom`).
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from skitter.backends.redis.client import Client, Command
from skitter.frontier.crashes import Suspicion
from skitter.frontier.names import hash16
from skitter.frontier.rows import (
    FOREIGN,
    PARKED,
    QUEUE,
    QUEUED,
    Batch,
    Found,
    HostRow,
    Meta,
    Opening,
    PageRow,
    Spot,
    Standing,
    UrlRow,
    Wanted,
    standing,
)
from skitter.frontier.sortable import number8, score8, time8
from skitter.model import RobotsCopy, Visit
from skitter.ports import Fenced, Unstorable
from skitter.runtime.metrics import StoreMetrics
from skitter.schedule.learning.learned import Learned

T = TypeVar("T")
_AT_ONCE = 1000  # rows an iterator holds
_LAST = b"\xff" * 16  # behind every id

_encode = Encoder().encode
_meta = Decoder(Meta).decode
_row = Decoder(UrlRow).decode
_host = Decoder(HostRow).decode
_page = Decoder(PageRow).decode
_robots = Decoder(RobotsCopy).decode
_learned = Decoder(Learned).decode
_visit = Decoder(Visit).decode
_suspicion = Decoder(Suspicion).decode


def _url(packed: bytes) -> UrlRow:
    row = _row(packed)
    if row.state > FOREIGN:  # in flight, as Skitter 0.1 wrote it; now the lease says so
        row.state = QUEUED
    return row


def tag(name: str, shard: int) -> bytes:
    """The prefix of every key of a shard."""
    return f"{{{name}:{shard}}}:".encode()


class RedisStore:
    """`skitter.frontier.store.Store` on Redis. Reading alone needs no epoch."""

    def __init__(self, client: Client, shard: int, epoch: int = 0) -> None:
        self._client = client
        self._shard, self._epoch = shard, epoch
        self._prefix = tag(client.name, shard)
        self._write = client.script("write")
        self._load = client.script("load")
        self._metrics = StoreMetrics()

    hash_key, secret = staticmethod(hash16), 0

    def domain_prefix(self, domain: str) -> bytes:  # noqa: ARG002  the same for all
        """None: a hash of the key is enough."""
        return b""

    # ------------------------------------------------------------------------------------------------ owner

    async def open(self) -> Opening:
        """Counts and positions, open leases, suspects."""
        key = self._prefix
        self._metrics.reads += 1
        meta, leases, suspects = await self._client.send(
            lambda: [("GET", key + b"meta"), ("HGETALL", key + b"leases"), ("HGETALL", key + b"suspects")]
        )
        return Opening(
            _meta(meta) if meta else Meta(),
            {id16: _visit(packed) for id16, packed in _pairs(leases)},
            {id16: _suspicion(packed) for id16, packed in _pairs(suspects)},
        )

    async def write(self, batch: Batch) -> None:
        """Write all of it, or nothing; Fenced if another worker owns the shard."""
        arguments: list[Any] = [self._epoch, batch.number]
        try:
            for (command, suffix), values in _commands(batch).items():
                arguments += (command, self._prefix + suffix, len(values), *values)
        except (ValueError, OverflowError) as problem:  # invalid text, or a number that is too large
            raise Unstorable(f"Redis: {problem}") from problem
        self._metrics.writes += 1
        keys = [self._prefix + b"epoch", self._prefix + b"written"]
        if not await self._client.run(self._write, keys, arguments):
            raise Fenced(f"shard {self._shard}: epoch {self._epoch} is over")
        rows = len(batch.urls) + len(batch.hosts) + len(batch.pages) + len(batch.robots) + len(batch.leases)
        self._metrics.rows_written += rows

    async def load(self, wanted: Wanted) -> Found:
        """Rows by key, and heads of lists."""
        key = self._prefix
        hashes: list[Command] = [
            ("HMGET", key + name, *fields)
            for name, fields in (
                (b"urls", wanted.urls),
                (b"hosts", wanted.hosts),
                (b"robots", wanted.robots),
                (b"pages", wanted.pages),
                (b"learned", wanted.learned),
            )
            if fields
        ]
        lists = _request(wanted)
        self._metrics.reads += 1
        answers = await self._client.send(
            lambda: [*hashes, self._load.call([key], lists)] if lists else hashes
        )
        found = Found()
        rows = iter(answers)
        found.urls = _by_key(wanted.urls, rows, _url)
        found.hosts = _by_key(wanted.hosts, rows, _host)
        found.robots = _by_key(wanted.robots, rows, _robots)
        found.pages = _by_key(wanted.pages, rows, _page)
        found.learned = _by_key(wanted.learned, rows, _learned)
        if lists:
            _read_lists(wanted, found, next(rows))
        self._metrics.rows_read += len(found.urls) + len(found.hosts) + sum(map(len, found.heads))
        return found

    async def sync(self) -> None:
        """Acknowledged writes are already as safe as they can be."""

    # ------------------------------------------------------------------------------------------------ reading

    async def meta(self) -> Meta:
        """Counts, mark and positions as of the last write."""
        self._metrics.reads += 1
        (packed,) = await self._client.send(lambda: [("GET", self._prefix + b"meta")])
        return _meta(packed) if packed else Meta()

    async def urls(self) -> AsyncIterator[UrlRow]:
        """Every URL. One that Redis moves in memory meanwhile may come twice."""
        async for packed in self._all(b"urls"):
            yield _url(packed)

    async def pages(self) -> AsyncIterator[PageRow]:
        """Every page."""
        async for packed in self._all(b"pages"):
            yield _page(packed)

    async def hosts(self) -> AsyncIterator[HostRow]:
        """Every host."""
        async for packed in self._all(b"hosts"):
            yield _host(packed)

    async def learned(self) -> AsyncIterator[Learned]:
        """Everything that was learned of hosts."""
        async for packed in self._all(b"learned"):
            yield _learned(packed)

    async def _all(self, name: bytes) -> AsyncIterator[bytes]:
        cursor: Any = 0
        while True:
            ask = ("HSCAN", self._prefix + name, cursor, "COUNT", _AT_ONCE)
            self._metrics.reads += 1
            ((cursor, rows),) = await self._client.send(lambda ask=ask: [ask])  # type: ignore[misc]
            for _, packed in _pairs(rows):
                yield packed
            if int(cursor) == 0:
                return

    def metrics(self) -> StoreMetrics:
        """Round trips and rows."""
        return replace(self._metrics)

    async def close(self) -> None:
        """The client belongs to the worker."""


# ------------------------------------------------------------------------------------------------ writing


def _commands(batch: Batch) -> dict[tuple[str, bytes], list[Any]]:
    """All changes of a batch, by command and key. Removals from lists come before additions."""
    out: defaultdict[tuple[str, bytes], list[Any]] = defaultdict(list)
    _leave_lists(batch, out)
    for id16, row in batch.urls.items():
        stands = None if row is None else standing(row)
        if stands is not None:
            command, suffix, member = listed(stands, id16)
            out[command, suffix] += [0, member] if command == "ZADD" else [member]
    for name in batch.placed:
        if place := batch.hosts[name].place:
            out["ZADD", b"agenda"] += [0, _placed(place, name)]
    for id16, page in batch.pages.items():
        for suffix, field in _stands_for(page):
            out["HSET", suffix] += [field, id16]
    _put(out, b"urls", batch.urls)
    _put(out, b"hosts", batch.hosts)
    _put(out, b"pages", batch.pages)
    _put(out, b"robots", batch.robots)
    _put(out, b"learned", batch.learned)
    _put(out, b"leases", batch.leases)
    _put(out, b"suspects", batch.suspects)
    out["SET", b"meta"] = [_encode(batch.meta)]
    return out


def _leave_lists(batch: Batch, out: defaultdict[tuple[str, bytes], list[Any]]) -> None:
    for id16, stood in batch.stood.items():
        command, suffix, member = listed(stood, id16)
        out["ZREM" if command == "ZADD" else "SREM", suffix].append(member)
    for name, place in batch.placed.items():
        if place:
            out["ZREM", b"agenda"].append(_placed(place, name))
    for page in batch.replaced.values():
        for suffix, field in _stands_for(page):
            out["HDEL", suffix].append(field)


def _put(out: defaultdict[tuple[str, bytes], list[Any]], table: bytes, changes: dict[Any, Any]) -> None:
    for key, row in changes.items():
        if row is None:
            out["HDEL", table].append(key)
        else:
            out["HSET", table] += (key, _encode(row))


def listed(stands: Standing, id16: bytes) -> tuple[str, bytes, bytes]:
    """The command that adds a row to its list, the list, and the entry."""
    if stands.kind == QUEUE:
        return "ZADD", _queue(stands.host, stands.level), score8(-stands.order) + number8(stands.seq) + id16
    if stands.kind == PARKED:
        return "SADD", b"parked:" + stands.host.encode(), id16
    return "ZADD", stands.kind.encode(), time8(stands.order) + id16


def _queue(host: str, level: int) -> bytes:
    return b"q:%d:%b" % (level, host.encode())


def _placed(place: bytes, name: str) -> bytes:
    return place + name.encode() + bytes((len(place),))


def _stands_for(row: PageRow | None) -> list[tuple[bytes, bytes]]:
    found = []
    if row is not None and row.by_digest:
        found.append((b"digests", _digest(row.page.domain, row.page.digest)))
    if row is not None and row.by_simhash and row.page.simhash is not None:
        found.append((_domain(row.page.domain), number8(row.page.simhash)))
    return found


def _digest(domain: str, digest: str) -> bytes:
    return f"{domain}\0{digest}".encode()


def _domain(domain: str) -> bytes:
    return b"sim:" + domain.encode()


# ------------------------------------------------------------------------------------------------ reading


def _request(wanted: Wanted) -> list[Any]:
    """The question for the script; empty if it is not needed."""
    heads = [(_queue(ask.host, ask.level), _behind(ask.after), ask.limit) for ask in wanted.heads]
    agenda = [(b"(" + ask.after, b"(" + ask.before, ask.limit + 1) for ask in wanted.agenda]
    times = [
        (
            ask.kind.encode(),
            b"-" if ask.after is None else b"(" + time8(ask.after[0]) + ask.after[1],
            ask.limit,
        )
        for ask in wanted.times
    ]
    parked = [(b"parked:" + host.encode(),) for host in wanted.parked]
    digests = [(_digest(*key),) for key in wanted.digests]
    simhashes = [(_domain(domain), number8(simhash)) for domain, simhash in wanted.simhashes]
    domains = [(_domain(domain), limit) for domain, limit in wanted.domains]
    questions: tuple[list[tuple[Any, ...]], ...] = (
        *(list(some) for some in (heads, agenda, times, parked, digests, simhashes, domains)),
    )
    if not any(questions):
        return []
    return [part for some in questions for part in (len(some), *chain.from_iterable(some))]


def _behind(after: Spot | None) -> bytes:
    return b"-" if after is None else b"(" + score8(-after[0]) + number8(max(after[1], 0)) + _LAST


def _read_lists(wanted: Wanted, found: Found, answer: list[Any]) -> None:
    heads, agenda, times, parked, digests, simhashes, domains = answer
    found.heads = [_rows(packed, _url) for packed in heads]
    for span, packed in zip(wanted.agenda, agenda, strict=True):
        hosts = [host for host in _rows(packed, _host) if host.place > span.after]
        found.agenda.append(hosts[: span.limit])
    found.times = [_rows(packed, _url) for packed in times]
    for host, packed in zip(wanted.parked, parked, strict=True):
        found.parked[host] = _rows(packed, _url)
    found.digests = {
        key: _page(packed) for key, packed in zip(wanted.digests, digests, strict=True) if packed
    }
    found.simhashes = {
        key: _page(packed) for key, packed in zip(wanted.simhashes, simhashes, strict=True) if packed
    }
    for (domain, _), packed in zip(wanted.domains, domains, strict=True):
        found.domains[domain] = [int.from_bytes(simhash, "big") for simhash in packed]


def _rows(packed: Iterable[bytes | None], decode: Callable[[bytes], T]) -> list[T]:
    return [decode(row) for row in packed if row is not None]


def _by_key(keys: list[Any], answers: Any, decode: Callable[[bytes], T]) -> dict[Any, T]:  # noqa: ANN401
    if not keys:
        return {}
    rows = zip(keys, next(answers), strict=True)
    return {key: decode(packed) for key, packed in rows if packed is not None}


def _pairs(answer: Any) -> Iterable[tuple[bytes, bytes]]:  # noqa: ANN401  a list or a map, by the protocol
    return answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)

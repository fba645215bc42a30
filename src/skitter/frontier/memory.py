"""The part of a shard that its owner has in memory, read when first needed.

The owner is exclusive: what it has read stays true until it changes it. If the store is at hand, looking up a missing
row reads it. If the store is behind a network, the same look-up raises `Lacking`, which says what is missing;
`prefetch` loads that and what else will be needed, and the step is repeated. So the deciding code is the same for
both, and must read everything a step needs before it changes anything.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from typing import Generic, NoReturn, TypeVar

from skitter.frontier.bounded import Bounded
from skitter.frontier.held import Lease, Rules, rules_of
from skitter.frontier.rows import (
    QUEUED,
    RECRAWL,
    RETRY,
    Batch,
    Heads,
    HostRow,
    PageRow,
    Span,
    Spot,
    Standing,
    Times,
    UrlRow,
    Wanted,
    standing,
    widened,
)
from skitter.frontier.store import Source, Waiting
from skitter.schedule.learning.learned import Learned

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K", bytes, Spot, tuple[float, bytes])
V = TypeVar("V")


class Lacking(Exception):  # noqa: N818  nothing is wrong: it has to be read first
    """Something is not in memory, and the store is behind a network."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self.wanted = wanted


class Through(dict[A, B]):
    """A dictionary that reads missing entries. Use `[]`; `get` and `in` only see what was read.

    Entries are dropped oldest first, and only in `trim`: none vanishes in a step.
    """

    def __init__(self, read: Callable[[A], B], capacity: int = 0) -> None:
        super().__init__()
        self._read = read
        self.capacity = capacity

    def __missing__(self, key: A) -> B:
        value = self[key] = self._read(key)
        return value

    def trim(self) -> None:
        """Drop the older half if there are too many: deleting one by one from the front is slow."""
        if len(self) > self.capacity:
            for key in list(islice(self, len(self) - self.capacity // 2)):
                del self[key]


class Window(Generic[K, V]):
    """The first keys of an ordered list in a store.

    The store has the whole list; a window has every key up to its horizon. A new key before the horizon is also put
    into the window, one behind it is left to the store. An empty window reads on from its horizon, so tombstones of
    keys deleted long ago are never walked over twice (1.1 ms after 4,000 of them).
    """

    __slots__ = ("_read", "complete", "horizon", "keys", "size", "values")

    def __init__(self, start: K, size: int, read: "Callable[[Window[K, V]], None]") -> None:
        self.size = size
        self.horizon: K = start
        self.complete = False  # all keys of the list are in memory
        self.keys: list[K] = []
        self.values: dict[K, V] = {}
        self._read: Callable[[Window[K, V]], None] = read  # fills it, or raises Lacking

    def push(self, key: K, value: V) -> None:
        """A key was added to the list."""
        keys = self.keys
        if not self.complete and key > self.horizon:
            return
        if len(keys) >= self.size and key > keys[-1]:  # there are enough: the rest is left to the store
            self.horizon, self.complete = keys[-1], False
            return
        if key not in self.values:
            insort(keys, key)
        self.values[key] = value
        if len(keys) > 2 * self.size:
            for beyond in keys[self.size :]:
                del self.values[beyond]
            del keys[self.size :]
            self.horizon, self.complete = keys[-1], False

    def discard(self, key: K) -> None:
        """A key was removed from the list."""
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def lacks(self, count: int) -> bool:
        """Whether the store must be asked before the first `count` keys are known."""
        return not self.complete and len(self.keys) < count

    def fill(self, found: Iterable[tuple[K, V]], horizon: K | None) -> None:
        """Take in all keys up to a new horizon; None: there are no more."""
        for key, value in found:
            if key not in self.values:
                insort(self.keys, key)
            self.values[key] = value
        if horizon is None:
            self.complete = True
        else:
            self.horizon = horizon

    def first(self) -> tuple[K, V] | None:
        """The first key and its value."""
        while not self.keys and not self.complete:
            self._read(self)
        return (self.keys[0], self.values[self.keys[0]]) if self.keys else None

    def has(self, count: int) -> None:
        """Read on until the first `count` keys, or all, are known."""
        while not self.complete and len(self.keys) < count:
            self._read(self)

    def in_memory(self, count: int) -> list[tuple[K, V]]:
        """The first keys that are in memory."""
        return [(key, self.values[key]) for key in self.keys[:count]]

    def __len__(self) -> int:
        return len(self.keys)


class Far:
    """`Source` of a store behind a network: reads nothing, raises what must be loaded."""

    def url(self, id16: bytes) -> NoReturn:
        """The row of a URL."""
        raise Lacking(Wanted(urls=[id16]))

    def host(self, name: str) -> NoReturn:
        """The row of a host."""
        raise Lacking(Wanted(hosts=[name]))

    def robots(self, origin: str) -> NoReturn:
        """The copy of an origin's robots.txt."""
        raise Lacking(Wanted(robots=[origin]))

    def learned_of(self, name: str) -> NoReturn:
        """What was learned of a host."""
        raise Lacking(Wanted(learned=[name]))

    def page(self, id16: bytes) -> NoReturn:
        """A stored page."""
        raise Lacking(Wanted(pages=[id16]))

    def digest(self, key: tuple[str, str]) -> NoReturn:
        """The page that represents a digest."""
        raise Lacking(Wanted(digests=[key]))

    def simhash(self, key: tuple[str, int]) -> NoReturn:
        """The page that represents a SimHash."""
        raise Lacking(Wanted(simhashes=[key]))

    def parked(self, host: str) -> NoReturn:
        """URLs that were due while their host was set aside."""
        raise Lacking(Wanted(parked=[host]))

    def heads(self, ask: Heads) -> NoReturn:
        """The first links of a host's queue."""
        raise Lacking(Wanted(heads=[ask]))

    def unpacked(self, packed: bytes) -> NoReturn:
        """Rows from a network come unpacked."""
        raise AssertionError(packed)

    def agenda(self, ask: Span) -> NoReturn:
        """The first hosts of a part of the agenda."""
        raise Lacking(Wanted(agenda=[ask]))

    def times(self, ask: Times) -> NoReturn:
        """The first URLs of a list of times."""
        raise Lacking(Wanted(times=[ask]))


# ------------------------------------------------------------------------------------------------ what is held

_READ_AHEAD = (4, 32)  # rows of a queue: few if many hosts are active, more if few are
_MOST_LEARNED = 1_024  # hosts of which is in memory what was learned; a row is a few kB at most
When = tuple[float, bytes]  # a time, and the id of the URL that is due then


class Memory:
    """Hosts, rules and heads of lists, a bounded number each; for one verb, also rows of URLs and pages.

    Everything is bounded by `frontier.window`, so that a worker with many shards can divide it among them.
    """

    # Slots: with more than 30 attributes, Python would look each of them up in a dictionary.
    __slots__ = (
        "ahead", "batch", "capacity", "digests", "headless", "hosts", "learned", "leases", "moved", "pages", "parked", "queues",
        "rows", "rules", "simhashes", "source", "stood", "times", "touched", "window_size",
    )  # fmt: skip
    batch: Batch

    def __init__(self, source: Source, window: int, size: int) -> None:
        self.source = source
        self.ahead = 0.0  # how many seconds early visits are leased
        self.capacity, self.window_size = window, size
        self.hosts: Through[str, HostRow | None] = Through(
            lambda name: widened(source.host(name)), window
        )  # None: there is no such host
        self.rules: Through[str, Rules] = Through(lambda origin: rules_of(source.robots(origin)), 2 * window)
        self.learned: Through[str, Learned | None] = Through(source.learned_of, min(window, _MOST_LEARNED))
        self.queues: Bounded[tuple[str, int], Window[Spot, Waiting]] = Bounded(window)
        self.touched: dict[str, HostRow] = {}  # hosts to be written
        self.moved: dict[str, HostRow] = {}  # … and those that may have to move in the agenda
        self.times: dict[str, Window[When, str]] = {
            kind: Window((-inf, b""), size, self._read_times) for kind in (RETRY, RECRAWL)
        }
        self.leases: dict[bytes, Lease] = {}
        # Kept for one verb.
        self.rows: Through[bytes, UrlRow | None] = Through(self._read_row)
        self.stood: dict[bytes, Standing] = {}
        self.pages: Through[bytes, PageRow | None] = Through(source.page)
        self.digests: Through[tuple[str, str], PageRow | None] = Through(source.digest)
        self.simhashes: Through[tuple[str, int], PageRow | None] = Through(source.simhash)
        self.parked: Through[str, list[UrlRow]] = Through(self._read_parked)
        self.headless: dict[
            tuple[str, int], HostRow
        ] = {}  # hosts whose first link is behind the head they name

    # -- rows of URLs ------------------------------------------------------------------------------------------

    def _read_row(self, id16: bytes) -> UrlRow | None:
        row = self.source.url(id16)
        return row if row is None else self.adopt(row)

    def adopt(self, row: UrlRow) -> UrlRow:
        """Add a row to this verb, as the store has it."""
        self.rows[row.id] = row
        stood = standing(row)
        if stood is not None:
            self.stood[row.id] = stood
        return row

    def has_row(self, id16: bytes) -> bool:
        """Whether `row` can answer without reading."""
        return id16 in self.rows or id16 in self.leases

    def row(self, id16: bytes) -> UrlRow | None:
        """The row of a URL."""
        lease = self.leases.get(id16)
        return self.rows[id16] if lease is None else lease.row

    def is_out(self, row: UrlRow) -> bool:
        """Whether a row is in flight. It stays in its queue meanwhile."""
        return row.id in self.leases

    # -- queues ------------------------------------------------------------------------------------------------

    def queue(self, host: HostRow, queue: int) -> Window[Spot, Waiting]:
        """The first links of a host's queue, starting with the head."""
        key = host.name, queue
        window = self.queues.get(key)
        if window is None:
            score, seq = host.heads[queue] or (-inf, 0)
            least, most = _READ_AHEAD
            size = min(max(self.capacity // (len(self.queues) + 1), least), most)
            window = self.queues[key] = Window(
                (score, seq - 1), size, lambda window: self._read_queue(*key, window)
            )
        return window

    def find_heads(self) -> None:
        """Give hosts whose first link has left its successor as head. Ends every verb."""
        for (name, queue), host in list(self.headless.items()):
            first = self.queue(host, queue).first()
            if first is None:
                raise AssertionError(f"queue {queue} of {name} has lost {host.levels[queue]} links")
            host.heads[queue] = first[0]
            del self.headless[name, queue]
            self.touched[name] = self.moved[name] = host

    def _read_queue(self, name: str, queue: int, window: Window[Spot, Waiting]) -> None:
        """At hand, only existing rows are read: many hosts have one link, and reading past it costs a row."""
        limit = window.size if self.ahead else min(window.size, max(1, self._length(name, queue)))
        ask = Heads(name, queue, window.horizon, limit)
        rows = self.source.heads(ask)
        self.fill_queue(ask, rows, window, [row for row in self.batch.urls.values() if row is not None])

    def _length(self, name: str, queue: int) -> int:
        host = self.hosts[name]
        return 0 if host is None else host.levels[queue]

    def fill_queue(
        self,
        ask: Heads,
        rows: Sequence[tuple[Spot, bytes, Waiting]],
        window: Window[Spot, Waiting],
        changed: Sequence[UrlRow],
    ) -> None:
        """Take in an answer, which is as of the last write: rows in flight or changed since belong elsewhere."""
        horizon = rows[-1][0] if len(rows) >= ask.limit else None
        batch, leases = self.batch.urls, self.leases
        found = [(spot, row) for spot, id16, row in rows if id16 not in batch and id16 not in leases]
        for row in changed:
            if row.host == ask.host and row.level == ask.level and row.state == QUEUED and row.due is None:
                spot = row.spot()
                in_window = spot > window.horizon and (horizon is None or spot <= horizon)
                if in_window and row.id not in leases:
                    found.append((spot, row))
        window.fill(found, horizon)

    def waiting(self, window: Window[Spot, Waiting], spot: Spot) -> UrlRow:
        """Unpack a row that was read ahead."""
        row = window.values[spot]
        return self.source.unpacked(row) if isinstance(row, bytes) else row

    def _read_times(self, window: Window[When, str]) -> None:
        kind = RETRY if window is self.times[RETRY] else RECRAWL
        ask = Times(kind, window.horizon, window.size)
        self.fill_times(ask, self.source.times(ask))

    def fill_times(self, ask: Times, rows: list[UrlRow]) -> None:
        """The same for a list of times."""
        window = self.times[ask.kind]
        last = (rows[-1].due or 0.0, rows[-1].id) if len(rows) >= ask.limit else None
        batch = self.batch.urls
        new = [((row.due, row.id), row.host) for row in rows if row.due is not None and row.id not in batch]
        for row in batch.values():
            stands = None if row is None else standing(row)
            if row is not None and stands is not None and stands.kind == ask.kind and row.due is not None:
                key = row.due, row.id
                if key > window.horizon and (last is None or key <= last):
                    new.append((key, row.host))
        window.fill(new, last)

    def _read_parked(self, host: str) -> list[UrlRow]:
        return self.adopted(self.source.parked(host))

    def adopted(self, rows: list[UrlRow]) -> list[UrlRow]:
        """Rows read from a list, each as this verb has it."""
        return [self.row(row.id) or row if self.has_row(row.id) else self.adopt(row) for row in rows]

"""One open shard: its parts, and the small steps that keep entries, hosts, queues and counts in agreement.

The verbs (adding, leasing, settling, recovery) change memory and the batch inside one `step`, which makes all of it durable
in one write. If anything in it fails, memory is ahead of the disk and the shard refuses further work: the truth is on the
disk, and whoever opens it next finds all that was acknowledged.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from skitter import urls
from skitter.backends.rocksdb import twins
from skitter.backends.rocksdb.agenda import Agenda
from skitter.backends.rocksdb.hosts import Hosts, Named
from skitter.backends.rocksdb.layout import (
    PARKED,
    RECRAWL,
    RETRY,
    WAITS,
    after,
    fp8,
    row_of,
    seen8,
    spot24,
    waits_at,
)
from skitter.backends.rocksdb.nearby import Nearby
from skitter.backends.rocksdb.queue import Queue
from skitter.backends.rocksdb.records import (
    QUEUED,
    STATES,
    Entry,
    HostState,
    Ledger,
    decode_entry,
    decode_ledger,
    decode_robots,
    decode_stored,
    decode_suspicion,
    encode,
)
from skitter.backends.rocksdb.seen import RANKS, Seen
from skitter.backends.rocksdb.store import Batch, Store
from skitter.backends.rocksdb.window import Window
from skitter.frontier import rules
from skitter.frontier.bounded import Bounded
from skitter.frontier.rules import Suspicion
from skitter.frontier.sortable import number8, time8
from skitter.model import Counts, Link, Page, Purpose, Reason, RobotsCopy, Visit
from skitter.ports import Mark, StateError
from skitter.settings import Settings

_DUE_WINDOW = 1024


class Flight(NamedTuple):
    """What of a host is in flight."""

    visits: int = 0
    robots: bool = False


IDLE = Flight()


class Shard:
    """Everything that its owner has open."""

    def __init__(self, store: Store, settings: Settings, shard: int, shards: int) -> None:
        self.store = store
        self.batch = Batch(store)
        self.per_host = settings.politeness.per_host
        self.delay = float(settings.politeness.delay)
        window = settings.frontier.window
        self.hosts = Hosts(self.batch, store.secret, shard, shards, window)
        self.queue = Queue(self.batch, window)
        self.agenda = Agenda(self.batch)
        self.seen = Seen(store)
        self.nearby = Nearby(store)
        packed = store.get("default", b"ledger")
        self.ledger = decode_ledger(packed) if packed else Ledger(0, Mark(), Counts())
        self.counts = self.ledger.counts
        self.leases: dict[bytes, Visit] = {}
        self.leased: dict[bytes, Entry] = {}  # their entries, so that settling need not read them again
        self.flights: dict[bytes, Flight] = {}
        self.suspects = {id16: decode_suspicion(value) for id16, value in store.scan_all("suspects")}
        self.retries = Window("due", RETRY, after(RETRY), _DUE_WINDOW)
        self.recrawls = Window("due", RECRAWL, after(RECRAWL), _DUE_WINDOW)
        self.rules_until: Bounded[str, float] = Bounded(window)  # origin -> expiry of its robots.txt
        self.first_out = b""  # nothing in the outbox stands before this key
        self.alone = b""  # the visit that must be the only one in flight
        self.drain = b""  # the host whose suspected visit waits until nothing is in flight
        self.unsure_since: float | None = None  # opened then, after a loss of power; see `leasing`
        self.broken = False

    @contextmanager
    def step(self, now: float, *, counts_matter: bool = True) -> Iterator[None]:
        """All or nothing: what is changed inside becomes durable together at the end, or never if anything raises."""
        if self.broken:
            raise StateError(
                f"a change to {self.store.path} has failed; open the crawl again, what was settled is safe"
            )
        self.broken = True
        yield
        if counts_matter or self.has_changes:
            self._commit(now)
        self.broken = False

    def _commit(self, now: float) -> None:
        for host8, state in self.hosts.moved.items():
            self.agenda.place(host8, state, room=self.has_room(host8), now=now)
        self.hosts.save()
        self.seen.save(self.batch)
        self.batch.put("default", b"ledger", encode(self.ledger))
        self.store.commit(self.batch)
        self.hosts.saved()
        self.queue.trim()
        self.rules_until.trim()
        self.seen.saved(self.batch)

    @property
    def has_changes(self) -> bool:
        """Whether a commit would write more than the counts."""
        return bool(self.hosts.touched) or any(self.batch.changes.values())

    # -- names -------------------------------------------------------------------------------------------------

    def id_of(self, link: Link) -> bytes:
        """What a link's entry, lease and page are known by."""
        text = link.key if link.purpose is Purpose.PAGE else f"robots\0{link.host}\0{link.origin}"
        return self.hosts.named(link.host).dom8 + fp8(text, self.store.secret)

    def next_seq(self) -> int:
        """A number larger than all before it."""
        self.ledger.seq += 1
        return self.ledger.seq

    # -- entries -----------------------------------------------------------------------------------------------

    def entry(self, id16: bytes) -> Entry | None:
        """The record of a URL, wherever it stands."""
        packed = self.batch.get("urls", id16)
        if packed is not None and packed[:1] == WAITS:
            if id16 in self.leased:
                return self.leased[id16]
            packed = self.batch.get("queue", row_of(packed, id16))
            if packed is None:
                raise AssertionError(f"{id16.hex()} waits and is not in the queue")
        return None if packed is None else decode_entry(packed)

    def keep(self, id16: bytes, entry: Entry) -> None:
        """Write the record of a URL that is in no queue."""
        self.batch.changes["urls"][id16] = encode(entry)

    def enter(self, entry: Entry, code: int, reason: Reason | None) -> None:
        """A URL comes into a state."""
        entry.state, entry.reason = code, reason
        rules.count_state(self.counts, STATES[code], reason, 1)

    def leave(self, entry: Entry) -> None:
        """A URL goes out of its state."""
        rules.count_state(self.counts, STATES[entry.state], entry.reason, -1)

    def enqueue_again(self, id16: bytes, entry: Entry) -> None:
        """A URL with a record waits for a visit once more, and may be moved forward again."""
        if not entry.origin:
            self.seen.waits(seen8(id16), RANKS[entry.score][entry.level][0])
        self.enqueue(id16, entry)

    def enqueue(self, id16: bytes, entry: Entry, named: Named | None = None) -> None:
        """A URL waits for its visit; a hop of a robots.txt does not wait on a host that is set aside."""
        host8, state = self.host(entry.host, named)
        if entry.origin and state.aside is not None:
            self.batch.delete("urls", id16)
            return
        entry.state = QUEUED
        if state.aside is None:
            self.counts.queued += 1
        else:
            rules.count_waiting(self.counts, state.aside, 1)
        if entry.origin:
            state.hops += 1
        self.push(id16, entry, host8, state)

    def push(self, id16: bytes, entry: Entry, host8: bytes, state: HostState) -> None:
        """Put a record into the queue of its host, and in its own place where it is."""
        spot = spot24(entry.score, entry.seq, id16)
        row = self.queue.push(host8, state, entry.level, spot, encode(entry))
        self.batch.changes["urls"][id16] = waits_at(row)
        self.hosts.touch(host8, state)

    def wait(self, id16: bytes, entry: Entry, due: float) -> None:
        """A URL waits for a later time."""
        host8, state = self.host(entry.host)
        entry.state = QUEUED
        rules.count_waiting(self.counts, state.aside, 1)
        self.set_due(id16, entry, due)
        state.waiting += 1
        self.hosts.touch(host8, state)
        self.keep(id16, entry)

    def set_due(self, id16: bytes, entry: Entry, due: float | None) -> None:
        """Say when a URL that is not in the queue comes back, or that it does not wait any more."""
        window = self._due_window(entry)
        if entry.due is not None:
            key = _due_key(id16, entry, entry.due)
            self.batch.delete("due", key)
            window.discard(key)
        if due is not None:
            key = _due_key(id16, entry, due)
            self.batch.put("due", key)
            window.push(key)
        entry.due = due

    def _due_window(self, entry: Entry) -> Window:
        return self.retries if entry.state == QUEUED else self.recrawls

    # -- hosts -------------------------------------------------------------------------------------------------

    def host(self, name: str, named: Named | None = None) -> tuple[bytes, HostState]:
        """The state of a host, new if need be."""
        named = named or self.hosts.named(name)
        state = self.hosts.get(named.host8)
        if state is None:
            state = self.hosts.new(name, named)
            self.counts.hosts += 1
        return named.host8, state

    def has_room(self, host8: bytes) -> bool:
        """Whether one more visit of a host may be in flight."""
        flight = self.flights.get(host8, IDLE)
        return flight.visits < self.per_host and not flight.robots

    def set_aside(self, name: str, reason: Reason) -> None:
        """Nothing more is wanted from a host. What waits there is refused from now on, without being touched."""
        host8, state = self.host(name)
        if state.aside is not None:
            return
        rules.count_waiting(self.counts, None, -state.queued())
        rules.count_waiting(self.counts, reason, state.queued() - state.hops)
        state.aside = reason
        self.counts.hosts_aside += 1
        self.hosts.touch(host8, state)

    def take_back(self, host8: bytes, state: HostState) -> None:
        """A host is wanted again, with all that waits there."""
        rules.count_waiting(self.counts, state.aside, state.hops - state.queued())
        rules.count_waiting(self.counts, None, state.queued())
        state.aside = None
        self.counts.hosts_aside -= 1
        self.hosts.touch(host8, state)
        prefix = PARKED + host8
        for parked in self.batch.keys_after("due", prefix, after(prefix), sys.maxsize):
            self.batch.delete("due", parked)
            key = parked[len(prefix) :]
            entry = self.entry(key[-16:])
            if entry is None or entry.due is None or _due_key(key[-16:], entry, entry.due) != key:
                continue  # it was made pending meanwhile
            self.batch.put("due", key)
            self._due_window(entry).push(key)

    # -- leases ------------------------------------------------------------------------------------------------

    def begin(self, id16: bytes, host8: bytes, visit: Visit, entry: Entry | None) -> None:
        """A visit is in flight. Its entry, which has left the queue, stands in the lease."""
        flight = self.flights.get(host8, IDLE)
        robots = visit.link.purpose is Purpose.ROBOTS
        self.flights[host8] = Flight(flight.visits + 1, flight.robots or robots)
        self.leases[id16] = visit
        if entry is not None:
            self.leased[id16] = entry
        numbers = visit.attempt, visit.leased_at, visit.alone, visit.host_pages, visit.host_free
        self.batch.put("leases", id16, encode((*numbers, entry, visit.link if entry is None else None)))
        self.counts.leased += 1
        if visit.alone:
            self.alone = id16

    def end(self, id16: bytes) -> None:
        """A visit is no longer in flight."""
        link = self.leases.pop(id16).link
        self.leased.pop(id16, None)
        host8, state = self.host(link.host)
        flight = self.flights.pop(host8, IDLE)
        if flight.visits > 1:
            self.flights[host8] = Flight(
                flight.visits - 1, flight.robots and link.purpose is not Purpose.ROBOTS
            )
        self.hosts.touch(host8, state)
        self.batch.delete("leases", id16)
        self.counts.leased -= 1
        if self.alone == id16:
            self.alone = b""

    def suspect(self, id16: bytes, suspicion: Suspicion | None) -> None:
        """Remember how often the process died with a visit, or forget it."""
        if suspicion is not None:
            self.suspects[id16] = suspicion
            self.batch.put("suspects", id16, encode(suspicion))
        elif self.suspects.pop(id16, None) is not None:
            self.batch.delete("suspects", id16)

    # -- robots.txt and other shards ---------------------------------------------------------------------------

    def robots(self, origin: str) -> RobotsCopy | None:
        """The copy of an origin's robots.txt."""
        packed = self.batch.get("robots", origin.encode())
        return None if packed is None else decode_robots(packed)

    def robots_until(self, origin: str) -> float:
        """Until when the rules of an origin are known."""
        until = self.rules_until.get(origin)
        if until is None:
            copy = self.robots(origin)
            until = copy.expires if copy is not None else 0.0
            self.rules_until[origin] = until
        return until

    def keep_robots(self, copy: RobotsCopy) -> None:
        """The rules of an origin are here: its host need not wait for them any more.

        Those of another shard's are sent there, and kept: whoever asks for them here again must know how often it has.
        """
        home = urls.host(copy.origin)
        named = self.hosts.named(home)
        self.batch.put("robots", copy.origin.encode(), encode(copy))
        self.rules_until[copy.origin] = copy.expires
        if named.foreign:
            self.send(rules.carry(copy, home))
            return
        state = self.hosts.get(named.host8)
        if state is not None:
            state.held = 0.0
            self.hosts.touch(named.host8, state)

    def forget_ban(self, origin: str) -> None:
        """Where everything was disallowed for want of a robots.txt, it is asked for again."""
        copy = self.robots(origin)
        if copy is not None and copy.access == "none":
            self.batch.delete("robots", origin.encode())
            self.rules_until.pop(origin, None)

    def hold(self, origin: str, until: float) -> None:
        """The pages of an origin wait for its rules."""
        named = self.hosts.named(urls.host(origin))
        state = self.hosts.get(named.host8)
        if state is not None:
            state.held = max(state.held, until)
            self.hosts.touch(named.host8, state)

    def send(self, link: Link) -> None:
        """Keep a link until the shard that owns its host has it."""
        self.batch.put("outbox", number8(self.next_seq()), encode(link))
        self.counts.outbox += 1

    # -- pages -------------------------------------------------------------------------------------------------

    def keep_page(self, id16: bytes, page: Page, links: bytes, *, replaces: bool) -> None:
        """Store a page in the place of an earlier one."""
        if replaces:
            self.drop_page(id16)
        host8, state = self.host(page.host)
        self.batch.put("pages", id16, encode((page, links)))
        rules.count_page(self.counts, state, page, 1)
        self.hosts.touch(host8, state)
        twins.index(self.batch, self.nearby, fp8(page.domain, self.store.secret), id16, page)

    def drop_page(self, id16: bytes) -> None:
        """Forget a page."""
        packed = self.batch.get("pages", id16)
        if packed is None:
            return
        page = decode_stored(packed).page
        host8, state = self.host(page.host)
        self.batch.delete("pages", id16)
        rules.count_page(self.counts, state, page, -1)
        self.hosts.touch(host8, state)
        twins.unindex(self.batch, self.nearby, fp8(page.domain, self.store.secret), id16, page)

    def pages(self) -> Iterator[tuple[bytes, Page]]:
        """Every stored page, with its id."""
        for id16, packed in self.store.scan_all("pages"):
            yield id16, decode_stored(packed).page


def _due_key(id16: bytes, entry: Entry, due: float) -> bytes:
    return (RETRY if entry.state == QUEUED else RECRAWL) + time8(due) + id16

"""One open shard: what its owner holds in memory, and the small steps that keep rows, hosts, queues and counts in agreement.

The owner is exclusive, so what it has read stays true until it changes it. A verb loads what it does not have, then decides
in memory, then writes all that has changed in one batch (`commit`). Rows of URLs and pages are held for one verb only;
hosts, rules and the heads of lists stay, a bounded number of them.
"""

from itertools import islice
from math import inf

from skitter import urls
from skitter.frontier import rules
from skitter.frontier.agenda import Agenda, place_of
from skitter.frontier.bounded import Bounded
from skitter.frontier.held import IDLE, Flight, Lease, Rank, Rules
from skitter.frontier.names import Names
from skitter.frontier.nearby import Nearby
from skitter.frontier.reserve import Reserve
from skitter.frontier.rows import (
    LEASED,
    QUEUED,
    RECRAWL,
    RETRY,
    STATES,
    Batch,
    Compared,
    HostRow,
    Meta,
    Opening,
    PageRow,
    Spot,
    Standing,
    UrlRow,
    standing,
)
from skitter.frontier.rules import Suspicion
from skitter.frontier.window import Window
from skitter.model import Level, Link, Purpose, Reason, RobotsCopy
from skitter.settings import Settings

# Everything in memory is bounded by `frontier.window`, so that a worker with many shards can share it out among them.
# Rows of the queue that are read ahead: few per host and level when many hosts are at work, more when few are.
_READ_AHEAD = (4, 32)
_SEEN = 7  # URLs whose rank is remembered, for each host in the window
_LARGEST_WINDOW = 1024


class Shard:
    """Everything that its owner has open."""

    def __init__(self, opening: Opening, settings: Settings, names: Names, *, by_mail: bool) -> None:
        window = settings.frontier.window
        size = min(window, _LARGEST_WINDOW)
        self.names = names
        self.per_host = settings.politeness.per_host
        self.delay = float(settings.politeness.delay)
        self.ahead = float(settings.cluster.lease_ahead)
        self.by_mail = by_mail  # links of other shards leave no record here
        self.meta: Meta = opening.meta
        self.counts = self.meta.counts
        self.suspects = opening.suspects
        self.capacity = window
        self.window_size = size
        self.hosts: dict[str, HostRow | None] = {}  # None: there is no such host
        self.rules: Bounded[str, Rules] = Bounded(4 * window)
        self.queues: Bounded[tuple[str, int], Window[Spot, UrlRow]] = Bounded(window)
        self.agenda = Agenda(size)
        self.times: dict[str, Window[tuple[float, bytes], str]] = {
            kind: Window((-inf, b""), size) for kind in (RETRY, RECRAWL)
        }
        self.seen: Bounded[bytes, Rank] = Bounded(_SEEN * window)
        self.nearby = Nearby()
        self.compared: Compared = {}  # digests that were last asked for, and who stands for them
        self.leases: dict[bytes, Lease] = {}
        self.flights: dict[str, Flight] = {}
        self.reserve = Reserve()
        self.alone = b""  # the visit that must be the only one in flight
        self.drain = ""  # the host whose suspected visit waits until nothing is in flight
        self.batches = 0  # written so far
        self._begin_unit()

    def _begin_unit(self) -> None:
        self.batch = Batch(self.meta)
        self.letters: list[Link] = []  # for other shards, by mail
        self.rows: dict[bytes, UrlRow | None] = {}
        self.stood: dict[bytes, Standing] = {}
        self.pages: dict[bytes, PageRow | None] = {}
        self.digests: dict[tuple[str, str], PageRow | None] = {}
        self.simhashes: dict[tuple[str, int], PageRow | None] = {}
        self.parked: dict[str, list[UrlRow]] = {}
        self.headless: dict[
            tuple[str, int], HostRow
        ] = {}  # their first link is somewhere behind the head they name
        self.touched: dict[str, HostRow] = {}  # to be written
        self.moved: dict[str, HostRow] = {}  # of these, what may have to stand elsewhere in the agenda

    # -- a unit of work ----------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """Whether a write would write more than the counts."""
        batch = self.batch
        changes = (batch.urls, batch.leases, batch.pages, batch.robots, batch.suspects, batch.outbox)
        return bool(self.touched) or any(changes)

    def follow(self, other: "Shard") -> None:
        """Take the place of another under the same epoch: the engine takes batches in the order of their numbers."""
        self.batches = other.batches
        self.names.known.clear()
        self.names.refused.clear()

    def seal(self, now: float) -> tuple[Batch, list[Link]]:
        """Everything that this verb has changed, and what must be in the mail before it is written."""
        for host in self.moved.values():
            self.place(host, now)
        self.batches += 1
        batch, letters = self.batch, self.letters
        batch.number = self.batches
        batch.hosts = dict(self.touched)
        batch.stood = {id16: self.stood[id16] for id16 in batch.urls if id16 in self.stood}
        for name, host in self.touched.items():  # what was changed lately is forgotten last
            self.hosts.pop(name, None)
            self.hosts[name] = host
        self._begin_unit()
        self._trim()
        return batch, letters

    def _trim(self) -> None:
        if len(self.hosts) > self.capacity:
            for name in list(islice(self.hosts, len(self.hosts) - self.capacity // 2)):
                if name not in self.flights and name not in self.reserve.hosts and name != self.drain:
                    del self.hosts[name]
        if len(self.seen) > self.seen.capacity:  # a link that is known is not loaded: its rank must be here
            self.names.known.clear()
        for kept in (self.rules, self.queues, self.seen, self.names):
            kept.trim()

    # -- rows of URLs ------------------------------------------------------------------------------------------

    def adopt(self, row: UrlRow) -> UrlRow:
        """A row comes into this verb as the engine has it."""
        self.rows[row.id] = row
        stood = standing(row)
        if stood is not None:
            self.stood[row.id] = stood
        return row

    def has_row(self, id16: bytes) -> bool:
        """Whether `row` has an answer without a load."""
        return id16 in self.rows or id16 in self.leases

    def row(self, id16: bytes) -> UrlRow | None:
        """The row of a URL, which was loaded if there is one."""
        lease = self.leases.get(id16)
        return self.rows[id16] if lease is None else lease.row

    def keep(self, row: UrlRow) -> None:
        """A row has changed."""
        self.rows[row.id] = row
        self.batch.urls[row.id] = row

    def drop(self, id16: bytes) -> None:
        """A row is gone."""
        self.rows[id16] = self.batch.urls[id16] = None

    def next_seq(self) -> int:
        """A number larger than all before it."""
        self.meta.seq += 1
        return self.meta.seq

    def enter(self, row: UrlRow, code: int, reason: Reason | None) -> None:
        """A URL comes into a state."""
        row.state, row.reason = code, reason
        rules.count_state(self.counts, STATES[code], reason, 1)

    def leave(self, row: UrlRow) -> None:
        """A URL goes out of its state."""
        rules.count_state(self.counts, STATES[row.state], row.reason, -1)

    # -- waiting -----------------------------------------------------------------------------------------------

    def enqueue(self, row: UrlRow) -> None:
        """A URL waits for its visit; a hop of a robots.txt does not wait on a host that is set aside."""
        host = self.host(row.host)
        if row.origin and host.aside is not None:
            self.drop(row.id)
            return
        row.state = QUEUED
        rules.count_waiting(self.counts, host.aside, 1)
        host.hops += bool(row.origin)
        self.push(host, row)

    def push(self, host: HostRow, row: UrlRow) -> None:
        """Put a row into the queue of its host."""
        spot, level = row.spot(), row.level
        host.levels[level] += 1
        head = host.heads[level]
        if head is None or spot < head:
            host.heads[level] = spot
            self.headless.pop((host.name, level), None)
        window = self.queues.get((host.name, level))
        if window is not None:
            window.push(spot, row)
        if not row.origin:
            self.rank(row)
        self.keep(row)
        self.touch(host)

    def rank(self, row: UrlRow) -> None:
        """A URL waits at its rank. If it waited at a sooner one before, or nothing could move it, links that were no
        better than that may be better than this."""
        old, new = self.seen.get(row.id), (row.level, -row.score)
        if (old is None or old < new) and self.rows.get(row.id) is not None:
            self.names.known.clear()
        self.seen[row.id] = new

    def take(self, host: HostRow, level: int, spot: Spot) -> None:
        """A row leaves the queue of its host. If it was the first, and the second is not in memory, the host is headless."""
        host.levels[level] -= 1
        window = self.queues.get((host.name, level))
        if window is not None:
            window.discard(spot)
        if not host.levels[level]:
            host.heads[level] = None
            self.queues.pop((host.name, level), None)
            self.headless.pop((host.name, level), None)
        elif spot == host.heads[level]:
            first = None if window is None else window.first()
            if first is None:
                self.headless[host.name, level] = host
            else:
                host.heads[level] = first[0]
        self.touch(host)

    def queue(self, host: HostRow, level: int) -> Window[Spot, UrlRow]:
        """The first links of a host's level, from the head on."""
        key = host.name, level
        window = self.queues.get(key)
        if window is None:
            score, seq = host.heads[level] or (-inf, 0)
            least, most = _READ_AHEAD
            size = min(max(self.capacity // (len(self.queues) + 1), least), most)
            window = self.queues[key] = Window((score, seq - 1), size)
        return window

    def wait(self, row: UrlRow, due: float) -> None:
        """A URL waits for a later time."""
        host = self.host(row.host)
        row.state = QUEUED
        rules.count_waiting(self.counts, host.aside, 1)
        self.set_due(row, due)
        host.waiting += 1
        self.touch(host)
        self.rank(row)

    def set_due(self, row: UrlRow, due: float | None) -> None:
        """Say when a URL that is not in the queue comes back, or that it does not wait any more."""
        window = self.times[RETRY if row.state == QUEUED else RECRAWL]
        if row.due is not None and not row.parked:
            window.discard((row.due, row.id))
        row.due, row.parked = due, False
        if due is not None:
            window.push((due, row.id), row.host)
        self.keep(row)

    def park(self, row: UrlRow) -> None:
        """Nobody waits for this time any more, unless its host is taken back."""
        due = row.due
        self.set_due(row, None)
        row.due, row.parked = due, True

    # -- hosts -------------------------------------------------------------------------------------------------

    def host(self, name: str) -> HostRow:
        """A host that was loaded, new if need be."""
        host = self.hosts[name]
        if host is None:
            none: list[Spot | None] = [None] * len(Level)
            host = self.hosts[name] = HostRow(name, self.names.host(name).domain, [0] * len(Level), none)
            self.counts.hosts += 1
            self.touch(host)
        return host

    def touch(self, host: HostRow) -> None:
        """A host has changed."""
        self.touched[host.name] = self.moved[host.name] = host

    def place(self, host: HostRow, now: float) -> None:
        """Put a host where it belongs in the agenda."""
        room = self.has_room(host.name) and host.name not in self.reserve.hosts
        where = place_of(host, now) if room else b""
        if where == host.place:
            return
        if host.place:
            self.batch.placed.setdefault(host.name, host.place)
        self.agenda.move(host.name, host.place, where)
        host.place = where
        self.touched[host.name] = host

    def has_room(self, name: str) -> bool:
        """Whether one more visit of a host may be in flight."""
        flight = self.flights.get(name, IDLE)
        return flight.visits < self.per_host and not flight.robots

    # -- leases ------------------------------------------------------------------------------------------------

    def begin(self, id16: bytes, lease: Lease) -> None:
        """A visit is taken out."""
        row = lease.row
        if row is not None:
            row.state = LEASED
            self.keep(row)
        self.leases[id16] = lease
        self.batch.leases[id16] = lease.visit
        self.counts.leased += 1
        if lease.visit.alone:
            self.alone = id16

    def fly(self, name: str, purpose: Purpose) -> None:
        """A visit is handed out."""
        flight = self.flights.get(name, IDLE)
        self.flights[name] = Flight(flight.visits + 1, flight.robots or purpose is Purpose.ROBOTS)

    def end(self, id16: bytes) -> Lease:
        """A visit is no longer out."""
        lease = self.leases.pop(id16)
        link = lease.visit.link
        host = self.host(link.host)
        if lease.handed:
            flight = self.flights.pop(link.host, IDLE)
            if flight.visits > 1:
                robots = flight.robots and link.purpose is not Purpose.ROBOTS
                self.flights[link.host] = Flight(flight.visits - 1, robots)
            self.reserve.look_at(link.host, 0.0)
        else:
            self.reserve.remove(link.host, id16)
        self.rows[id16] = lease.row
        self.touch(host)
        self.batch.leases[id16] = None
        self.counts.leased -= 1
        if self.alone == id16:
            self.alone = b""
        return lease

    def put_back(self, name: str) -> None:
        """What was taken out ahead of a host, and not handed out, waits in the queue again."""
        for id16 in list(self.reserve.hosts.get(name, ())):
            lease = self.end(id16)
            if lease.row is not None:
                self.enqueue(lease.row)

    def waiting_ahead(self, name: str | None = None) -> int:
        """Links of a host, or of all, that are taken out ahead: to everybody else they wait."""
        reserved = self.reserve.hosts
        hosts = reserved.values() if name is None else [reserved.get(name, ())]
        return sum(self.leases[id16].row is not None for ids in hosts for id16 in ids)

    def suspect(self, id16: bytes, suspicion: Suspicion | None) -> None:
        """Remember how often the process died with a visit, or forget it."""
        if suspicion is not None:
            self.suspects[id16] = self.batch.suspects[id16] = suspicion
        elif self.suspects.pop(id16, None) is not None:
            self.batch.suspects[id16] = None

    # -- robots.txt and other shards ---------------------------------------------------------------------------

    def keep_robots(self, copy: RobotsCopy) -> None:
        """The rules of an origin are here: its host need not wait for them any more. Those of another shard's are sent
        there, and kept: whoever asks for them here again must know how often it has."""
        home = urls.host(copy.origin)
        self.batch.robots[copy.origin] = copy
        self.rules[copy.origin] = Rules(copy.expires, copy.tries, copy.access)
        if self.names.host(home).foreign:
            self.send(rules.carry(copy, home))
            return
        host = self.hosts[home]
        if host is not None:
            host.held = 0.0
            self.touch(host)

    def forget_ban(self, origin: str) -> None:
        """Where everything was disallowed for want of a robots.txt, it is asked for again."""
        if self.rules[origin].access == "none":
            self.put_back(urls.host(origin))
            self.batch.robots[origin] = None
            self.rules[origin] = Rules()

    def send(self, link: Link) -> None:
        """A link is for another shard: it goes by mail before this verb is written, or waits in the outbox."""
        if self.by_mail:
            self.letters.append(link)
            return
        self.batch.outbox[self.next_seq()] = link
        self.counts.outbox += 1

    def statistics(self) -> dict[str, dict[str, float]]:
        """How much is in memory."""
        return {
            "hosts": {"states": len(self.hosts)},
            "queue": {"windows": len(self.queues), "ahead": self.reserve.size, "leases": len(self.leases)},
            "agenda": self.agenda.statistics(),
            "seen": {"items": len(self.seen), "capacity": self.seen.capacity},
            "nearby": self.nearby.statistics(),
        }

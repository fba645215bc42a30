"""One open shard: its state in memory, and the small steps that keep rows, hosts, queues and counts consistent.

The owner is exclusive, so what it has read stays true until it changes it. A verb reads what it needs (`memory`),
decides in memory, and returns all changes as one batch (`seal`). Rows of URLs and pages are kept for one verb only;
hosts, rules and heads of lists stay, a bounded number of them.
"""

from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING

from skitter import urls
from skitter.frontier import counting, robots_first
from skitter.frontier.agenda import Agenda, place_of
from skitter.frontier.budgets import budgets_of
from skitter.frontier.crashes import Suspicion
from skitter.frontier.held import IDLE, Flight, Lease, Rules, rules_of
from skitter.frontier.levels import DUE_AGAIN, OF_PARKED
from skitter.frontier.memory import Memory
from skitter.frontier.names import Names
from skitter.frontier.pages import Nearby
from skitter.frontier.reserve import Reserve
from skitter.frontier.rows import (
    QUEUE,
    QUEUED,
    RECRAWL,
    RETRY,
    STATES,
    Batch,
    Compared,
    HostRow,
    Meta,
    Opening,
    Spot,
    Standing,
    UrlRow,
    new_host,
    order_by_cash,
)
from skitter.frontier.store import Seen, Source
from skitter.model import Level, Link, Purpose, Reason, RobotsCopy
from skitter.runtime.metrics import HostMetrics, Metrics, QueueMetrics, StoreMetrics
from skitter.schedule import FLOWS
from skitter.schedule.hosts import host_order
from skitter.schedule.learning.learned import Learned
from skitter.schedule.learning.parameters import Samples
from skitter.settings import Settings
from skitter.settings.globs import glob
from skitter.settings.sites import Sites, learns, sites_of

if TYPE_CHECKING:
    from skitter.frontier.depths import Depths
    from skitter.frontier.refreshing import Refreshing

_LARGEST_WINDOW = 1024
_LEVELS = len(Level)
_ROBOTS = Purpose.ROBOTS
_NOW_AND_THEN = 16  # writes
_LEARNED_FROM = 32  # visits: what was learned is written after so many, at the latest
_MOST_NEW_RULES = 1_000  # origins remembered; with more, all are judged
ALL_ORIGINS = ""
NEW_RULES = "rules"
ONLY_ASSETS = "only assets"
""""1" among the positions in the store while some robots.txt has changed and its URLs are not all judged by it."""


class Shard(Memory):
    """Everything that the owner of a shard has in memory."""

    __slots__ = (
        "_settings", "_sites", "agenda", "alone", "batches", "budgets", "by_message", "compared", "counts", "damping", "decay", "depths", "drain", "flights", "kept_tallies", "learns", "messages",
        "meta", "names", "near", "nearby", "new_rules", "newcomers", "only_assets", "order", "out", "per_host", "politeness", "refreshing", "reserve", "samples", "seen", "suspects", "to_wake", "unsaved", "unsure_since", "usual_delay", "waited",
    )  # fmt: skip

    def __init__(
        self,
        opening: Opening,
        settings: Settings,
        names: Names,
        source: Source,
        seen: Seen,
        nearby: Nearby,
        *,
        by_message: bool,
    ) -> None:
        window = settings.frontier.window
        size = min(window, _LARGEST_WINDOW)
        super().__init__(source, window, size)
        self.names, self.seen, self.nearby = names, seen, nearby
        self.politeness = settings.politeness
        self.per_host = settings.politeness.per_host
        self.kept_tallies: dict[str, int] = {}  # by tally: visits leased
        self.out: dict[str, int] = {}  # by tally: visits in flight
        self.usual_delay = float(settings.politeness.delay)
        half_life = settings.schedule.half_life
        self.decay = 0.0 if half_life is None else 1 / float(half_life)  # what a score loses in a second
        # Of what a page has received, what it passes on (see `flow`); 0: pages pass nothing on.
        self.damping = settings.schedule.opic_damping if settings.schedule.strategy in FLOWS else 0.0
        self.order = host_order(settings.schedule)
        self._settings, self._sites = settings, sites_of(settings)
        self.budgets = budgets_of(settings, self._sites)
        self.depths: Depths | None = None  # set if some setting limits them
        self.refreshing = _refreshing(settings, self._sites)
        self.by_message = by_message  # links of other shards have no record here
        self.meta: Meta = opening.meta
        self.counts = self.meta.counts
        self.suspects = opening.suspects
        self.unsure_since: float | None = None  # set if opened after a power loss; see `leasing`
        self.agenda = Agenda(size, source, self.touched)
        self.compared: Compared = {}  # the digests looked up last, and the pages that represent them
        self.flights: dict[str, Flight] = {}
        self.reserve = Reserve()
        self.alone = b""  # the visit that must run alone
        self.drain = ""  # the host whose suspected visit waits to run alone
        self.batches = 0  # written so far
        self.learns = learns(settings, "patterns")
        self.near = settings.dedup.near
        # By domain: its new hosts with visits in flight, and until when others wait for what these bring.
        self.newcomers: dict[str, tuple[float, AbstractSet[str]]] = {}
        self.to_wake: list[str] = []  # hosts where what waits aside is to be looked at again
        self.samples = Samples() if learns(settings, "parameters") else None
        self.unsaved: dict[str, int] = {}  # by name: what was learned from so many visits is not written yet
        self.waited = QueueMetrics().wait
        # Origins whose robots.txt has changed, until their URLs are judged by it.
        self.only_assets = False  # nothing else is leased
        self.new_rules: set[str] = {ALL_ORIGINS} if self.meta.positions.get(NEW_RULES) == "1" else set()
        self._begin_unit()

    def delay(self, host: str) -> float:
        """The longest delay that the settings ask for after a request to a host."""
        if self._sites is None:
            return self.usual_delay
        return float(max(self._sites.values_for_host(host, "politeness.delay")))

    def _begin_unit(self) -> None:
        self.batch = Batch(self.meta)
        self.messages: list[Link] = []  # for other shards
        for held in (self.rows, self.stood, self.pages, self.digests, self.simhashes, self.parked):
            held.clear()

    # -- a unit of work ----------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """Whether a write would change more than the counts."""
        batch = self.batch
        changes = (
            batch.urls,
            batch.leases,
            batch.pages,
            batch.robots,
            batch.suspects,
            batch.outbox,
            batch.learned,
        )
        return bool(self.touched) or any(changes)

    def follow(self, other: "Shard") -> None:
        """Replace another instance under the same epoch: the engine takes batches in the order of their numbers."""
        self.batches, self.only_assets, self.depths = other.batches, other.only_assets, other.depths
        if self.depths is not None:
            self.depths.forget()
        self.names.known.forget()
        self.names.refused.forget()

    def seal(self, now: float) -> tuple[Batch, list[Link]]:
        """All changes of this verb, and the messages that must be safe before they are written."""
        if self.order is not None:  # a host may move whenever its queue grows, not only at its head
            self.moved.update(self.touched)
        for host in self.moved.values():
            self.place(host, now)
        self.moved.clear()
        self.batches += 1
        batch, messages = self.batch, self.messages
        batch.number = self.batches
        batch.hosts = dict(self.touched)
        stood = self.stood
        batch.stood = {id16: stood[id16] for id16 in stood if id16 in batch.urls}
        self.meta.clock = max(self.meta.clock, now)
        if len(self.hosts) > self.capacity // 2:  # recently changed rows are dropped last
            for name, host in self.touched.items():
                self.hosts.pop(name, None)
                self.hosts[name] = host
        self.touched.clear()
        self._begin_unit()
        self._trim()
        return batch, messages

    def _trim(self) -> None:
        if len(self.hosts) > self.capacity:
            for name in list(islice(self.hosts, len(self.hosts) - self.capacity // 2)):
                kept = name in self.flights or name in self.reserve.hosts or name in self.kept_tallies
                if not kept and name != self.drain:
                    del self.hosts[name]
        if len(self.learned) > self.learned.capacity:
            self._forget_learned()
        if len(self.rules) > self.rules.capacity:
            self.rules.trim()
        if len(self.queues) > self.queues.capacity:
            self.queues.trim()
        if self.seen.is_full:  # a known link is not looked up: its rank must be remembered
            self.names.known.forget()
            self.seen.trim()
        if not self.batches % _NOW_AND_THEN:
            self.names.trim()
            if self.depths is not None:
                self.depths.trim()

    # -- what is learned ---------------------------------------------------------------------------------------

    def learned_of(self, name: str) -> Learned:
        """What was learned of a host. Whoever changes it says so with `learn`."""
        row = self.learned[name]
        if row is None:
            row = self.learned[name] = Learned(name)
        return row

    def learned_of_both(self, host: HostRow) -> tuple[Learned, Learned]:
        """What was learned of a host, and of its domain."""
        return self.learned_of(host.name), self.learned_of(f"*.{host.domain}")

    def learn_both(self, of_host: Learned, of_all: Learned, *, decided: bool) -> None:
        """Something was learned of a host and of its domain."""
        self.learn(of_host, decided=decided)
        self.learn(of_all, decided=decided)

    def learn(self, row: Learned, *, decided: bool = False) -> None:
        """Something was learned from a visit. It is written with what this verb writes if it has decided something.

        Else it is written after some more visits: a crash may cost a few counts, never a decision.
        """
        visits = self.unsaved.get(row.name, 0) + 1
        if decided or visits >= _LEARNED_FROM:
            self.batch.learned[row.name] = row
            self.unsaved.pop(row.name, None)
        else:
            self.unsaved[row.name] = visits

    def save_learned(self) -> None:
        """Everything learned is written with this verb."""
        self.batch.learned.update((name, self.learned[name]) for name in self.unsaved)
        self.unsaved.clear()

    def _forget_learned(self) -> None:
        """Of what was not written yet, nothing is forgotten: it is written with the next verb."""
        for name in list(islice(self.learned, len(self.learned) - self.learned.capacity // 2)):
            if self.unsaved.pop(name, 0):
                self.batch.learned[name] = self.learned[name]
            elif name not in self.batch.learned:
                del self.learned[name]

    def is_kept(self, url: str, *, by: str = "patterns") -> bool:
        """Whether the settings say that a URL is fetched whatever was learned: by its pattern, or its parameters."""
        settings = self._settings if self._sites is None else self._sites.of(url)
        keep = settings.learning.keep
        return not getattr(settings.learning, by) or (
            bool(keep) and any(glob(one).matches(url[url.find("/", 8) :]) for one in keep)
        )

    # -- rows of URLs ------------------------------------------------------------------------------------------

    def keep(self, row: UrlRow) -> None:
        """A row has changed."""
        self.rows[row.id] = row
        self.batch.urls[row.id] = row

    def drop(self, id16: bytes) -> None:
        """A row is gone."""
        self.rows[id16] = self.batch.urls[id16] = None

    def next_seq(self) -> int:
        """The next sequence number."""
        self.meta.seq += 1
        return self.meta.seq

    def enter(self, row: UrlRow, code: int, reason: Reason | None) -> None:
        """A URL enters a state."""
        row.state, row.reason = code, reason
        counting.count_state(self.counts, STATES[code], reason, 1)

    def leave(self, row: UrlRow) -> None:
        """A URL leaves its state."""
        counting.count_state(self.counts, STATES[row.state], row.reason, -1)

    # -- waiting -----------------------------------------------------------------------------------------------

    def enqueue(self, row: UrlRow) -> None:
        """A URL waits for its visit, except a robots.txt hop on a host that is set aside."""
        host = self.host(row.host)
        if row.origin and host.aside is not None:
            self.drop(row.id)
            return
        row.state = QUEUED
        if self.damping:  # it may have received something while it was elsewhere
            order_by_cash(row)
        counting.count_waiting(self.counts, host.aside, 1)
        host.hops += bool(row.origin)
        if not row.origin and row.level < DUE_AGAIN:
            self.rank(row)
        self.push(host, row)

    def push(self, host: HostRow, row: UrlRow) -> None:
        """Put a row into its queue."""
        spot, queue = (-row.score, row.seq), row.level
        host.levels[queue] += 1
        if queue == OF_PARKED:
            self.counts.parked += 1
        levels, level = self.counts.levels, queue % _LEVELS
        levels[level] = levels.get(level, 0) + 1
        head = host.heads[queue]
        if head is None or spot < head:
            host.heads[queue] = spot
            self.moved[host.name] = host
            if self.headless:
                self.headless.pop((host.name, queue), None)
        window = self.queues.get((host.name, queue))
        if window is not None and (window.complete or spot <= window.horizon):
            window.push(spot, row)
        self.rows[row.id] = self.batch.urls[row.id] = row
        self.touched[host.name] = host

    def rank(self, row: UrlRow) -> None:
        """A URL waits at its rank. If it was sooner before, or done, links that changed nothing may now."""
        was_there = self.rows.get(row.id) is not None
        if self.seen.waits(row.id, row.level % _LEVELS, row.score) and was_there:
            self.names.known.forget()

    def take(self, host: HostRow, queue: int, spot: Spot) -> None:
        """A row leaves its queue. If it was the first, and the second is not in memory, the host is headless."""
        host.levels[queue] -= 1
        if queue == OF_PARKED:
            self.counts.parked -= 1
        levels, level = self.counts.levels, queue % _LEVELS
        levels[level] = levels.get(level, 0) - 1
        window = self.queues.get((host.name, queue))
        if window is not None:
            window.discard(spot)
        if not host.levels[queue]:
            host.heads[queue] = None
            self.queues.pop((host.name, queue), None)
            self.headless.pop((host.name, queue), None)
        elif spot == host.heads[queue]:
            if window is not None and window.keys:
                host.heads[queue] = window.keys[0]
            else:
                self.headless[host.name, queue] = host
        self.touch(host)

    def wait(self, row: UrlRow, due: float) -> None:
        """A URL waits for a later time."""
        host = self.host(row.host)
        row.state = QUEUED
        counting.count_waiting(self.counts, host.aside, 1)
        self.set_due(row, due)
        host.waiting += 1
        self.touch(host)
        self.rank(row)

    def set_due(self, row: UrlRow, due: float | None) -> None:
        """Set when a URL that is not in the queue comes back, or that it no longer waits."""
        window = self.times[RETRY if row.state == QUEUED else RECRAWL]
        if row.due is not None and not row.parked:
            window.discard((row.due, row.id))
        row.due, row.parked = due, False
        if due is not None:
            window.push((due, row.id), row.host)
        self.keep(row)

    def park(self, row: UrlRow) -> None:
        """Its time no longer counts, unless its host is taken back."""
        due = row.due
        self.set_due(row, None)
        row.due, row.parked = due, True

    # -- hosts -------------------------------------------------------------------------------------------------

    def host(self, name: str) -> HostRow:
        """The row of a host, created if it is new."""
        host = self.hosts[name]
        if host is None:
            host = self.hosts[name] = new_host(name, self.names.host(name).domain)
            self.counts.hosts += 1
            self.touch(host)
        return host

    def tallies(self, host: HostRow) -> list[HostRow]:
        """The rows that count what a host uses together with others, created if they are new."""
        if self.budgets is None or not self.budgets.has_tallies:
            return []
        return [self.tally_named(name, host.domain) for name in self.budgets.tallies(host.name, host.domain)]

    def tally_named(self, name: str, domain: str) -> HostRow:
        """One of them."""
        row = self.hosts[name]
        if row is None:
            row = self.hosts[name] = new_host(name, domain)
        return row

    def touch(self, host: HostRow) -> None:
        """A host has changed."""
        self.touched[host.name] = self.moved[host.name] = host

    def place(self, host: HostRow, now: float) -> None:
        """Put a host into its place in the agenda."""
        name = host.name
        busy = (name in self.flights and not self.has_room(name)) or name in self.reserve.hosts
        where = b"" if busy else place_of(host, now, only_assets=self.only_assets, order=self.order)
        before = host.place
        if where == before:
            return
        self.batch.placed.setdefault(name, before)
        self.agenda.move(name, before, where)
        host.place = where
        self.touched[name] = host

    def has_room(self, name: str) -> bool:
        """Whether a host has room for one more visit."""
        flight = self.flights.get(name)
        return flight is None or (flight.visits < self.per_host and not flight.robots)

    # -- leases ------------------------------------------------------------------------------------------------

    def begin(self, id16: bytes, lease: Lease) -> None:
        """A visit is leased."""
        self.leases[id16] = lease
        self.batch.leases[id16] = lease.visit
        if self.budgets is not None and self.budgets.has_tallies:
            self.keep_tally(lease.visit.link.host, 1)
        self.counts.leased += 1
        if lease.visit.alone:
            self.alone = id16

    def fly(self, name: str, purpose: Purpose) -> None:
        """A visit is handed out."""
        before = self.flights.get(name, IDLE)
        robots, others = before.robots, before.others
        if not purpose.handling.counts:
            robots, others = robots or purpose is _ROBOTS, others + 1
        self.flights[name] = Flight(before.visits + 1, robots, others)
        if self.budgets is not None and self.budgets.has_tallies:
            self._bump_tallies(self.out, name, 1)

    def keep_tally(self, name: str, by: int) -> None:
        """What counts for a host and others together stays in memory while a visit is leased."""
        self._bump_tallies(self.kept_tallies, name, by)

    def _bump_tallies(self, counts: dict[str, int], host: str, by: int) -> None:
        if self.budgets is not None:
            for name in self.budgets.tallies(host, self.names.host(host).domain):
                _bump(counts, name, by)

    def end(self, id16: bytes) -> Lease:
        """A visit is no longer in flight. Its row was not written meanwhile, so it is where the store has it."""
        lease = self.leases.pop(id16)
        link = lease.visit.link
        host = self.host(link.host)
        if self.budgets is not None and self.budgets.has_tallies:
            self.keep_tally(link.host, -1)
            if lease.handed:
                self._bump_tallies(self.out, link.host, -1)
        if lease.handed:
            flight = self.flights.pop(link.host, IDLE)
            if flight.visits > 1:
                robots = flight.robots and link.purpose is not _ROBOTS
                others = flight.others - (not link.purpose.handling.counts)
                self.flights[link.host] = Flight(flight.visits - 1, robots, others)
            if self.ahead:
                self.reserve.look_at(link.host, 0.0)
        else:
            self.reserve.remove(link.host, id16)
        row = lease.row
        if row is None:
            self.rows[id16] = None
        elif id16 not in self.batch.urls:  # else this verb has written it, and knows where it was
            self.rows[id16] = row
            self.stood[id16] = Standing(QUEUE, row.host, row.level, -row.score, row.seq)
        self.touch(host)
        self.batch.leases[id16] = None
        self.counts.leased -= 1
        if self.alone == id16:
            self.alone = b""
        return lease

    def put_back(self, name: str) -> None:
        """Visits of a host that were leased ahead and not handed out wait in the queue again."""
        for id16 in list(self.reserve.hosts.get(name, ())):
            lease = self.end(id16)
            if lease.row is not None:
                self.enqueue(lease.row)

    def waiting_ahead(self, name: str | None = None) -> int:
        """Links of a host, or of all, that are leased ahead: others see them as waiting."""
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
        """The rules of an origin have arrived: its host no longer waits for them.

        Those of another shard's origin are sent there, and also kept: the next request for them here must know how
        many were made before.
        """
        home = urls.host(copy.origin)
        self.batch.robots[copy.origin] = copy
        self.rules[copy.origin] = rules_of(copy)
        if self.names.host(home).foreign:
            self.send(robots_first.carry(copy, home))
            return
        if copy.changed:
            self.new_rules.add(copy.origin if len(self.new_rules) < _MOST_NEW_RULES else ALL_ORIGINS)
            self.meta.positions[NEW_RULES] = "1"
        host = self.hosts[home]
        if host is not None:
            host.held = 0.0
            self.touch(host)

    def judge_all_again(self) -> None:
        """Something learned was wrong: what it refused is judged again, like that of a changed robots.txt."""
        self.new_rules.add(ALL_ORIGINS)
        self.meta.positions[NEW_RULES] = "1"

    def id_of_key(self, host: str, key: str) -> bytes:
        """The id that a page of a host would have under a key."""
        names = self.names
        return names.host(host).prefix + names.hash_key(key.encode("utf-8", "surrogatepass"), names.secret)

    def forget_ban(self, origin: str) -> None:
        """If everything was disallowed for lack of a robots.txt, request it again."""
        if self.rules[origin].access == "none":
            self.put_back(urls.host(origin))
            self.batch.robots[origin] = None
            self.rules[origin] = Rules()

    def send(self, link: Link) -> None:
        """A link for another shard: a message is safe before this verb is written, or it waits in the outbox."""
        if self.by_message:
            self.messages.append(link)
            return
        self.batch.outbox[self.next_seq()] = link
        self.counts.outbox += 1

    def metrics(self, store: StoreMetrics) -> Metrics:
        """How much is in memory; `store` has its own numbers."""
        return Metrics(
            hosts=HostMetrics(len(self.hosts), len(self.flights)),
            queue=QueueMetrics(len(self.queues), self.reserve.size, len(self.leases), self.waited),
            agenda=self.agenda.metrics(),
            seen=self.seen.metrics(),
            same=self.names.metrics(),
            nearby=self.nearby.metrics(),
            store=store,
        )


def _refreshing(settings: Settings, sites: Sites | None) -> "Refreshing | None":
    """Pages that are fetched again; None if there are none, so that nobody has to ask."""
    if settings.schedule.recrawl == "off" and (sites is None or not sites.sets("schedule.recrawl")):
        return None
    from skitter.frontier.refreshing import Refreshing  # noqa: PLC0415  most crawls need none of it

    return Refreshing(settings, sites)


def _bump(counts: dict[str, int], name: str, by: int) -> None:
    value = counts.get(name, 0) + by
    if value > 0:
        counts[name] = value
    else:
        counts.pop(name, None)

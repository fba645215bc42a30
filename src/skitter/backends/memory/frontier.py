"""The frontier in plain Python: the reference that other back ends are compared with, and what small tests run on.

Everything that a kill must not lose lives in a `MemoryStore`; a frontier is the owner of one. Dropping the frontier and
opening another one on the same store is what `kill -9` and a restart are for a store on disk. Nothing here is tuned:
where a clear loop over all hosts does, it is a loop over all hosts.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from skitter import urls
from skitter.backends.memory.ledger import MemoryLedger
from skitter.backends.memory.store import Entry, Host, MemoryStore, Name, name_of
from skitter.frontier import rules
from skitter.model import (
    Level,
    Link,
    Purpose,
    Reason,
    Settlement,
    State,
    Visit,
)
from skitter.ports import Mark, Opened


class MemoryFrontier(MemoryLedger):
    """`skitter.ports.Frontier` without a disk."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        shard: int = 0,
        shards: int = 1,
        per_host: int = 1,
        delay: float = 1.0,
    ) -> None:
        super().__init__(store or MemoryStore(), shard, shards)
        self._per_host, self._delay = per_host, delay
        self._turn = 0
        self._drain = ""  # the host whose suspected visit waits until nothing is in flight
        self._clock = 0.0

    # -- the shard's life --------------------------------------------------------------------------------------

    async def open(self, now: float) -> Opened:
        """Recover what the last owner left open."""
        lost: list[Visit] = []
        aside: list[Visit] = []
        self._clock = now
        for name, visit in list(self.store.leases.items()):
            host = self._host(visit.link.host)
            host.free_at = max(host.free_at, now + max(host.delay, self._delay))
            in_hand = self.store.hand == name
            self.store.counts.lost += 1
            given_up = self._recover(name, visit, in_hand=in_hand, now=now)
            (aside if given_up else lost).append(visit)
        self.store.hand = None
        return Opened(lost, aside, self.store.mark)

    def _recover(self, name: Name, visit: Visit, *, in_hand: bool, now: float) -> bool:
        crashes, hands = self.store.suspects.get(name, (0, 0))
        crashes, hands = crashes + 1, hands + in_hand
        self.store.suspects[name] = crashes, hands
        self._end(name)
        reason = rules.crash_reason(crashes, hands)
        if reason is not None and visit.link.purpose is Purpose.ROBOTS:
            self.store.entries.pop(name, None)
            self._keep_robots(rules.unreachable(visit.link.origin, reason.detail, now))
        elif name in self.store.entries:
            entry = self.store.entries[name]
            entry.attempts, entry.crashes = visit.attempt, entry.crashes + 1
            if reason is not None:
                self._enter(entry, State.FAILED, reason)
            else:
                self._enqueue(entry)
        return reason is not None

    async def close(self, now: float = 0.0) -> None:
        """Put open visits back, without a mark against them. Their requests may have been made all the same."""
        for name, visit in list(self.store.leases.items()):
            host = self._host(visit.link.host)
            host.free_at = max(host.free_at, max(now, self._clock) + max(host.delay, self._delay))
            self._end(name)
            if name in self.store.entries:
                self._enqueue(self.store.entries[name])
        self.store.hand = None

    async def sync(self) -> None:
        """There is no power to lose."""

    def in_hand(self, visit: Visit | None) -> None:
        """Remember the visit whose bytes are being worked on."""
        self.store.hand = None if visit is None else name_of(visit.link)

    # -- links in ----------------------------------------------------------------------------------------------

    async def add(self, links: Sequence[Link], refused: Sequence[tuple[Link, Reason]], now: float) -> int:
        """Accept links, once each."""
        new = sum([self._add(link, now) for link in links])
        for link, reason in refused:
            self._refuse(link, reason, now)
        return new

    def _add(self, link: Link, now: float) -> bool:
        if link.purpose is Purpose.ROBOTS:
            self._add_robots(link, now)
            return False
        name, counts = name_of(link), self.store.counts
        entry, foreign = self.store.entries.get(name), self._is_foreign(link.host)
        named = rules.names_seed(link) and not foreign
        if named:
            self._take_back_named(link)
        known = entry is not None and not self._may_enter(entry, link, named=named)
        if foreign and not known and name not in self.store.foreign:
            if entry is not None:
                self._leave(self.store.entries.pop(name))
            self.store.foreign[name] = link
            self._send(link)
            return False
        counts.seen += 1
        if known or name in self.store.foreign:
            counts.known += 1
            if entry is not None:
                self._move_forward(name, entry, link)
            return False
        if named and entry is not None:
            self._forget_ban(urls.origin(link.url))
        return self._accept(name, entry, link, now)

    def _accept(self, name: Name, known: Entry | None, link: Link, now: float) -> bool:
        """True for a URL that was never accepted before, and is now."""
        aside = self._host(link.host).aside
        new = self.store.entries[name] = Entry(link, State.QUEUED, first_seen=now)
        if aside is not None:
            self._enter(new, State.REFUSED, aside)
            return False
        if known is not None:
            self._leave(known)
            new.first_seen, new.status, new.crashes = known.first_seen, known.status, known.crashes
            new.crawl_count, new.last_crawl = known.crawl_count, known.last_crawl
        new.seq = self._next_seq()
        self._enqueue(new)
        accepted = known is None or not known.seq
        self.store.counts.added += accepted
        return accepted

    def _refuse(self, link: Link, reason: Reason, now: float) -> None:
        name = name_of(link)
        self.store.counts.seen += 1
        if name in self.store.entries or name in self.store.foreign:
            self.store.counts.known += 1
        else:
            self.store.entries[name] = Entry(link, State.QUEUED, first_seen=now)
            self._enter(self.store.entries[name], State.REFUSED, reason)

    def _move_forward(self, name: Name, entry: Entry, link: Link) -> None:
        old = entry.link
        if entry.state is not State.QUEUED or name in self.store.leases:
            return
        if not rules.better(link.level, link.score, old.level, old.score):
            return
        queue = self.store.hosts[old.host].queue
        spot = entry.spot()
        entry.link = replace(old, level=link.level, score=link.score)
        if link.depth < old.depth:
            entry.link = replace(entry.link, depth=link.depth, parent=link.parent)
        if entry.due is None:
            queue[old.level].remove(spot)
            insort(queue[link.level], entry.spot())

    def _add_robots(self, link: Link, now: float) -> None:
        """A hop of a robots.txt, or a copy of one, that another shard sends."""
        copy = rules.carried(link)
        if copy is not None:
            self._keep_robots(copy)
        else:
            self._queue_hop(link, now)

    # -- visits out --------------------------------------------------------------------------------------------

    async def lease(self, limit: int, now: float) -> list[Visit]:
        """Hand out what may be visited now."""
        for entry in sorted(self._due(now), key=lambda entry: (entry.due, entry.seq)):
            if entry.state is State.CRAWLED:
                self._leave(entry)
            else:
                self.store.hosts[entry.link.host].waiting -= 1
                self.store.counts.queued -= 1
            self._set_due(entry, None)
            self._enqueue(entry)
        visits: list[Visit] = []
        while len(visits) < limit and (visit := self._pick(now)) is not None:
            visits.append(visit)
        return visits

    def _due(self, now: float) -> Iterator[Entry]:
        for entry in map(self.store.entries.__getitem__, list(self.store.due)):
            if entry.due is not None and entry.due <= now and self._aside(entry) is None:
                yield entry

    def _pick(self, now: float) -> Visit | None:
        """The next visit, durable: the host by level and score, its link by level and score, its robots.txt first."""
        leases = self.store.leases
        if any(visit.alone for visit in leases.values()):
            return None
        free = {host.name: host for host in self.store.hosts.values() if self._has_work(host, now)}
        drained = self._drain in free
        self._drain = self._drain if drained else ""
        if not free or (drained and leases):
            return None
        turn, host = (self._turn, free[self._drain]) if drained else self._draw_host(list(free.values()))
        level, host_turn = self._draw_level(host)
        entry = self.store.entries[host.queue[level][0][2]]
        link = self._robots_first(entry.link, now)
        suspect = rules.suspected(*self.store.suspects.get(name_of(link), (0, 0)))
        if suspect and leases:
            self._drain = host.name
            return None
        self._drain, self._turn = "", turn
        if link is entry.link:
            del host.queue[level][0]
            host.turn = host_turn
            host.hops -= link.purpose is Purpose.ROBOTS
            self.store.counts.queued -= 1
        visit = Visit(link, self._attempt(link), now, suspect, host.pages + host.in_flight, host.free_at)
        if self._per_host > 1:  # the answer is not awaited, so the clock runs from the request
            host.free_at = max(host.free_at, now + host.delay)
        self._begin(visit)
        return visit

    def _has_work(self, host: Host, now: float) -> bool:
        return host.ready_at() <= now and self._could_work(host)

    def _could_work(self, host: Host) -> bool:
        room = host.in_flight < self._per_host and not host.robots_in_flight
        return room and host.aside is None and any(host.queue)

    def _draw_level(self, host: Host) -> tuple[int, int]:
        if host.hops:  # a robots.txt comes before any page, and so do its hops
            return Level.CRITICAL, host.turn
        return rules.DRAW[sum(bool(queue) << level for level, queue in enumerate(host.queue))][host.turn]

    def _draw_host(self, hosts: list[Host]) -> tuple[int, Host]:
        heads = {host.name: self._draw_level(host)[0] for host in hosts}
        level, turn = rules.DRAW[sum(1 << level for level in set(heads.values()))][self._turn]
        at_level = [host for host in hosts if heads[host.name] == level]
        return turn, min(at_level, key=lambda host: host.queue[level][0])

    def _robots_first(self, link: Link, now: float) -> Link:
        if link.purpose is Purpose.ROBOTS:
            return link
        origin = urls.origin(link.url)
        copy = self.store.robots.get(origin)
        return link if copy is not None and copy.expires > now else rules.robots_link(origin, link.host, link)

    def _attempt(self, link: Link) -> int:
        name = name_of(link)
        if link.purpose is Purpose.PAGE:
            return self.store.entries[name].attempts + 1
        copy = self.store.robots.get(link.origin)
        return 1 + (copy.tries if copy else 0) + self.store.suspects.get(name, (0, 0))[0]

    async def next_due(self, now: float) -> float | None:
        """The earliest host clock or retry."""
        leases = self.store.leases.values()
        drain = self.store.hosts.get(self._drain)
        if any(visit.alone for visit in leases) or (leases and drain and self._has_work(drain, now)):
            return None
        times = [now for _ in self._due(now)]
        waiting = [self.store.entries[name] for name in self.store.due]
        times += [
            max(now, entry.due)
            for entry in waiting
            if entry.due is not None and entry.state is State.QUEUED and self._aside(entry) is None
        ]
        times += [max(now, host.ready_at()) for host in self.store.hosts.values() if self._could_work(host)]
        return min(times, default=None)

    # -- visits back -------------------------------------------------------------------------------------------

    async def settle(self, settlements: Sequence[Settlement], mark: Mark, now: float) -> list[bool]:
        """Close visits with all that came of them."""
        self.store.counts.elapsed += max(0.0, now - self._clock)
        self._clock = max(now, self._clock)
        self.store.mark = mark
        return [self._settle(settlement, now) for settlement in settlements]

    def _settle(self, settlement: Settlement, now: float) -> bool:
        visit, verdict = settlement.visit, settlement.verdict
        name = name_of(visit.link)
        if not rules.same_lease(self.store.leases.get(name), visit):
            return False
        host = self._host(visit.link.host)
        for link in settlement.links:
            self._add(link, now)
        for link, reason in settlement.refused:
            self._refuse(link, reason, now)
        self._end(name)
        self.store.suspects.pop(name, None)
        rules.count_answer(self.store.counts, host, settlement)
        if verdict.host_free is not None:
            host.free_at = max(host.free_at, verdict.host_free)
        if verdict.host_delay is not None:
            host.delay = verdict.host_delay
        if visit.link.purpose is Purpose.ROBOTS:
            self._settle_robots(settlement, now)
        else:
            if verdict.host_aside is not None:
                self._set_aside(host, verdict.host_aside)
            self._settle_page(self.store.entries[name], settlement, now)
        return True

    def _settle_page(self, entry: Entry, settlement: Settlement, now: float) -> None:
        verdict, page, again = settlement.verdict, settlement.page, settlement.again
        name = name_of(entry.link)
        entry.status = settlement.status or (page.status if page else entry.status)
        entry.attempts = settlement.visit.attempt - (not verdict.attempted)
        if page is not None:
            self._keep_page(name, page)
            targets = chain(settlement.links, (link for link, _ in settlement.refused))
            self.store.links[name] = list(dict.fromkeys(map(name_of, targets)))
        entry.reason = verdict.reason
        if again is not None:
            entry.link = replace(
                entry.link, url=again.url, host=again.host, requested=again.requested, hops=again.hops
            )
            entry.attempts = 0  # a redirect is an answer
            self._enqueue(entry)
        elif verdict.state is State.QUEUED and verdict.due is not None:
            self._wait(entry, verdict.due)
        elif verdict.state is State.QUEUED:
            self._enqueue(entry)
        else:
            if verdict.state is State.CRAWLED:
                entry.attempts, entry.crawl_count, entry.last_crawl = 0, entry.crawl_count + 1, now
                self._set_due(entry, verdict.due)
            self._enter(entry, verdict.state, verdict.reason)

    def _settle_robots(self, settlement: Settlement, now: float) -> None:
        link, verdict = settlement.visit.link, settlement.verdict
        self.store.entries.pop(name_of(link), None)
        foreign = self._is_foreign(urls.host(link.origin))
        if verdict.host_aside is not None and not foreign:
            self._set_aside(self._host(urls.host(link.origin)), verdict.host_aside)
        if settlement.robots is not None:
            self._keep_robots(settlement.robots)
            return
        home = self.store.hosts.get(urls.host(link.origin))
        if home is not None:
            home.held = max(home.held, verdict.due or now + rules.HOP_PATIENCE)
        if settlement.again is not None:
            hop = replace(settlement.again, purpose=Purpose.ROBOTS, origin=link.origin)
            if self._is_foreign(hop.host):
                self._send(hop)
            else:
                self._queue_hop(hop, now)
        elif verdict.host_aside is not None and foreign:
            self._keep_robots(rules.unreachable(link.origin, verdict.host_aside.detail, now))

    def _queue_hop(self, hop: Link, now: float) -> None:
        name, host = name_of(hop), self._host(hop.host)
        if host.aside is not None:
            problem = f"robots.txt is at {hop.url}, and {host.name} is set aside: {host.aside.detail}"
            self._keep_robots(rules.unreachable(hop.origin, problem, now))
            return
        if name in self.store.entries or name in self.store.leases:
            return
        hop = replace(hop, level=Level.CRITICAL, score=rules.BEFORE_ALL)
        entry = Entry(hop, State.QUEUED, seq=self._next_seq(), first_seen=now)
        self.store.entries[name] = entry
        self._enqueue(entry)

    async def reopen(self, mark: Mark, now: float) -> int:  # noqa: ARG002  nothing here depends on the time
        """Pages that the archive has lost are pending again."""
        gone = [name for name, page in self.store.pages.items() if rules.behind(page.archive, mark)]
        for name in gone:
            self._drop_page(name)
            entry = self.store.entries[name]
            if entry.state is not State.QUEUED:
                self._leave(entry)
                entry.reason = None
                self._set_due(entry, None)
                self._enqueue(entry)
        self.store.mark = mark
        return len(gone)

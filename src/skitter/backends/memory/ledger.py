"""The bookkeeping under the verbs of the frontier in memory: every change of state passes through one of these steps."""

from bisect import insort
from collections.abc import Sequence

from msgspec.structs import replace

from skitter import urls
from skitter.backends.memory.reading import MemoryReader
from skitter.backends.memory.store import Entry, Host, MemoryStore, Name, name_of
from skitter.frontier import rules
from skitter.model import Link, Page, Purpose, Reason, RobotsCopy, State, Visit


class MemoryLedger(MemoryReader):
    """Steps that keep entries, hosts and counts in agreement."""

    def __init__(self, store: MemoryStore, shard: int, shards: int) -> None:
        super().__init__(store)
        self._shard, self._shards = shard, shards

    # -- pages -------------------------------------------------------------------------------------------------

    def _keep_page(self, name: Name, page: Page) -> None:
        self._drop_page(name)
        self.store.pages[name] = replace(page, text="")
        rules.count_page(self.store.counts, self._host(page.host), page, 1)
        by_digest, by_simhash = rules.indexed(page)
        if by_digest:
            self.store.digests.setdefault((page.domain, page.digest), name)
        if by_simhash and page.simhash is not None:
            self.store.simhashes.setdefault(page.domain, {}).setdefault(page.simhash, name)

    def _drop_page(self, name: Name) -> None:
        page = self.store.pages.pop(name, None)
        self.store.links.pop(name, None)
        if page is None:
            return
        rules.count_page(self.store.counts, self._host(page.host), page, -1)
        if self.store.digests.get((page.domain, page.digest)) == name:
            del self.store.digests[page.domain, page.digest]
        near = self.store.simhashes.get(page.domain, {})
        if page.simhash is not None and near.get(page.simhash) == name:
            del near[page.simhash]

    # -- links for other shards --------------------------------------------------------------------------------

    async def outbox(self, limit: int, after: int = 0) -> list[tuple[int, Link]]:
        """The oldest links that wait to be forwarded."""
        waiting = ((number, link) for number, link in self.store.outbox.items() if number > after)
        return sorted(waiting, key=lambda item: item[0])[:limit]

    async def forwarded(self, ids: Sequence[int]) -> None:
        """Forget what its owner has."""
        for number in ids:
            self.store.counts.outbox -= self.store.outbox.pop(number, None) is not None

    def _send(self, link: Link) -> None:
        self.store.outbox[self._next_seq()] = link
        self.store.counts.outbox += 1

    def _is_foreign(self, host: str) -> bool:
        return self._shards > 1 and urls.shard(urls.registrable_domain(host), self._shards) != self._shard

    def _keep_robots(self, copy: RobotsCopy) -> None:
        """The rules of an origin are here: its host need not wait for them any more.

        Those of another shard's are sent there, and kept: whoever asks for them here again must know how often it has.
        """
        home = urls.host(copy.origin)
        self.store.robots[copy.origin] = copy
        if self._is_foreign(home):
            self._send(rules.carry(copy, home))
            return
        if home in self.store.hosts:
            self.store.hosts[home].held = 0.0

    def _set_aside(self, host: Host, reason: Reason) -> None:
        if host.aside is not None:
            return
        rules.count_waiting(self.store.counts, None, -host.queued())
        rules.count_waiting(self.store.counts, reason, host.queued() - host.hops)
        host.aside = reason
        self.store.counts.hosts_aside += 1

    def _take_back(self, host: Host) -> None:
        rules.count_waiting(self.store.counts, host.aside, host.hops - host.queued())
        rules.count_waiting(self.store.counts, None, host.queued())
        host.aside = None
        self.store.counts.hosts_aside -= 1

    def _forget_ban(self, origin: str) -> None:
        """Where everything was disallowed for want of a robots.txt, it is asked for again."""
        copy = self.store.robots.get(origin)
        if copy is not None and copy.access == "none":
            del self.store.robots[origin]

    def _take_back_named(self, seed: Link) -> None:
        host = self.store.hosts.get(seed.host)
        if host is not None and rules.passing(host.aside):
            self._take_back(host)
            self._forget_ban(urls.origin(seed.url))

    def _may_enter(self, entry: Entry, link: Link, *, named: bool) -> bool:
        host = self.store.hosts.get(link.host)
        if host is not None and host.aside is not None:
            return False
        return rules.may_enter(entry.state, visited=entry.seq > 0, named=named)

    # -- small steps -------------------------------------------------------------------------------------------

    def _next_seq(self) -> int:
        self.store.seq += 1
        return self.store.seq

    def _host(self, name: str) -> Host:
        if name not in self.store.hosts:
            self.store.hosts[name] = Host(name)
            self.store.counts.hosts += 1
        return self.store.hosts[name]

    def _begin(self, visit: Visit) -> None:
        host = self._host(visit.link.host)
        host.in_flight += 1
        host.robots_in_flight |= visit.link.purpose is Purpose.ROBOTS
        self.store.leases[name_of(visit.link)] = visit
        self.store.counts.leased += 1

    def _end(self, name: Name) -> None:
        link = self.store.leases.pop(name).link
        host = self._host(link.host)
        host.in_flight -= 1
        host.robots_in_flight &= link.purpose is not Purpose.ROBOTS
        self.store.counts.leased -= 1

    def _enter(self, entry: Entry, state: State, reason: Reason | None) -> None:
        entry.state, entry.reason = state, reason
        rules.count_state(self.store.counts, state, reason, 1)

    def _leave(self, entry: Entry) -> None:
        rules.count_state(self.store.counts, entry.state, entry.reason, -1)

    def _enqueue(self, entry: Entry) -> None:
        host, robots = self._host(entry.link.host), entry.link.purpose is Purpose.ROBOTS
        if robots and host.aside is not None:
            del self.store.entries[name_of(entry.link)]
            return
        entry.state = State.QUEUED
        rules.count_waiting(self.store.counts, host.aside, 1)
        insort(host.queue[entry.link.level], entry.spot())
        host.hops += robots

    def _wait(self, entry: Entry, due: float) -> None:
        host = self._host(entry.link.host)
        entry.state = State.QUEUED
        rules.count_waiting(self.store.counts, host.aside, 1)
        self._set_due(entry, due)
        host.waiting += 1

    def _set_due(self, entry: Entry, due: float | None) -> None:
        entry.due = due
        name = name_of(entry.link)
        if due is None:
            self.store.due.discard(name)
        else:
            self.store.due.add(name)

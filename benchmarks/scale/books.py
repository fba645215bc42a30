"""Independent bookkeeping of the model: what must hold for the crawl, without asking the crawler.

It knows every host's delay from the population, so a request that comes too soon is caught here. It counts
waiting pages, so that the frontier's counts can be checked. And it predicts: at any moment the crawl can make
as many requests per second as the machine allows, or as the hosts with work allow, each one per (delay +
response time), whichever is less.
"""

import heapq
from array import array
from dataclasses import dataclass

import numpy as np

from benchmarks.scale.population import Population

ROUNDING = 1e-6  # seconds: the clock shows seconds since the epoch in floating point


@dataclass(frozen=True)
class Census:
    """The hosts at one moment."""

    known: int
    working: int  # with something to fetch, or being fetched from
    ready: int  # of these, those that could be visited now
    waiting: int  # pages, due or not


class Books:
    """One entry per host, by number."""

    def __init__(self, population: Population, capacity: float, start: float) -> None:
        hosts = population.count
        self._owed = array("d", map(population.owed, range(hosts)))
        self._pace = array("d", (1 / population.cycle(host) for host in range(hosts)))
        self._first = array("l", [0, *np.cumsum(population.sizes).tolist()])
        self._found = bytearray(self._first[-1])  # pages that were linked to
        self._waiting = array("l", bytes(8 * hosts))  # pages that could be fetched
        self._later = array("l", bytes(8 * hosts))  # pages that wait for a time
        self._flight = bytearray(hosts)
        self._free = array("d", bytes(8 * hosts))  # when the host may be visited
        self._rests = array("d", bytes(8 * hosts))  # until when there is nothing to do for another reason
        self._aside = bytearray(hosts)
        self._works = bytearray(hosts)
        self._timers: list[tuple[float, int, bool]] = []  # when, whose, whether a page comes back
        self._capacity, self._start, self._at = capacity, start, start
        self._allowed = 0.0  # requests per second that the hosts with work allow
        self.predicted = 0.0  # requests
        self.requests = 0
        self.too_soon = 0  # requests that came too soon: must stay 0
        self.least_spare = float("inf")  # the smallest margin beyond a host's delay

    # -- requests ----------------------------------------------------------------------------------------------

    def asked(self, host: int, now: float) -> None:
        """A request is sent to a host."""
        spare = now - self._free[host]
        if spare < -ROUNDING:
            self.too_soon += 1
        if self._free[host]:
            self.least_spare = min(self.least_spare, spare)
        self.requests += 1
        self._free[host] = float("inf")  # a visit before the answer is too soon

    def answered(self, host: int, now: float, asks_for: float = 0.0) -> None:
        """The answer has come, or will not come any more."""
        self._free[host] = now + max(self._owed[host], asks_for)
        if asks_for > self._owed[host]:
            self.rest(host, self._free[host])

    def unsent(self, host: int) -> None:
        """Nothing could be sent: the host was not visited."""
        self.requests -= 1
        self._free[host] = 0.0

    # -- pages -------------------------------------------------------------------------------------------------

    def found(self, host: int, page: int) -> None:
        """A page is linked to."""
        place = self._first[host] + page
        if not self._found[place]:
            self._found[place] = 1
            self._waiting[host] += 1
            self._look(host)

    def leased(self, host: int, *, page: bool) -> None:
        self._flight[host] = 1
        self._waiting[host] -= page
        self._look(host)

    def settled(self, host: int, again: float | None, *, aside: bool) -> None:
        """A visit is over; its page may come back later."""
        self._flight[host] = 0
        self._aside[host] |= aside
        if again is not None:
            self._later[host] += 1
            heapq.heappush(self._timers, (again, host, True))
        self._look(host)

    def rest(self, host: int, until: float) -> None:
        """There is nothing to do at a host for a while."""
        self._rests[host] = max(self._rests[host], until)
        heapq.heappush(self._timers, (until, host, False))

    # -- time --------------------------------------------------------------------------------------------------

    def pass_to(self, now: float) -> None:
        """Advance time; postponed pages may come back on the way."""
        while self._timers and self._timers[0][0] <= now:
            when, host, page = heapq.heappop(self._timers)
            self._go_to(max(when, self._at))
            if page:
                self._later[host] -= 1
                self._waiting[host] += 1
            self._look(host)
        self._go_to(now)

    def _go_to(self, now: float) -> None:
        self.predicted += min(self._capacity, self._allowed) * (now - self._at)
        self._at = now

    def _look(self, host: int) -> None:
        """Update whether there is something to do at a host."""
        able = not self._aside[host] and self._rests[host] <= self._at
        works = able and (self._flight[host] or self._waiting[host] > 0)
        if works != self._works[host]:
            self._works[host] = works
            self._allowed += self._pace[host] if works else -self._pace[host]

    def cycle(self) -> float:
        """Seconds per request of a host, over all hosts."""
        return len(self._pace) / sum(self._pace)

    def census(self) -> Census:
        wanted = np.frombuffer(self._aside, np.uint8) == 0
        free = np.frombuffer(self._free) <= self._at
        waiting = np.frombuffer(self._waiting, np.int64)
        ready = wanted & free & (waiting > 0) & (np.frombuffer(self._rests) <= self._at)
        first = np.frombuffer(self._first, np.int64)[:-1]
        return Census(
            known=int(np.frombuffer(self._found, np.uint8)[first].sum()),
            working=int(np.frombuffer(self._works, np.uint8).sum()),
            ready=int((ready & (np.frombuffer(self._flight, np.uint8) == 0)).sum()),
            waiting=int((waiting + np.frombuffer(self._later, np.int64))[wanted].sum()),
        )

"""A round: one question to every worker, and all the answers as one snapshot of the crawl."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from skitter.crawl.done import Activity, Snapshot
from skitter.crawl.limits import Share, share_out
from skitter.events import Events, Warned
from skitter.fleet.carrier import Carrier
from skitter.fleet.messages import Ask
from skitter.fleet.processes import WorkerProcess
from skitter.fleet.seeding import Seeding
from skitter.settings import CrawlSettings


class Rounds:
    """Asks all workers for their state, and tells each how many pages it may store."""

    def __init__(
        self, workers: Sequence[WorkerProcess], carrier: Carrier, limits: CrawlSettings, events: Events
    ) -> None:
        self._workers = workers
        self._carrier = carrier
        self.limits = limits
        self._events = events
        self._number = 0
        self._allowed: Mapping[int, int] = {}  # pages, by worker
        self._answered = asyncio.Event()
        self.completing = False  # there are enough pages: only what they need is fetched now

    def answered(self) -> None:
        """A worker has answered, or is gone."""
        self._answered.set()

    async def ask(self, seeding: Seeding) -> Snapshot | None:
        """Ask all workers. None if one is not there to answer; one that does not answer is killed."""
        workers = [worker for worker in self._workers if worker.ended is None]
        if not workers or not all(worker.ready for worker in workers):
            return None
        self._number += 1
        limit = self.limits.max_pages
        for worker in workers:
            allowed = None if limit is None else self._allowed.get(worker.number, 0)
            worker.say(Ask(self._number, allowed, self.completing))
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.worker_patience):
                while any(worker.ready and not self._has_answered(worker) for worker in workers):
                    self._answered.clear()
                    await self._answered.wait()
        for worker in workers:
            if worker.ready and not self._has_answered(worker):
                self._end(worker)
        if not all(worker.ready and self._has_answered(worker) for worker in workers):
            return None
        if limit is not None:
            self._allowed = share_out(limit, _shares(limit, workers))
        parts = {
            worker.number: Activity(account.counts, account.idle, account.in_flight, account.hopeless)
            for worker in workers
            if (account := worker.account) is not None
        }
        sent, accepted = self._carrier.sent, self._carrier.accepted
        return Snapshot(parts, sent - accepted, accepted, seeding.state)

    def _has_answered(self, worker: WorkerProcess) -> bool:
        return worker.account is not None and worker.account.round == self._number

    def _end(self, worker: WorkerProcess) -> None:
        """It hangs. When its store is opened again, the visit in hand is blamed."""
        patience = self.limits.worker_patience
        self._events.emit(
            Warned(f"worker {worker.number} has not answered for {patience:.0f} s and is ended")
        )
        worker.kill()


def _shares(limit: int, workers: Sequence[WorkerProcess]) -> dict[int, Share]:
    """Each worker's share of the page limit. A worker that needs no more is asked to give the rest back."""
    shares = {}
    for worker in workers:
        if (account := worker.account) is not None:
            used = account.counts.pages + account.in_flight
            wanted = limit if account.wants_pages else used
            shares[worker.number] = Share(used, account.max_pages or 0, wanted)
    return shares

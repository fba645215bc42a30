"""One question to every worker, and all the answers as one snapshot."""

import asyncio
from types import SimpleNamespace

from skitter.crawl.done import SeedsAre
from skitter.events import Events, Warned
from skitter.fleet.messages import Account
from skitter.fleet.rounds import Rounds
from skitter.model import Counts
from skitter.settings import CrawlSettings, Seconds

STORED = SimpleNamespace(state=SeedsAre.STORED)
CARRIER = SimpleNamespace(sent=7, accepted=5)


class Worker:
    """`skitter.fleet.processes.WorkerProcess` that answers at once, unless it hangs."""

    def __init__(self, number, *, pages=0, in_flight=0, wants=False, hangs=False):
        self.number, self.pages, self.in_flight, self.wants, self.hangs = (
            number,
            pages,
            in_flight,
            wants,
            hangs,
        )
        self.ended = self.account = None
        self.ready, self.allowed, self.rounds = True, 0, None

    def say(self, question):
        if self.hangs:
            return
        if question.max_pages is not None:
            self.allowed = max(question.max_pages, self.pages + self.in_flight)
        idle = not self.wants
        counts = Counts(pages=self.pages)
        self.account = Account(question.round, counts, self.in_flight, idle, self.allowed, self.wants, {})
        self.rounds.answered()

    def kill(self):
        self.ready = False


def asked(workers, times=1, events=None, **limits):
    async def scene():
        rounds = Rounds(workers, CARRIER, CrawlSettings(**limits), events or Events())
        for worker in workers:
            worker.rounds = rounds
        return [await rounds.ask(STORED) for _ in range(times)][-1]

    return asyncio.run(scene())


def test_a_snapshot_has_what_every_worker_says_and_the_links_between_them():
    now = asked([Worker(0, pages=3), Worker(1, in_flight=1)])
    assert [part.counts.pages for part in now.parts.values()] == [3, 0]
    assert [part.in_flight for part in now.parts.values()] == [0, 1]
    assert (now.under_way, now.delivered, now.seeds) == (2, 5, SeedsAre.STORED)


def test_pages_go_from_a_worker_that_has_no_use_for_them_to_one_that_has():
    busy, done = Worker(0, wants=True), Worker(1, wants=True)
    asked([busy, done], 2, max_pages=10)
    assert (busy.allowed, done.allowed) == (5, 5)
    busy.pages, done.pages, done.wants = 5, 2, False
    asked([busy, done], 4, max_pages=10)
    assert (busy.allowed, done.allowed) == (8, 2)


def test_a_worker_that_does_not_answer_is_ended_and_there_is_no_snapshot():
    heard = []
    hanging = Worker(1, hangs=True)
    now = asked([Worker(0), hanging], events=Events(heard.append), worker_patience=Seconds(0.05))
    assert now is None
    assert not hanging.ready
    assert [event for event in heard if isinstance(event, Warned)]


def test_nobody_is_asked_while_a_worker_is_not_there():
    there, gone = Worker(0), Worker(1)
    gone.ready = False
    assert asked([there, gone]) is None
    assert there.account is None

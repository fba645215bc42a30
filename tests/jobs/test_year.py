"""A year of a thousand jobs in virtual time: summer time begins and ends, schedulers race, are killed, and are away.

What must be is said by `oracle`, which looks at every minute of the year, and by the times at which crawls really ran.
"""

import asyncio
import random
import sqlite3
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skitter.backends.sqlite_jobs import SqliteJobs
from skitter.jobs import rules
from skitter.jobs.model import Crawl, Ended, Job, Overlap, Run, State
from skitter.jobs.scheduler import Manner, Scheduler
from skitter.testing.clock import VirtualClock, run_virtual
from tests.jobs import oracle

HOUR, DAY = 3600.0, 86400.0
BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
END = BEGIN + 365 * DAY
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Santiago",
    "Asia/Tokyo",
    "UTC",
)
LEASE = 6 * HOUR


def day(month: int, number: int, hour: float) -> float:
    return datetime(2026, month, number, tzinfo=UTC).timestamp() + hour * HOUR


# When each of the two schedulers is killed, and started again; never on a full minute. Both are away in some of these times, among
# them those in which clocks are set.
AWAY = {
    "one": [(day(1, 20, 3.01), day(1, 20, 9.01)), (day(2, 10, 0.51), day(2, 13, 7.31)), (day(3, 28, 22.51), day(3, 29, 4.51)),
        (day(4, 4, 12.01), day(4, 5, 18.01)), (day(6, 1, 1.11), day(7, 3, 5.21)), (day(10, 24, 20.31), day(10, 25, 2.41)),
        (day(12, 24, 0.01), day(12, 24, 0.61))],
    "two": [(day(2, 9, 11.07), day(2, 12, 7.33)), (day(3, 28, 23.57), day(3, 29, 3.03)), (day(5, 5, 5.55), day(5, 25, 5.55)),
        (day(6, 3, 4.13), day(6, 30, 4.17)), (day(10, 24, 21.07), day(10, 25, 1.43)), (day(11, 1, 5.07), day(11, 1, 7.03))],
}  # fmt: skip
SKEW = {"one": 0.0, "two": -0.4}  # seconds by which their clocks differ


def nobody() -> list[tuple[float, float]]:
    """The times without any scheduler."""
    spans = []
    for gone, back in AWAY["one"]:
        for also_gone, also_back in AWAY["two"]:
            if (first := max(gone, also_gone)) < (last := min(back, also_back)):
                spans.append((first, last))
    return sorted(spans)


def make_jobs(chance: random.Random, most: int = 1000) -> list[Job]:
    made = []
    for number in range(most):
        minute, hour = chance.randrange(60), chance.choice((0, 1, 2, 2, 3, 3, chance.randrange(24)))
        line = f"{minute} {hour} {chance.randrange(1, 32)} * *"
        if number % 100 < 20:
            line = f"{minute} {hour} * * {chance.randrange(7)}"
        elif number % 100 < 23:
            line = f"{minute} {hour} * * *"
        elif number % 200 == 45:
            line = f"{minute} */6 * * *"
        made.append(
            Job(
                name=f"job-{number}",
                crawl=Crawl(urls=("https://example.org/",)),
                line=line,
                zone=chance.choice(ZONES),
                overlap=chance.choice(tuple(Overlap)),
                deadline=chance.choice((None, None, 6 * HOUR + 0.5)),
            )
        )
    return made


class Crawls:
    """Pretends to crawl: each run takes its time, and goes on with what is left of it after a kill."""

    def __init__(self, clock: VirtualClock, chance: random.Random) -> None:
        self._clock = clock
        self._chance = chance
        self._left: dict[str, float] = {}
        self.spans: dict[str, tuple[float, float]] = {}  # when a run has begun, and when it was over
        self.ends: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self.begun: dict[str, float] = {}

    async def run(self, job: Job, run: Run, stop: asyncio.Event) -> Ended:
        if run.id not in self._left:
            daily = job.line.split()[2:] == ["*", "*", "*"]
            # Every sixth of those that are due often takes longer than the time until the next.
            long = daily and self._chance.random() < 0.16
            self._left[run.id] = (
                self._chance.uniform(7.1 * HOUR, 55 * HOUR) if long else self._chance.uniform(31.7, 1500)
            )
        began = self._clock.now()
        self.begun.setdefault(run.id, began)
        self.at_once[job.name] += 1
        assert self.at_once[job.name] == 1, f"two runs of {job.name} at once"
        try:
            await asyncio.sleep(self._left[run.id])
        finally:
            self.at_once[job.name] -= 1
            self._left[run.id] -= self._clock.now() - began
        self.ends[run.id] += 1
        self.spans[run.id] = (self.begun[run.id], self._clock.now())
        return Ended(0)


class Nothing:
    async def tell(self) -> None:
        pass

    async def tidy(self, job: Job) -> None:
        pass


def open_store(file, clock: VirtualClock, name: str) -> SqliteJobs:
    store = SqliteJobs(file, lambda: clock.now() + SKEW[name])
    store._db.execute("PRAGMA synchronous = OFF")  # nothing is lost here, and syncing is real work
    return store


async def serve(file, clock: VirtualClock, crawls: Crawls, name: str) -> None:
    """One scheduler, over its whole year: killed, and started again."""
    alive_from = BEGIN
    for gone, back in [*AWAY[name], (END, END)]:
        await asyncio.sleep(alive_from - clock.now())
        store = open_store(file, clock, name)
        scheduler = Scheduler(
            store, crawls, Nothing(), "home", Manner(at_once=5000, lease=LEASE, poll=2 * DAY)
        )
        task = asyncio.create_task(scheduler.serve())
        await asyncio.sleep(gone - clock.now())
        killed = [task, *scheduler._carried.values()]
        for each in killed:
            each.cancel()
        for each in killed:
            with suppress(asyncio.CancelledError):
                await each
        await store.close()
        alive_from = back


def expected_rows(job: Job, runs: dict[float, Run], crawls: Crawls) -> dict[float, State]:
    """What the rule promises for every due time, given when the crawls of this job really ran."""
    promised: dict[float, State] = {}
    pending: dict[tuple[float, float], list[float]] = defaultdict(list)
    looked: list[tuple[float, float]] = []  # due time, and when a scheduler first saw it
    for due in oracle.due_times(job.line, job.zone, BEGIN, END - HOUR):
        away = next((span for span in nobody() if span[0] < due <= span[1]), None)
        if away is None:
            looked.append((due, due))
        else:
            pending[away].append(due)
    for (_, back), dues in pending.items():
        promised |= dict.fromkeys(
            dues[:-1][-100:], State.MISSED
        )  # earlier ones are counted in the first of these
        late = back - dues[-1]
        if job.deadline is not None and late > job.deadline:
            promised[dues[-1]] = State.MISSED
        else:
            looked.append((dues[-1], back))
    begun = (run for run in runs.values() if run.id in crawls.begun or not run.final)
    spans = sorted((run.due, crawls.spans.get(run.id)) for run in begun)
    for due, at in sorted(looked):
        # Not over when somebody looked: runs of earlier due times that were going on, or waited behind one that was.
        unfinished = [other for other, span in spans if other < due and (span is None or span[1] > at)]
        full = 1 if job.overlap is Overlap.SKIP else 2
        promised[due] = State.SKIPPED if len(unfinished) >= full else State.DONE
    return promised


@pytest.mark.soak
def test_a_year_of_a_thousand_jobs_is_what_the_rule_promises(tmp_path):
    states, taken_over = a_year(tmp_path, 1000)
    assert min(states[state] for state in (State.DONE, State.MISSED, State.SKIPPED)) > 100
    assert taken_over > 20
    assert sum(states.values()) > 30_000


def test_a_year_of_fifty_jobs_is_what_the_rule_promises(tmp_path):
    states, _ = a_year(tmp_path, 50)
    assert min(states[state] for state in (State.DONE, State.MISSED, State.SKIPPED)) > 0
    assert sum(states.values()) > 2_000


def a_year(tmp_path: Path, number: int) -> tuple[Counter[State], int]:
    """A year of so many jobs, each row compared with the rule; how runs ended, and how many were taken over."""
    chance, clock = random.Random(2026), VirtualClock(BEGIN)
    crawls, file = Crawls(clock, chance), tmp_path / "jobs.sqlite"
    jobs = make_jobs(chance, number)

    async def year() -> None:
        store = open_store(file, clock, "one")
        for job in jobs:
            assert await store.add(rules.checked(job, BEGIN))
        await store.close()
        await asyncio.gather(*(serve(file, clock, crawls, name) for name in AWAY))

    run_virtual(year(), clock)
    store = SqliteJobs(file)

    async def rows(name: str) -> dict[float, Run]:
        found = await store.runs(name, limit=100_000)
        assert len({run.due for run in found}) == len(found)
        return {run.due: run for run in found if run.due <= END - HOUR}

    states: Counter[State] = Counter()
    taken_over = 0
    for job in jobs:
        found = asyncio.run(rows(job.name))
        seen = {due: run.state for due, run in found.items() if run.final}
        promised = expected_rows(job, found, crawls)
        still = {due for due, run in found.items() if not run.final}  # at the end of the year
        assert all(due > END - 200 * HOUR for due in still)
        assert seen == {due: state for due, state in promised.items() if due not in still}, job
        assert all(crawls.ends[run.id] == (run.state is State.DONE) for run in found.values() if run.final)
        states.update(seen.values())
        taken_over += sum(run.tries > 1 and run.state is State.DONE for run in found.values())
    asyncio.run(store.close())
    print(dict(states), "taken over", taken_over)
    return states, taken_over


def test_the_same_due_time_cannot_be_stored_twice(tmp_path):
    """What makes two schedulers harmless, whatever they do."""
    store = SqliteJobs(tmp_path / "jobs.sqlite")
    job = rules.checked(Job(name="a", crawl=Crawl(urls=("https://example.org/",)), line="@daily"), BEGIN)

    async def twice() -> None:
        await store.add(job)
        await store.plan(job, BEGIN + 2 * DAY, [rules.new_run(job, BEGIN)])
        with pytest.raises(sqlite3.IntegrityError, match=r"crawl_runs\.job, crawl_runs\.due"):
            store._db.execute(
                "INSERT INTO crawl_runs SELECT 'other', job, due, state, not_before, owner, home, lease_until, tries, stop_asked, "
                "started_at, tell_at, tell_tries, record FROM crawl_runs"
            )
        await store.close()

    asyncio.run(twice())

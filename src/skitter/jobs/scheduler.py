"""The scheduler: plans what is due, claims what may begin, runs it, and tells of its end.

Any number of schedulers work on one store. What has been decided is in its rows: a scheduler that is killed at any moment leaves
due times that the next one plans, and runs whose leases end, which the next one takes over under their ids.
"""

import asyncio
import logging
import os
import socket
import uuid
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from skitter.jobs import rules
from skitter.jobs.model import UNFINISHED, Ended, Job, Run, State
from skitter.jobs.ports import Beat, JobStore
from skitter.ports import EngineAway, StateError

_log = logging.getLogger("skitter.jobs")
_TROUBLE = (StateError, EngineAway, OSError)  # what passes: a full disk, a database that is away
_AGAIN = 5.0  # seconds after trouble
_AT_LEAST = 0.02  # seconds between two looks


class Runner(Protocol):
    """Runs a crawl."""

    async def run(self, job: Job, run: Run, stop: asyncio.Event) -> Ended:
        """Crawl to the end, or until `stop` is set."""


class Aftermath(Protocol):
    """What follows the end of runs: people are told, old crawls are removed."""

    async def tell(self) -> None:
        """Tell of runs that have ended."""

    async def tidy(self, job: Job) -> None:
        """Write the feeds, and remove the crawls of old runs."""


class Manner(Struct, frozen=True):
    """How a scheduler works."""

    at_once: int = 2  # runs
    lease: float = 60.0  # seconds
    poll: float = 5.0  # seconds between two looks, in case somebody has added something


class Scheduler:
    """Runs what is due, until it is told to stop."""

    def __init__(self, store: JobStore, runner: Runner, after: Aftermath, home: str, manner: Manner) -> None:
        self.owner = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._store = store
        self._runner = runner
        self._after = after
        self._home = home
        self._manner = manner
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._claims = 0
        self._carried: dict[str, asyncio.Task[None]] = {}
        self._telling: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Begin nothing more, and stop what runs: it goes on when a scheduler starts again."""
        self._stopping.set()
        self._woken.set()

    async def serve(self) -> None:
        """Run what is due until `stop`."""
        while not self._stopping.is_set():
            try:
                wait = await self._look()
            except _TROUBLE as trouble:
                _log.warning("%s; trying again", trouble)
                wait = _AGAIN
            self._woken.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), wait)
        await self._leave()

    async def run_one(self, run_id: str) -> bool:
        """Run this run only; False if it cannot begin now."""
        run = await self._claim(only=run_id)
        if run is not None:
            self._carried[run.owner] = asyncio.create_task(self._carry(run))
            await self._carried[run.owner]
            await self._tell()
        return run is not None

    async def _claim(self, only: str = "") -> Run | None:
        """Each claim has a name of its own: one whose answer was lost is given up with its lease."""
        self._claims += 1
        return await self._store.claim(f"{self.owner}-{self._claims}", self._home, self._manner.lease, only)

    async def _leave(self) -> None:
        for task in [*self._carried.values(), *([self._telling] if self._telling else [])]:
            with suppress(*_TROUBLE):
                await task

    async def _look(self) -> float:
        """Do what is due; returns for how many seconds there is nothing more to do."""
        now = await self._store.now()
        for job in await self._store.jobs(due_by=now):
            await self.plan(job, now)
        while len(self._carried) < self._manner.at_once:
            run = await self._claim()
            if run is None:
                break
            self._carried[run.owner] = asyncio.create_task(self._carry(run))
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())
        return await self._until_next()

    async def _until_next(self) -> float:
        if len(self._carried) >= self._manner.at_once:
            return self._manner.poll  # or until one of them ends
        at, now = await self._store.wake_at(self._home), await self._store.now()
        wait = self._manner.poll if at is None else min(at - now, self._manner.poll)
        return max(wait, _AT_LEAST if wait > 0 else self._idle())

    def _idle(self) -> float:
        """Something is due that this scheduler cannot take, another's perhaps."""
        return min(1.0, self._manner.poll)

    async def plan(self, job: Job, now: float) -> None:
        """Decide about the due times of a job that have come. Another scheduler may have been faster."""
        unfinished = await self._store.runs(job.name, UNFINISHED)
        rows, coming = rules.plan(job, unfinished, now)
        if await self._store.plan(job, coming, rows):
            for row in rows:
                _log.info("%s: %s%s", row.id, row.state, f" ({row.reason})" if row.reason else "")

    # -- one run --------------------------------------------------------------------------------------------

    async def _carry(self, run: Run) -> None:
        """Run a claimed run to its end, and settle it."""
        try:
            job = await self._store.job(run.job)
            if job is None:  # removed at this moment
                return
            if rules.worn_out(run):
                now = await self._store.now()
                why = f"begun {run.tries - 1} times, and never came to an end"
                await self._settle(rules.over(job, run, State.FAILED, why, now), run.owner, job)
                return
            await self._run(job, run)
        except _TROUBLE as trouble:  # its lease ends, and it goes on
            _log.warning("%s: %s", run.id, trouble)
        finally:
            del self._carried[run.owner]
            self._woken.set()

    async def _run(self, job: Job, run: Run) -> None:
        _log.info("%s: begins, try %d", run.id, run.tries)
        stop = asyncio.Event()
        watching = asyncio.create_task(self._watch(run, stop))
        leaving = asyncio.create_task(self._stopping.wait())
        leaving.add_done_callback(lambda _: stop.set())
        try:
            how = await self._runner.run(job, run, stop)
        finally:
            watching.cancel()
            leaving.cancel()
        (said,) = await asyncio.gather(watching, return_exceptions=True)
        if said is Beat.LOST:
            _log.warning("%s: another scheduler goes on with it", run.id)
            return
        now = await self._store.now()
        current = await self._store.run(run.id) or run  # somebody may have asked to stop it
        after = rules.ended(job, current, how, now)
        if self._stopping.is_set() and not after.final and not current.stop_asked:
            after = rules.released(current, now)
        await self._settle(after, run.owner, job)

    async def _watch(self, run: Run, stop: asyncio.Event) -> Beat:
        """Renew the lease. While the store is away the crawl goes on: nobody else can begin in its directory."""
        while True:
            await asyncio.sleep(self._manner.lease / 3)
            try:
                beat = await self._store.beat(run, self._manner.lease)
            except _TROUBLE as trouble:
                _log.warning("%s: %s", run.id, trouble)
                continue
            if beat is not Beat.GO_ON:
                stop.set()
            if beat is Beat.LOST:
                return beat

    async def _settle(self, run: Run, owner: str, job: Job) -> None:
        for _ in range(
            1000
        ):  # a full disk: what has happened must be written, or the run would be begun once more
            try:
                mine = await self._store.settle(run, owner)
                break
            except _TROUBLE as trouble:
                _log.warning("%s: %s; trying again", run.id, trouble)
                if self._stopping.is_set():
                    return
                await asyncio.sleep(_AGAIN)
        else:
            return
        if not mine:
            return
        _log.info("%s: %s (%s)", run.id, run.state, run.reason)
        if run.final:
            await self._after.tidy(job)

    async def _tell(self) -> None:
        try:
            await self._after.tell()
        except _TROUBLE as trouble:
            _log.warning("%s", trouble)

"""What people do with jobs, whether by the command line or through a server: checked here, then kept in the store.

A change that somebody else has overtaken is tried again on what there is now, so the last one wins, whole.
"""

import math

from msgspec.structs import replace

from skitter.fetch.webhook import problem_of
from skitter.jobs import rules
from skitter.jobs.model import UNFINISHED, BadJob, Job, Kind, Run, State
from skitter.jobs.ports import JobStore
from skitter.ports import StateError
from skitter.reporting.format import moment

_AGAIN = 20  # times that a change is tried


class Book:
    """The jobs of a store."""

    def __init__(self, store: JobStore) -> None:
        self.store = store

    async def find(self, name: str) -> Job:
        """The job of this name; BadJob if there is none."""
        job = await self.store.job(name)
        if job is None:
            known = ", ".join(job.name for job in (await self.store.jobs())[:10])
            raise BadJob(f"there is no job {name}; {f'jobs are {known}' if known else 'there are none yet'}")
        return job

    async def add(self, job: Job, *, home: str = "") -> Job:
        """Keep a new job. `home` is the root where the one crawl of its runs lies."""
        now = await self.store.now()
        job = check(replace(job, created_at=now, home="" if job.kind is Kind.NEW else home), now)
        if not await self.store.add(job):
            raise BadJob(
                f"there is a job {job.name} already; choose another name, or replace it with --replace"
            )
        return job

    async def edit(self, job: Job) -> Job:
        """Put a job in the place of the one of its name; its runs stay."""
        for _ in range(_AGAIN):
            old, now = await self.find(job.name), await self.store.now()
            if Kind.NEW in (old.kind, job.kind) and old.kind is not job.kind:
                raise BadJob(
                    f"{job.name} is of kind {old.kind}, and its crawls lie where that puts them; add another job"
                )
            new = replace(
                job, created_at=old.created_at, home=old.home, version=old.version + 1, paused=old.paused
            )
            new = check(new, now)
            if old.paused:
                new = replace(new, next_due=None)
            if await self.store.change(new):
                return new
        raise _overtaken(job.name)

    async def pause(self, name: str) -> Job:
        """No more runs by the clock. One that runs goes on."""
        for _ in range(_AGAIN):
            job = rules.paused(await self.find(name))
            if await self.store.change(job):
                return job
        raise _overtaken(name)

    async def resume(self, name: str) -> Job:
        """Runs by the clock again, from now on."""
        for _ in range(_AGAIN):
            job = rules.continued(await self.find(name), await self.store.now())
            if await self.store.change(job):
                return job
        raise _overtaken(name)

    async def remove(self, name: str) -> None:
        """Forget a job and its history. Its crawls stay where they are."""
        await self.find(name)
        if not await self.store.remove(name):
            raise StateError(f"{name} is running; stop it first with: skitter job stop {name}")

    async def ask(self, name: str) -> Run:
        """A run by hand, due now; StateError if the last one is not over."""
        job, now = await self.find(name), math.ceil(await self.store.now())
        for due in range(now, now + _AGAIN):
            run = rules.new_run(job, float(due), by_hand=True)
            if await self.store.ask(run):
                return run
            if unfinished := await self.store.runs(name, UNFINISHED, limit=1):
                raise StateError(f"{name}: {unfinished[0].id} is not over yet ({unfinished[0].state})")
        raise StateError(f"{name}: there is a run for {moment(now)} already; try again")

    async def stop(self, name: str) -> Run | None:
        """Stop the run of a job that is not over; None if there is none. One that runs takes a moment to stop."""
        job = await self.find(name)
        found = await self.store.runs(name, UNFINISHED)
        if not found:
            return None
        run = found[-1]  # the oldest
        if await self.store.stop(run.id) is State.STOPPED:
            run = rules.over(job, run, State.STOPPED, "somebody stopped it", await self.store.now())
            await self.store.note(run)
        return await self.store.run(run.id)


def check(job: Job, now: float) -> Job:
    """The job as it is stored, due from now on; BadJob if it cannot be."""
    if job.notice.webhook and (wrong := problem_of(job.notice.webhook)):
        raise BadJob(f"--webhook: {job.notice.webhook}: {wrong}")
    return rules.checked(job, now)


def _overtaken(name: str) -> StateError:
    return StateError(f"{name} is being changed by somebody else; try again")

"""The store of jobs and runs. It keeps rows and their order in time; what happens to them is decided in `rules`.

Any number of schedulers use one store at once. Each verb is one atomic step, and says whether it took place: whoever read
something that has changed since is told no, and looks again.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from skitter.jobs.model import Job, Run, State


class Beat(StrEnum):
    """What a scheduler learns when it says that a run is still going."""

    GO_ON = "go on"
    STOP = "stop"  # somebody asked for it
    LOST = "lost"  # another scheduler has it


class JobStore(Protocol):
    """Jobs and their runs."""

    async def now(self) -> float:
        """The time that all its schedulers agree on."""

    async def close(self) -> None:
        """Give back what it holds open."""

    # -- jobs

    async def jobs(self, due_by: float | None = None) -> list[Job]:
        """All jobs by name, or those that are due by then."""

    async def job(self, name: str) -> Job | None:
        """The job of this name."""

    async def add(self, job: Job) -> bool:
        """Keep a new job; False if there is one of this name."""

    async def change(self, job: Job) -> bool:
        """Replace a job by its next version; False if it is not the version before."""

    async def remove(self, name: str) -> bool:
        """Forget a job and its runs; False if there is none, or one of its runs is running under a lease that holds."""

    # -- runs

    async def plan(self, job: Job, coming: float | None, rows: Sequence[Run]) -> bool:
        """Add rows for due times, and set the next due time; all of it, or False if the job has changed since it was read."""

    async def ask(self, run: Run) -> bool:
        """Add a run by hand; False if the job has one that is not over."""

    async def claim(self, owner: str, home: str, lease: float, only: str = "") -> Run | None:
        """Take the oldest run that waits and may begin, or whose scheduler is gone, or only the one of this id.

        Its tries are one more then.

        Of one job, runs begin in the order of their due times, and only when those before are over. A run that has begun, and a job
        that has a home, is for schedulers of the same home.
        """

    async def beat(self, run: Run, lease: float) -> Beat:
        """Renew the lease of a claimed run."""

    async def settle(self, run: Run, owner: str) -> bool:
        """Store a claimed run as it is now; False if it belongs to somebody else by now."""

    async def stop(self, run_id: str) -> State | None:
        """Ask a running run to stop; one that waits, or whose scheduler is gone, is stopped at once. Its state afterwards."""

    async def runs(
        self,
        job: str | None = None,
        states: Sequence[State] = (),
        limit: int = 100,
        before: float | None = None,
    ) -> list[Run]:
        """Runs, the latest due first, perhaps only those due before a time."""

    async def run(self, run_id: str) -> Run | None:
        """The run with this id."""

    async def to_tell(self, lease: float) -> list[Run]:
        """Ended runs to tell of now; for as long as the lease, no other scheduler gets them."""

    async def note(self, run: Run) -> None:
        """Store what has become of an ended run: told of, or its directory removed."""

    async def wake_at(self, home: str) -> float | None:
        """When something is due, may begin there, has lost its scheduler, or is to be told; None if there is nothing."""

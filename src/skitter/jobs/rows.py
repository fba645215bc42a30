"""Jobs and runs as rows: a column for what stores look at, and the whole of it as JSON."""

from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from skitter.jobs.model import Job, Run, State

JOB_COLUMNS = ("name", "paused", "next_due", "home", "version")
RUN_COLUMNS = (
    "id", "job", "due", "state", "not_before", "owner", "home", "lease_until", "tries", "stop_asked", "started_at", "tell_at",
    "tell_tries",
)  # fmt: skip


class Row(Protocol):
    """A row as a database returns it."""

    def __getitem__(self, name: str, /) -> Any:  # noqa: ANN401
        """The value of a column."""


def job_row(job: Job) -> dict[str, Any]:
    """The row of a job."""
    return {name: getattr(job, name) for name in JOB_COLUMNS} | {"record": msgspec.json.encode(job).decode()}


def read_job(row: Row) -> Job:
    """A job from its row: columns are newer than the JSON."""
    job = msgspec.json.decode(row["record"], type=Job)
    newer = {name: row[name] for name in JOB_COLUMNS}
    return replace(job, **newer | {"paused": bool(row["paused"])})


def run_row(run: Run) -> dict[str, Any]:
    """The row of a run."""
    columns = {name: getattr(run, name) for name in RUN_COLUMNS}
    return columns | {"state": run.state.value, "record": msgspec.json.encode(run).decode()}


def read_run(row: Row) -> Run:
    """A run from its row."""
    run = msgspec.json.decode(row["record"], type=Run)
    newer = {name: row[name] for name in RUN_COLUMNS}
    return replace(run, **newer | {"state": State(row["state"]), "stop_asked": bool(row["stop_asked"])})

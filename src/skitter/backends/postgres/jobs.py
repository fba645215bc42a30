"""`skitter.jobs.ports.JobStore` in PostgreSQL, for schedulers on many machines.

The tables `crawl_jobs` and `crawl_runs` are in a schema of their own, named after the cluster: jobs outlive crawls.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from skitter.backends.postgres.migrate import connected, migrate_jobs
from skitter.backends.postgres.pool import Pool, connect
from skitter.backends.postgres.statements import Texts, quoted
from skitter.jobs.model import Job, Run, State
from skitter.jobs.ports import Beat
from skitter.jobs.rows import job_row, read_job, read_run, run_row
from skitter.settings import Settings

_FILE = "jobs"
_NEVER = float("inf")


def jobs_schema(settings: Settings) -> str:
    """The schema of a cluster's jobs."""
    return f"{settings.cluster.name}-jobs"


async def open_postgres_jobs(settings: Settings) -> "PostgresJobs":
    """The jobs of a cluster; their tables are made if there are none yet."""
    schema = jobs_schema(settings)
    await migrate_jobs(settings, schema)
    return PostgresJobs(await connect(settings, size=2, name="skitter jobs"), schema)


async def drop_postgres_jobs(settings: Settings) -> None:
    """Remove all jobs of a cluster and their history."""
    async with connected(settings) as connection:
        await connection.execute(f"DROP SCHEMA IF EXISTS {quoted(jobs_schema(settings))} CASCADE")


class PostgresJobs:
    """The jobs of a cluster."""

    def __init__(self, pool: Pool, schema: str) -> None:
        self._pool = pool
        self._texts = Texts(schema)

    async def now(self) -> float:
        """The time of the database."""
        return float((await self._rows("now", {}))[0]["now"])

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    # -- jobs -----------------------------------------------------------------------------------------------

    async def jobs(self, due_by: float | None = None) -> list[Job]:
        """All jobs by name, or those that are due by then."""
        rows = await (self._rows("jobs", {}) if due_by is None else self._rows("due_jobs", {"by": due_by}))
        return [read_job(row) for row in rows]

    async def job(self, name: str) -> Job | None:
        """The job of this name."""
        rows = await self._rows("job", {"name": name})
        return read_job(rows[0]) if rows else None

    async def add(self, job: Job) -> bool:
        """Keep a new job."""
        return bool(await self._rows("add_job", job_row(job)))

    async def change(self, job: Job) -> bool:
        """Replace a job by its next version."""
        return bool(await self._rows("change_job", job_row(job)))

    async def remove(self, name: str) -> bool:
        """Forget a job that is not running."""
        return bool(await self._rows("remove_job", {"name": name}))

    # -- runs -----------------------------------------------------------------------------------------------

    async def plan(self, job: Job, coming: float | None, rows: Sequence[Run]) -> bool:
        """Add rows for due times, and set the next one."""
        values = {"name": job.name, "version": job.version, "was": job.next_due, "coming": coming}
        return bool(await self._rows("plan", values | {"rows": _rows_json(rows)}))

    async def ask(self, run: Run) -> bool:
        """Add a run by hand."""
        return bool(await self._rows("ask", {"job": run.job, "rows": _rows_json([run])}))

    async def claim(self, owner: str, home: str, lease: float, only: str = "") -> Run | None:
        """Take the oldest run that may begin or go on."""
        rows = await self._rows("claim", {"owner": owner, "home": home, "lease": lease, "only": only})
        return read_run(rows[0]) if rows else None

    async def beat(self, run: Run, lease: float) -> Beat:
        """Renew the lease of a run."""
        rows = await self._rows("beat", {"id": run.id, "owner": run.owner, "lease": lease})
        if not rows:
            return Beat.LOST
        return Beat.STOP if rows[0]["stop_asked"] else Beat.GO_ON

    async def settle(self, run: Run, owner: str) -> bool:
        """Store a claimed run."""
        return bool(await self._rows("settle", run_row(run) | {"holder": owner}))

    async def stop(self, run_id: str) -> State | None:
        """Ask a run to stop."""
        rows = await self._rows("stop", {"id": run_id})
        return State(rows[0]["state"]) if rows else None

    async def runs(
        self,
        job: str | None = None,
        states: Sequence[State] = (),
        limit: int = 100,
        before: float | None = None,
    ) -> list[Run]:
        """Runs, the latest due first."""
        values = {
            "states": [State(state).value for state in states or State],
            "limit": limit,
            "before": _NEVER if before is None else before,
        }
        rows = await (
            self._rows("runs", values) if job is None else self._rows("runs_of", values | {"job": job})
        )
        return [read_run(row) for row in rows]

    async def run(self, run_id: str) -> Run | None:
        """The run with this id."""
        rows = await self._rows("run", {"id": run_id})
        return read_run(rows[0]) if rows else None

    async def to_tell(self, lease: float) -> list[Run]:
        """Ended runs to tell of now."""
        return [read_run(row) for row in await self._rows("to_tell", {"lease": lease})]

    async def note(self, run: Run) -> None:
        """Store what has become of an ended run."""
        await self._rows("note", run_row(run))

    async def wake_at(self, home: str) -> float | None:
        """When to look again."""
        at: float | None = (await self._rows("wake", {"home": home}))[0]["at"]
        return at

    async def _rows(self, name: str, values: Mapping[str, Any]) -> list[Any]:
        return await self._pool.rows(self._texts.one(_FILE, name), values)


def _rows_json(runs: Sequence[Run]) -> str:
    """Rows as one JSON array."""
    rows = [run_row(run) | {"record": msgspec.Raw(msgspec.json.encode(replace(run)))} for run in runs]
    return msgspec.json.encode(rows).decode()

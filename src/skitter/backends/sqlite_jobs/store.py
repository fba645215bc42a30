"""`skitter.jobs.ports.JobStore` in one file. Any number of processes use it at once; one writes at a time.

What is committed survives a power loss: every commit is synced. Calls block for as long as SQLite takes.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from skitter.jobs.model import Job, Run, State
from skitter.jobs.ports import Beat
from skitter.jobs.rows import JOB_COLUMNS, RUN_COLUMNS, job_row, read_job, read_run, run_row
from skitter.ports import StateError

_VERSION = 1
_PATIENCE = 30.0  # seconds that a writer waits for another one


def _sql(name: str) -> str:
    return resources.files(__package__).joinpath(f"{name}.sql").read_text("utf-8")


def _insert(table: str, columns: Sequence[str]) -> str:
    names = (*columns, "record")
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"  # noqa: S608  our own names


def _update(table: str, columns: Sequence[str]) -> str:
    return f"UPDATE {table} SET {', '.join(f'{name} = :{name}' for name in (*columns, 'record'))}"  # noqa: S608  our own names


_CLAIM, _STOP, _WAKE = map(_sql, ("claim", "stop", "wake"))
_CLAIMABLE = _CLAIM[_CLAIM.index("SELECT r.id") : _CLAIM.rindex(")")]
_ADD_JOB = _insert("crawl_jobs", JOB_COLUMNS) + " ON CONFLICT DO NOTHING"
_ADD_RUN = _insert("crawl_runs", RUN_COLUMNS) + " ON CONFLICT DO NOTHING"
_CHANGE_JOB = _update("crawl_jobs", JOB_COLUMNS[1:]) + " WHERE name = :name AND version = :version - 1"
_SET_RUN = _update("crawl_runs", RUN_COLUMNS[1:]) + " WHERE id = :id"


class SqliteJobs:
    """The jobs of a root."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        with self._told():
            self._db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
        self._prepare()

    def _prepare(self) -> None:
        with self._writing():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise StateError(f"{self._path} was made by a newer Skitter; upgrade this one")
            if not version:
                for statement in _sql("schema").split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")

    async def now(self) -> float:
        """The time of this machine."""
        return self._clock()

    async def close(self) -> None:
        """Close the file."""
        self._db.close()

    # -- jobs -----------------------------------------------------------------------------------------------

    async def jobs(self, due_by: float | None = None) -> list[Job]:
        """All jobs by name, or those that are due by then."""
        if due_by is None:
            return [read_job(row) for row in self._rows("SELECT * FROM crawl_jobs ORDER BY name")]
        text = "SELECT * FROM crawl_jobs WHERE next_due <= :by ORDER BY next_due, name"
        return [read_job(row) for row in self._rows(text, {"by": due_by})]

    async def job(self, name: str) -> Job | None:
        """The job of this name."""
        rows = self._rows("SELECT * FROM crawl_jobs WHERE name = :name", {"name": name})
        return read_job(rows[0]) if rows else None

    async def add(self, job: Job) -> bool:
        """Keep a new job."""
        return self._changed(_ADD_JOB, job_row(job)) == 1

    async def change(self, job: Job) -> bool:
        """Replace a job by its next version."""
        return self._changed(_CHANGE_JOB, job_row(job)) == 1

    async def remove(self, name: str) -> bool:
        """Forget a job that is not running."""
        text = """DELETE FROM crawl_jobs WHERE name = :name AND NOT EXISTS (
            SELECT 1 FROM crawl_runs WHERE job = :name AND state = 'running' AND lease_until > :now)"""
        return self._changed(text, {"name": name, "now": self._clock()}) == 1

    # -- runs -----------------------------------------------------------------------------------------------

    async def plan(self, job: Job, coming: float | None, rows: Sequence[Run]) -> bool:
        """Add rows for due times, and set the next one."""
        text = "UPDATE crawl_jobs SET next_due = :coming WHERE name = :name AND version = :version AND next_due = :was"
        values = {"coming": coming, "name": job.name, "version": job.version, "was": job.next_due}
        with self._writing():
            if self._db.execute(text, values).rowcount != 1:
                return False
            self._db.executemany(_ADD_RUN, [run_row(run) for run in rows])
        return True

    async def ask(self, run: Run) -> bool:
        """Add a run by hand."""
        text = "SELECT 1 FROM crawl_runs WHERE job = :job AND state IN ('waiting', 'running')"
        with self._writing():
            if self._db.execute(text, {"job": run.job}).fetchone():
                return False
            return self._db.execute(_ADD_RUN, run_row(run)).rowcount == 1

    async def claim(self, owner: str, home: str, lease: float, only: str = "") -> Run | None:
        """Take the oldest run that may begin or go on."""
        values = {"owner": owner, "home": home, "lease": lease, "only": only, "now": self._clock()}
        if not self._rows(_CLAIMABLE, values):  # the usual answer, and nobody is kept from writing for it
            return None
        rows = self._write(_CLAIM, values)
        return read_run(rows[0]) if rows else None

    async def beat(self, run: Run, lease: float) -> Beat:
        """Renew the lease of a run."""
        text = """UPDATE crawl_runs SET lease_until = :until WHERE id = :id AND owner = :owner AND state = 'running'
            RETURNING stop_asked"""
        rows = self._write(text, {"until": self._clock() + lease, "id": run.id, "owner": run.owner})
        if not rows:
            return Beat.LOST
        return Beat.STOP if rows[0]["stop_asked"] else Beat.GO_ON

    async def settle(self, run: Run, owner: str) -> bool:
        """Store a claimed run."""
        text = f"{_SET_RUN} AND owner = :holder AND state = 'running'"
        return self._changed(text, run_row(run) | {"holder": owner}) == 1

    async def stop(self, run_id: str) -> State | None:
        """Ask a run to stop."""
        rows = self._write(_STOP, {"id": run_id, "now": self._clock()})
        return State(rows[0]["state"]) if rows else None

    async def runs(
        self,
        job: str | None = None,
        states: Sequence[State] = (),
        limit: int = 100,
        before: float | None = None,
    ) -> list[Run]:
        """Runs, the latest due first."""
        # Only what is asked for stands there: an index is not used for "no job or this one".
        listed = ", ".join(f"'{State(state).value}'" for state in states)
        wanted = [
            *(["job = :job"] if job is not None else []),
            *(["due < :before"] if before is not None else []),
            *([f"state IN ({listed})"] if states else []),
        ]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        text = f"SELECT * FROM crawl_runs {where} ORDER BY due DESC LIMIT :limit"  # noqa: S608  our own words
        return [read_run(row) for row in self._rows(text, {"job": job, "before": before, "limit": limit})]

    async def run(self, run_id: str) -> Run | None:
        """The run with this id."""
        rows = self._rows("SELECT * FROM crawl_runs WHERE id = :id", {"id": run_id})
        return read_run(rows[0]) if rows else None

    async def to_tell(self, lease: float) -> list[Run]:
        """Ended runs to tell of now."""
        now = self._clock()
        if not self._rows("SELECT 1 FROM crawl_runs WHERE tell_at <= :now LIMIT 1", {"now": now}):
            return []
        text = "UPDATE crawl_runs SET tell_at = :until WHERE tell_at <= :now RETURNING *"
        return [read_run(row) for row in self._write(text, {"now": now, "until": now + lease})]

    async def note(self, run: Run) -> None:
        """Store what has become of an ended run."""
        self._changed(_SET_RUN, run_row(run))

    async def wake_at(self, home: str) -> float | None:
        """When to look again."""
        at: float | None = self._rows(_WAKE, {"home": home})[0]["at"]
        return at

    # -- SQLite ---------------------------------------------------------------------------------------------

    def _rows(self, text: str, values: Mapping[str, Any] | None = None) -> list[sqlite3.Row]:
        with self._told():
            return self._db.execute(text, dict(values or {})).fetchall()

    def _write(self, text: str, values: Mapping[str, Any]) -> list[sqlite3.Row]:
        with self._writing():
            return self._db.execute(text, dict(values)).fetchall()

    def _changed(self, text: str, values: Mapping[str, Any]) -> int:
        with self._writing():
            return self._db.execute(text, dict(values)).rowcount

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, from the first read on the only writer."""
        with self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            raise StateError(f"{self._path}: {problem}; the jobs in it cannot be read or written") from None

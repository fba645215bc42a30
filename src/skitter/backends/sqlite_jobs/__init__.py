"""Jobs and their runs in one SQLite file, beside the crawls."""

from skitter.backends.sqlite_jobs.store import SqliteJobs

__all__ = ["SqliteJobs"]

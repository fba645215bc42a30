"""The stores of jobs keep the contract of the port."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from skitter.backends.postgres.jobs import drop_postgres_jobs, open_postgres_jobs
from skitter.backends.sqlite_jobs import SqliteJobs
from skitter.jobs import rules
from skitter.jobs.ports import JobStore
from skitter.ports import StateError
from skitter.settings import Settings
from skitter.testing.contracts.jobs import JobStoreContract
from skitter.testing.contracts.jobs import job as job_of
from tests.cluster.postgres import settings_for
from tests.engines import engine


class TestSqlite(JobStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path) -> None:
        self.file = tmp_path / "jobs.sqlite"

    async def sharers(self, count: int) -> list[JobStore]:
        return [SqliteJobs(self.file) for _ in range(count)]

    def test_a_file_that_is_no_store_is_refused(self, tmp_path):
        (tmp_path / "x").write_bytes(b"no database " * 1000)
        with pytest.raises(StateError, match="x: file is not a database"):
            SqliteJobs(tmp_path / "x")

    def test_a_file_of_a_newer_version_is_refused(self):
        store = SqliteJobs(self.file)
        store._db.execute("PRAGMA user_version = 99")
        store._db.close()
        with pytest.raises(StateError, match="newer Skitter"):
            SqliteJobs(self.file)

    def test_a_full_disk_changes_nothing_and_passes(self):
        store, job = SqliteJobs(self.file), rules.checked(job_of("news"), 0.0)

        async def story() -> None:
            assert await store.add(job)
            (pages,) = store._db.execute("PRAGMA page_count").fetchone()
            store._db.execute(f"PRAGMA max_page_count = {pages}")
            big = [replace(rules.new_run(job, 60.0 * n), reason="x" * 5000) for n in range(1, 20)]
            with pytest.raises(StateError, match="database or disk is full"):
                await store.plan(job, 1200.0, big)
            assert await store.runs() == []
            assert await store.job("news") == job
            store._db.execute("PRAGMA max_page_count = 1000000")
            assert await store.plan(job, 1200.0, big)
            assert len(await store.runs()) == len(big)
            await store.close()

        asyncio.run(story())


class TestPostgres(JobStoreContract):
    @pytest.fixture(autouse=True)
    def _schema(self) -> Iterator[None]:
        self.settings: Settings = settings_for(engine("postgres"))
        yield
        asyncio.run(drop_postgres_jobs(self.settings))

    async def sharers(self, count: int) -> list[JobStore]:
        return list(await asyncio.gather(*(open_postgres_jobs(self.settings) for _ in range(count))))

"""Jobs in PostgreSQL: two real schedulers, a real kill, and the schema that they live in."""

import asyncio
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from skitter.backends.postgres.jobs import drop_postgres_jobs, jobs_schema, open_postgres_jobs
from skitter.backends.postgres.migrate import connected
from skitter.ports import EngineError
from skitter.settings import Settings
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.postgres import settings_for
from tests.engines import engine
from tests.jobs.real import Jobs, kill
from tests.jobs.test_real import LEASE, PAGES, crawl_words, fetched


@pytest.fixture
def settings() -> Iterator[Settings]:
    made = settings_for(engine("postgres"))
    made = replace(made, cluster=replace(made.cluster, name=made.cluster.name.replace("-", "_")))
    yield made
    asyncio.run(drop_postgres_jobs(made))


@pytest.fixture
def jobs(settings, tmp_path) -> Jobs:
    postgres = settings.postgres
    file = tmp_path / "cluster.toml"
    file.write_text(
        f'[cluster]\nsize = "full"\nname = "{settings.cluster.name}"\n[crawl]\nshards = 2\n[postgres]\n'
        f'addresses = ["{postgres.addresses[0]}"]\ndatabase = "{postgres.database}"\nuser = "{postgres.user}"\n'
    )
    return Jobs(tmp_path / "root", "--cluster", str(file))


def test_two_schedulers_and_a_kill(jobs):
    """Six jobs wait; one of the two schedulers is killed in the middle. All runs are done, each once, under the ids they had."""
    with serve_process(SyntheticWeb(seed=6, hosts=1, pages_per_host=PAGES, features=Features())) as server:
        names = [f"job-{number}" for number in range(6)]
        for name in names:
            jobs("add", name, *crawl_words(server, "20ms"))
            jobs("run", name, "--queue")
        ids = {name: jobs.runs(name)[0]["run"] for name in names}
        with jobs.scheduler(*LEASE) as first, jobs.scheduler(*LEASE):
            jobs.until(lambda: len(fetched(server, 0)) > 5)
            kill(first)
            jobs.until(lambda: all(jobs.runs(name)[0]["state"] == "done" for name in names))
    for name in names:
        (run,) = jobs.runs(name)
        assert (run["run"], run["exit_code"]) == (ids[name], 0)
        assert run["counts"]["pages"] >= PAGES
    tries = [jobs.runs(name)[0]["tries"] for name in names]
    assert set(tries) <= {1, 2}
    assert 2 in tries, "the kill was noticed"


def test_a_due_time_begins_once_whatever_the_number_of_schedulers(jobs):
    with serve_process(SyntheticWeb(seed=7, hosts=1, pages_per_host=3, features=Features())) as server:
        jobs("add", "often", *crawl_words(server), "--every", "* * * * *")
        with jobs.scheduler(*LEASE), jobs.scheduler(*LEASE), jobs.scheduler(*LEASE):
            jobs.until(lambda: [run for run in jobs.runs("often") if run["state"] == "done"])
    runs = jobs.runs("often")
    assert len({run["due"] for run in runs}) == len(runs)
    assert max(run["tries"] for run in runs) == 1


def test_jobs_live_in_a_schema_of_their_own(settings):
    async def story() -> list[str]:
        store = await open_postgres_jobs(settings)
        await store.close()
        async with connected(settings) as connection:
            text = "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1"
            return [row[0] for row in await connection.fetch(text, jobs_schema(settings))]

    assert asyncio.run(story()) == ["crawl_jobs", "crawl_runs", "migrations"]


def test_a_schema_that_holds_something_else_is_left_alone(settings):
    async def story() -> None:
        async with connected(settings) as connection:
            await connection.execute(
                f'CREATE SCHEMA "{jobs_schema(settings)}" CREATE TABLE other (x integer)'
            )
        with pytest.raises(EngineError, match="is there and holds no jobs"):
            await open_postgres_jobs(settings)

    asyncio.run(story())


def test_many_that_open_at_once_make_one_schema(settings):
    async def story() -> None:
        stores = await asyncio.gather(*(open_postgres_jobs(settings) for _ in range(5)))
        for store in stores:
            await store.close()

    asyncio.run(story())


def test_an_engine_that_is_not_there_is_one_line(tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text(
        '[cluster]\nsize = "full"\nname = "x"\n[crawl]\nshards = 2\n[postgres]\naddresses = ["127.0.0.1:9"]\n'
    )
    said = Jobs(tmp_path / "root", "--cluster", str(file))("list", code=2)
    assert said.startswith("skitter: PostgreSQL: postgres.addresses:")
    assert said.count("\n") == 1

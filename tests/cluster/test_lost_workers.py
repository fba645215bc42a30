"""A worker lost with its disk: an operator gives it up, its pages are fetched again, and nothing else changes."""

import asyncio
import shutil
import signal

import pytest
from msgspec import structs

from skitter.backends.postgres.claims import Claims
from skitter.backends.postgres.segments import PostgresSegments
from skitter.backends.s3 import Stage
from skitter.backends.s3.bucket import digests
from skitter.cluster.ports import Disk
from skitter.compose.storing import arrived
from skitter.testing.contracts.segments import segment
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.archiving import archiving, until
from tests.cluster.postgres import pool_of, schema, settings_for
from tests.crawl.harness import keys
from tests.engines import engine
from tests.s3 import real_ground


@pytest.fixture(scope="module")
def server():
    features = Features(duplicates=True, foreign_share=0.3)
    with serve_process(SyntheticWeb(seed=4, hosts=12, pages_per_host=8, features=features)) as running:
        yield running


@pytest.fixture
def crawl():
    with schema(settings_for(engine("postgres"))) as settings:
        yield settings


async def silence(pool, worker: str) -> None:
    """As if the worker had said nothing for an hour."""
    name = f'"{pool.schema}"'
    await pool._pool.execute(f"UPDATE {name}.workers SET seen_at = seen_at - 3600 WHERE worker = $1", worker)
    await pool._pool.execute(f"UPDATE {name}.shards SET lease_until = 1 WHERE owner = $1", worker)


def test_a_disk_is_given_up_only_when_its_worker_is_silent_and_then_for_good(crawl):
    async def use() -> None:
        async with pool_of(crawl) as pool:
            register, claims, others = PostgresSegments(pool), Claims(pool, "one"), Claims(pool, "two")
            await claims.renew({}, {"disk": "d1"})
            await others.renew({}, {"disk": "d2"})
            [mine] = await claims.take([0], 1)
            for serial, disk in enumerate(("d1", "d1", "d2")):
                await register.begun(segment(serial), 0, disk)
            await register.finished(segment(0), 5, "sha256:x")
            await register.uploaded(segment(0))
            seen = await register.disks()
            assert [(disk.name, disk.worker, disk.segments) for disk in seen] == [
                ("d1", "one", 1),
                ("d2", "two", 1),
            ]

            assert await register.give_up("d1") is None
            assert len(await register.disks()) == 2
            await silence(pool, "one")
            assert await register.give_up("d1") == [segment(1)]
            assert [each.name for each in await register.lost()] == [segment(1)]
            found = await register.look_up([segment(serial) for serial in range(3)])
            assert [each.stage for each in found] == [Stage.UPLOADED, Stage.ABANDONED, Stage.BEGUN]
            assert [worker.name for worker in await claims.workers()] == ["two"]

            # It was only frozen: its shard is not its own any more, and who takes it knows when its lease ended.
            back = await claims.renew({0: mine.epoch}, {"disk": "d1"})
            assert back.held == frozenset()
            [theirs] = await others.take([0], 1)
            assert theirs.epoch > mine.epoch
            assert theirs.lapsed == 1.0

    asyncio.run(use())


def test_a_worker_is_not_given_up_while_it_owns_a_shard(crawl):
    """Its sign of life may be late, but its lease has not ended."""

    async def use() -> None:
        async with pool_of(crawl) as pool:
            register, claims = PostgresSegments(pool), Claims(pool, "one")
            await claims.renew({}, {"disk": "d1"})
            await register.begun(segment(0), 0, "d1")
            await claims.take([0], 1)
            await pool._pool.execute(f'UPDATE "{pool.schema}".workers SET seen_at = 1')
            assert await register.give_up("d1") is None
            assert await register.lost() == []

    asyncio.run(use())


def test_a_disk_whose_worker_has_left(crawl):
    async def use() -> None:
        async with pool_of(crawl) as pool:
            register = PostgresSegments(pool)
            await register.begun(segment(0), 0, "d1")
            [disk] = await register.disks()
            assert (disk.name, disk.worker, disk.segments) == ("d1", "", 1)
            assert isinstance(disk, Disk)
            assert await register.give_up("d1") == [segment(0)]

    asyncio.run(use())


def test_uploaded_segments_are_not_given_up(crawl, tmp_path, monkeypatch):
    """Its worker died after the upload, before it could say so."""
    ground = real_ground(crawl=crawl.cluster.name)
    monkeypatch.setenv("SKITTER_S3_SECRET_KEY", ground.environ["SKITTER_S3_SECRET_KEY"])
    settings = structs.replace(crawl, s3=ground.settings)

    async def use() -> None:
        async with pool_of(crawl) as pool:
            register = PostgresSegments(pool)
            for serial in range(4):
                file = tmp_path / segment(serial)
                file.write_bytes(b"segment %d" % serial)
                found = digests(file, 1 << 20)
                await register.begun(file.name, 0, "d1")
                if serial != 2:  # whose worker had not come so far
                    await register.finished(file.name, found.size, found.sha256)
                if serial == 0:
                    ground.bucket.upload(file, found, 1 << 20)
                if serial == 3:
                    file.write_bytes(b"another 3")
                    ground.bucket.upload(file, digests(file, 1 << 20), 1 << 20)
            await arrived(settings, register, "d1")
            assert await register.give_up("d1") == [segment(1), segment(2), segment(3)]

    asyncio.run(use())


@pytest.mark.parametrize("moment", ["before others take its shards", "when others have finished"])
def test_pages_that_were_lost_with_a_disk_are_fetched_again(tmp_path, server, moment):
    with archiving(tmp_path, server, politeness__delay="50ms") as crew:
        crew.cluster("add", *server.seeds())
        doomed = crew.work("doomed", s3__segment_time="1h")
        until(lambda: crew.status()["counts"]["pages"] >= 40, "pages are stored")
        [name] = [worker["name"] for worker in crew.status()["workers"]]
        alive = crew.skitter("cluster", "abandon", name, "--config", crew.config)
        assert (alive.returncode, alive.stdout) == (1, "")
        assert "is alive, or owns shards" in alive.stderr
        doomed.send_signal(signal.SIGKILL)
        doomed.wait()
        shutil.rmtree(tmp_path / "doomed")
        assert "not uploaded" in crew.cluster("status")
        lost = {page.key for page in crew.pages()}
        assert len(lost) >= 40
        assert crew.ground.objects() == []

        later = moment == "when others have finished"
        if later:
            heir = crew.work("heir", s3__segment_time="2s")
            crew.cluster("wait", "--timeout", "300s")
        until(
            lambda: "given up" in crew.skitter("cluster", "abandon", name, "--config", crew.config).stdout,
            "a lease ends",
        )
        if not later:
            heir = crew.work("heir", s3__segment_time="2s")
        crew.cluster("wait", "--timeout", "300s")
        assert "of segments that are lost are fetched again" in crew.said("heir")
        crew.leave(heir)

        pages = crew.pages()
        truth = keys(server.truth("any").pages)
        assert {page.key for page in pages if 200 <= page.status < 300} == truth
        assert len(pages) == len({page.key for page in pages})
        status = crew.status()
        assert (status["disks"], status["workers"]) == ([], [])
        assert status["counts"]["pages"] == len(truth)
        assert (status["counts"]["queued"], status["counts"]["leased"]) == (0, 0)
        assert lost <= {page.key for page in pages}
        assert list((tmp_path / "heir" / "archive").glob("*.warc.gz")) == []
        crew.check_bucket(pages)

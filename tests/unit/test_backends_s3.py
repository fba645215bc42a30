"""Segments and their upload: when they leave the disk, what a restart does with them, and that none is lost or doubled."""

import asyncio
import gzip
import hashlib
import re
from collections import Counter
from functools import partial
from pathlib import Path

import obstore
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.backends.s3 import WHOLE, BucketError, LocalSegments, S3Archive, Stage, names, worker_of
from skitter.backends.s3.bucket import digests
from skitter.backends.s3.segments import settled_size
from skitter.engines.breaker import Phase
from skitter.frontier.pages import is_behind
from skitter.model import Place
from skitter.ports import EngineAway, EngineError, Mark
from skitter.settings import Bytes, Seconds
from skitter.testing import warc_check
from skitter.testing.clock import VirtualClock, run_virtual
from skitter.testing.contracts.archive import exchange, message, page_of
from skitter.testing.contracts.segments import segment
from tests.s3 import Ground, Worker, memory_ground

BIG = Bytes(10**9)
SOON = Seconds(10.0)


def on_virtual_time(main, *args):
    """Run main(clock, *args) on a clock that jumps."""
    clock = VirtualClock()
    return run_virtual(main(clock, *args), clock)


async def append(archive: S3Archive, *bodies: bytes, settle: bool = True) -> list[Place]:
    packs = [archive.pack(exchange(f"http://example.org/{body!r}", body), None, None) for body in bodies]
    places = await archive.append(packs)
    if settle:
        archive.settled()
    return places


def stages(worker: Worker) -> dict[str, Stage]:
    assert isinstance(worker.segments, LocalSegments)
    return {name: segment.stage for name, segment in worker.segments._segments.items()}


def broken(worker: Worker, problem: str = "away"):
    """S3 goes away; returns what brings it back."""
    real = worker.ground.bucket.upload

    def upload(*_):
        raise BucketError(problem)

    worker.ground.bucket.upload = upload  # type: ignore[method-assign]
    return lambda: setattr(worker.ground.bucket, "upload", real)


# ------------------------------------------------------------------------------------------------ names and the register


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**8 - 1)), min_size=2, max_size=2, unique=True)
)
def test_segments_are_ordered_by_epoch_and_then_by_age(two):
    earlier, later = sorted(two)
    files = [
        f"03-20260102030405-{names.first_number(epoch) + serial:05d}.warc.gz"
        for epoch, serial in (earlier, later)
    ]
    assert names.number(files[0]) < names.number(files[1])
    assert is_behind(Place(files[1], 0, 10), Mark(files[0], 10**12))
    assert not is_behind(Place(files[0], 0, 10), Mark(files[1], 0))


def test_a_segments_object_key_follows_from_its_name():
    file = "03-20260102030405-100000000.warc.gz"
    assert names.segment_key("a/", "news", file) == f"a/2026-01-02/news/{file}"
    for wrong in ("", "x.warc.gz", "../03-20260102030405-100000000.warc.gz", f"{file}.new"):
        assert not names.is_segment(wrong)
        with pytest.raises(ValueError, match="not the name of a segment"):
            names.segment_key("", "news", wrong)


def test_taking_a_shard_seals_its_segments():
    mark = Mark(segment(5), 700)
    assert [settled_size(segment(serial), mark) for serial in (4, 5, 6)] == [WHOLE, 700, 0]
    assert settled_size(segment(4), Mark()) == 0


def test_a_segment_has_one_worker():
    async def use() -> None:
        register = LocalSegments()
        await register.begun(segment(1), 0, "w1")
        with pytest.raises(ValueError, match="begun before"):
            await register.begun(segment(1), 0, "w2")

    asyncio.run(use())


def test_a_directory_keeps_the_name_of_its_worker(tmp_path):
    names_found = [worker_of(tmp_path / "a"), worker_of(tmp_path / "a"), worker_of(tmp_path / "b")]
    assert names_found[0] == names_found[1] != names_found[2]


# ------------------------------------------------------------------------------------------------ when a segment leaves


def test_a_segment_leaves_when_it_is_large_enough_and_settled(tmp_path):
    async def use(clock):
        worker = Worker(
            memory_ground(segment=Bytes(5000), segment_time=Seconds(1e6)), tmp_path / "d", clock=clock
        )
        async with worker.running():
            archive = worker.archive()
            await append(archive, b"small")
            await asyncio.sleep(5)
            assert worker.ground.objects() == []
            await append(archive, *(hashlib.sha512(b"%d" % n).digest() * 5 for n in range(40)), settle=False)
            assert archive.mark().end > 5000
            await archive.sync()
            await asyncio.sleep(5)
            assert worker.ground.objects() == [], "what is not settled stays here"
            archive.settled()
            await worker.uploads.drain()
            assert len(worker.ground.objects()) == 1
            assert worker.files() == []
            assert set(stages(worker).values()) == {Stage.UPLOADED}

    on_virtual_time(use)


def test_a_segment_leaves_when_it_is_old_enough_also_if_nothing_more_comes(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=BIG, segment_time=SOON), tmp_path / "d", clock=clock)
        async with worker.running():
            archive = worker.archive()
            (place,) = await append(archive, b"one")
            gone = None
            for second in range(20):  # as the caretaker of a shard does
                await archive.sync()
                await worker.uploads.drain()
                gone = second if gone is None and worker.ground.objects() else gone
                await asyncio.sleep(1)
            assert gone == 10
            assert archive.read(place) == message(exchange("http://example.org/b'one'", b"one"))
            assert archive.mark().file == place.file, "the mark stays where it was settled"

    on_virtual_time(use)


def test_an_old_segment_that_is_not_settled_stays(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=BIG, segment_time=SOON), tmp_path / "d", clock=clock)
        async with worker.running():
            archive = worker.archive()
            await append(archive, b"one", settle=False)
            await asyncio.sleep(100)
            await archive.sync()
            await archive.close()
            await asyncio.sleep(100)
            assert worker.ground.objects() == []
            assert stages(worker) == {worker.files()[0]: Stage.BEGUN}

    on_virtual_time(use)


def test_closing_in_good_order_leaves_nothing_behind(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=BIG), tmp_path / "d", clock=clock)
        async with worker.running():
            archive = worker.archive()
            await append(archive, b"one")
            await archive.close()
            await worker.uploads.drain()
        assert worker.files() == []
        return worker.ground.objects()

    assert len(on_virtual_time(use)) == 1


# ------------------------------------------------------------------------------------------------ S3 away


def test_while_s3_is_away_nothing_is_dropped_and_the_disk_has_a_limit(tmp_path):
    async def use(clock):
        ground = memory_ground(segment=Bytes(1), segment_time=Seconds(1e6), spool=Bytes(5000))
        worker = Worker(ground, tmp_path / "d", clock=clock)
        back, places, archive = broken(worker), [], worker.archive()
        async with worker.running():
            for n in range(100):
                if worker.uploads.full:
                    break
                places += await append(archive, b"%d" % n)
                await asyncio.sleep(1)
            assert 5000 <= worker.uploads.waiting < 7000
            waiter = asyncio.ensure_future(worker.uploads.ready())
            await asyncio.sleep(3600)
            assert not waiter.done()
            assert len(worker.files()) == len(places)
            assert worker.uploads.guard.metrics().phase > 0, "the breaker is open or tests"
            back()
            await waiter
            await worker.uploads.drain()
            await asyncio.sleep(2)  # fewer segments than tests: health checks make up for the rest
        assert len(ground.objects()) == len(places)
        assert worker.files() == []
        assert [archive.read(place) for place in places] == [
            message(exchange(f"http://example.org/{b'%d' % n!r}", b"%d" % n)) for n in range(len(places))
        ]
        first, last = worker.warnings
        assert re.fullmatch(r"S3 is away since \S+Z \(away\); segments wait on this disk", first)
        assert re.fullmatch(r"S3 is back after 1h 0\dm", last)

    on_virtual_time(use)


def test_attempts_are_spaced_out(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        attempts = []

        def upload(*_):
            attempts.append(clock.monotonic())
            raise BucketError("away")

        worker.ground.bucket.upload = upload
        async with worker.running():
            await append(worker.archive(), b"one")
            await asyncio.sleep(3600)
        return attempts

    attempts = on_virtual_time(use)
    assert 60 <= len(attempts) <= 140, "an hour of minutes, halved by the dice at most, and some at first"


def test_a_leaving_worker_tries_every_segment_whatever_the_breaker_says(tmp_path):
    """S3 is back, the breaker will not ask before a minute has passed, and one segment is still refused."""

    async def use(clock):
        ground = memory_ground(segment=Bytes(1), segment_time=Seconds(1e6))
        worker = Worker(ground, tmp_path / "d", clock=clock)
        real, archive, offered = ground.bucket.upload, worker.archive(), []
        broken(worker)
        async with worker.running():
            for n in range(5):
                await append(archive, b"%d" % n)
            while worker.uploads.guard.phase is not Phase.OPEN or not long_pause(worker):
                await asyncio.sleep(1)
            last, began = worker.files()[0], clock.monotonic()

            def upload(path, *more):
                offered.append(path.name)
                if path.name == last:
                    raise BucketError("not this one")
                return real(path, *more)

            ground.bucket.upload = upload
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await worker.uploads.leave()
            assert clock.monotonic() - began <= 5.0
        assert sorted(set(offered)) == sorted(offered), "once each, and then the breaker decides again"
        assert len(offered) == 5
        assert len(ground.objects()) == 4
        assert worker.files() == [last], "it stays, for the next life of this worker"

    def long_pause(worker):
        return (worker.uploads.guard._breaker.wait(worker.clock.monotonic()) or 0) > 20

    on_virtual_time(use)


def test_an_object_of_the_same_name_with_another_content_is_not_overwritten(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        archive = worker.archive()
        (place,) = await append(archive, b"one")
        obstore.put(worker.ground.store, worker.ground.bucket.key(place.file), b"somebody else's")
        with pytest.raises(ExceptionGroup) as caught:
            await worker.uploads.run()
        (problem,) = caught.value.exceptions
        assert isinstance(problem, EngineError)
        assert "used by two crawls" in str(problem)
        assert worker.ground.octets(worker.ground.objects()[0]) == b"somebody else's"
        assert worker.files() == [place.file]

    on_virtual_time(use)


def test_an_incomplete_upload_is_not_accepted(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        (place,) = await append(worker.archive(), b"one")
        path = worker.disk / place.file
        found = digests(path, 5 << 20)
        with pytest.raises(EngineError):
            worker.ground.bucket.upload(path, found._replace(size=found.size + 1), 5 << 20)
        obstore.delete(worker.ground.store, worker.ground.objects())
        with pytest.raises(EngineError):
            worker.ground.bucket.upload(path, found._replace(sha256="sha256:0"), 5 << 20)

    on_virtual_time(use)


class Away(LocalSegments):
    """A register that can be away."""

    away = False

    async def begun(self, name, shard, worker):
        self._must_answer()
        await super().begun(name, shard, worker)

    async def finished(self, name, size, digest):
        self._must_answer()
        return await super().finished(name, size, digest)

    async def uploaded(self, name):
        self._must_answer()
        return await super().uploaded(name)

    async def look_up(self, names):
        self._must_answer()
        return await super().look_up(names)

    def _must_answer(self) -> None:
        if self.away:
            raise EngineAway("the register is away")


def test_while_the_register_is_away_nothing_stays_that_it_does_not_know(tmp_path):
    async def use(clock):
        register = Away()
        worker = Worker(memory_ground(segment=Bytes(1), segment_time=SOON), tmp_path / "d", register, clock)
        async with worker.running():
            archive = worker.archive()
            places = await append(archive, b"one")
            await worker.uploads.drain()
            before, register.away = archive.mark(), True
            for _ in range(3):
                with pytest.raises(EngineAway):
                    await append(archive, b"two")
                assert archive.mark() == before
                assert worker.files() == []
            register.away = False
            places += await append(archive, b"two")
            register.away = True
            await asyncio.sleep(100)
            assert worker.files() == [places[1].file], "it stays here until the register knows"
            register.away = False
            await worker.uploads.drain()
        assert [archive.read(place)[-3:] for place in places] == [b"one", b"two"]
        assert warc_check.check(*worker.ground.download(tmp_path / "bucket")) == []
        return len(worker.ground.objects())

    assert on_virtual_time(use) == 2


def test_an_append_that_is_called_off_leaves_nothing(tmp_path):
    class Stuck(LocalSegments):
        async def begun(self, *_):
            await asyncio.sleep(1000)

    async def use(clock):
        worker = Worker(memory_ground(segment=BIG), tmp_path / "d", Stuck(), clock)
        archive = worker.archive()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await append(archive, b"one")
        assert archive.mark() == Mark()
        assert worker.files() == []

    on_virtual_time(use)


# ------------------------------------------------------------------------------------------------ restarts and other owners


def restarted(worker: Worker, **more) -> Worker:
    """The same disk and register after a crash."""
    return Worker(worker.ground, worker.disk, worker.segments, worker.clock, **more)


def test_after_a_crash_finished_segments_are_uploaded_and_the_rest_is_cut(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        archive = worker.archive()  # and nothing is running: it died before any upload
        places = await append(archive, b"one") + await append(archive, b"two")
        mark = archive.mark()
        lost = await append(archive, b"three", settle=False)
        new = restarted(worker)
        assert await new.uploads.recover() == []
        async with new.running():
            again = new.archive(epoch=2)
            assert await again.cut(mark) == mark
            places += await append(again, b"four")
            await new.uploads.drain()
        assert new.files() == []
        assert len(new.ground.objects()) == 3
        assert [again.read(place) for place in places] == [
            message(exchange(f"http://example.org/{body!r}", body)) for body in (b"one", b"two", b"four")
        ]
        with pytest.raises(OSError, match=r"not found|404|No data"):
            again.read(lost[0])
        assert stages(new)[lost[0].file] is Stage.ABANDONED
        assert new.warnings == [], "nobody misses what was never settled"

    on_virtual_time(use)


def test_a_segment_is_cut_to_its_settled_size(tmp_path):
    """The worker dies with an unsettled tail; another takes the shard; the first comes back and keeps only what counts."""

    async def use(clock):
        ground, register = memory_ground(segment=BIG), LocalSegments()
        first = Worker(ground, tmp_path / "a", register, clock, "a")
        old = first.archive(epoch=1)
        kept = await append(old, b"kept")
        mark = old.mark()
        lost = await append(old, b"lost", settle=False)
        second = Worker(ground, tmp_path / "b", register, clock, "b")
        new = second.archive(epoch=2)
        assert await new.cut(mark) == mark, "the end is where it was settled, though it is on another disk"
        (later,) = await append(new, b"later")
        assert is_behind(later, mark)
        first = restarted(first, name="a")
        async with first.running(), second.running():
            assert await first.uploads.recover() == []
            await first.uploads.drain()
            await new.close()
            await second.uploads.drain()
        assert first.files() == second.files() == []
        assert len(ground.objects()) == 2
        assert new.read(kept[0]).endswith(b"kept")
        assert new.read(later).endswith(b"later")
        with pytest.raises(OSError, match=r"range|Range|whole"):
            new.read(lost[0])
        assert warc_check.check(*ground.download(tmp_path / "bucket")) == []

    on_virtual_time(use)


def test_a_worker_that_lost_its_shard_alive_finds_out_by_itself(tmp_path):
    async def use(clock):
        ground, register = memory_ground(segment=BIG, segment_time=SOON), LocalSegments()
        first = Worker(ground, tmp_path / "a", register, clock, "a")
        async with first.running():
            old = first.archive()
            await append(old, b"kept")
            mark = old.mark()
            await append(old, b"lost", settle=False)
            await old.close()  # fenced: its last settlement was refused
            await asyncio.sleep(60)
            assert ground.objects() == []
            second = Worker(ground, tmp_path / "b", register, clock, "b")
            await second.archive(epoch=2).cut(mark)
            await asyncio.sleep(60)
            await first.uploads.drain()
        (key,) = ground.objects()
        assert len(ground.octets(key)) == mark.end

    on_virtual_time(use)


def test_a_late_owner_seals_nothing_of_a_later_one(tmp_path):
    """It took the shard, slept, and wakes up when another has taken it and settled more."""

    async def use(clock):
        ground, register = memory_ground(segment=BIG), LocalSegments()
        late = Worker(ground, tmp_path / "a", register, clock, "a").archive(epoch=1)
        later = Worker(ground, tmp_path / "b", register, clock, "b")
        archive = later.archive(epoch=2)
        await archive.cut(Mark())
        (place,) = await append(archive, b"settled")
        await late.cut(Mark())
        assert stages(later) == {place.file: Stage.BEGUN}
        later = restarted(later, name="b")
        async with later.running():
            assert await later.archive(epoch=3).cut(archive.mark()) == archive.mark()
            await later.uploads.drain()
        assert later.uploads.reader.read(place).endswith(b"settled")
        assert len(ground.objects()) == 1

    on_virtual_time(use)


def test_a_segment_missing_from_its_disk_is_abandoned_and_reported(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        archive = worker.archive()
        (one,) = await append(archive, b"one")
        (two,) = await append(archive, b"two")
        (worker.disk / one.file).unlink()
        new = restarted(worker)
        await new.segments.sealed(0, archive.mark(), 2)
        assert await new.uploads.recover() == [one.file]
        assert stages(new)[one.file] is Stage.ABANDONED
        assert f"the segment {one.file} is lost" in new.warnings[0]
        async with new.running():
            await new.uploads.drain()
        assert [key.rpartition("/")[2] for key in new.ground.objects()] == [two.file]

    on_virtual_time(use)


def test_a_segment_that_is_written_is_not_judged(tmp_path):
    """Somebody removed the file under us: its pages are found missing by the next start, also those still to come."""

    async def use(clock):
        worker = Worker(memory_ground(segment=BIG), tmp_path / "d", clock=clock)
        (place,) = await append(worker.archive(), b"one")
        (worker.disk / place.file).unlink()
        assert await worker.uploads.recover() == []
        assert await restarted(worker).uploads.recover() == [place.file]

    on_virtual_time(use)


def test_an_abandoned_segment_is_never_uploaded(tmp_path):
    """Its worker was declared lost, and comes back: its pages are fetched again by now."""

    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        await append(worker.archive(), b"one")
        named = [segment.name for segment in await worker.segments.pending("w1")]
        assert await worker.segments.abandoned(named) == named
        new = restarted(worker)
        await new.uploads.recover()
        async with new.running():
            await asyncio.sleep(100)
        assert new.ground.objects() == []
        assert new.files() == []

    on_virtual_time(use)


def test_a_segment_abandoned_during_its_upload_is_deleted_again(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        upload = worker.ground.bucket.upload

        def slow(path, *more):
            upload(path, *more)
            asyncio.run(worker.segments.abandoned([path.name]))

        worker.ground.bucket.upload = slow
        async with worker.running():
            await append(worker.archive(), b"one")
            await worker.uploads.drain()
        assert worker.ground.objects() == []
        assert worker.files() == []

    on_virtual_time(use)


@pytest.mark.parametrize("point", ["finished", "uploaded", "removed"])
def test_no_segment_is_uploaded_twice_wherever_the_worker_dies(tmp_path, point):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1)), tmp_path / "d", clock=clock)
        archive = worker.archive()
        (place,) = await append(archive, b"one")
        path, register, bucket = worker.disk / place.file, worker.segments, worker.ground.bucket
        found = digests(path, worker.ground.settings.part)
        await register.finished(place.file, found.size, found.sha256)
        if point != "finished":
            bucket.upload(path, found, worker.ground.settings.part)
        if point == "removed":
            await register.uploaded(place.file)
        puts = []
        bucket._api = Counting(bucket._api, puts)
        new = restarted(worker)
        assert await new.uploads.recover() == []
        async with new.running():
            await new.uploads.drain()
        assert len(puts) == (point == "finished")
        assert len(new.ground.objects()) == 1
        assert new.files() == []
        assert set(stages(new).values()) == {Stage.UPLOADED}

    on_virtual_time(use)


class Counting:
    """The client library, with every put noted."""

    def __init__(self, api, puts: list[str]) -> None:
        self._api, self._puts = api, puts

    def put(self, *args, **more):
        self._puts.append(args[1])
        return self._api.put(*args, **more)

    def __getattr__(self, name: str):
        return getattr(self._api, name)


def test_a_segment_begun_during_recovery_is_not_lost(tmp_path):
    class Slow(LocalSegments):
        async def look_up(self, names):
            found = await super().look_up(names)
            await asyncio.sleep(1)
            return found

    async def use(clock):
        worker = Worker(memory_ground(segment=BIG), tmp_path / "d", Slow(), clock)
        archive = worker.archive()
        await append(archive, b"one")
        await archive.close()
        looking = [asyncio.ensure_future(worker.uploads.recover()) for _ in range(2)]
        await asyncio.sleep(0.5)
        (place,) = await append(worker.archive(epoch=2), b"two")
        assert await asyncio.gather(*looking) == [[], []]
        assert stages(worker)[place.file] is Stage.BEGUN

    on_virtual_time(use)


def test_files_unknown_to_the_register_are_not_touched(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(), tmp_path / "d", clock=clock)
        for name in (segment(1), "notes.txt", "x.warc.gz"):
            (worker.disk / name).write_bytes(b"?")
        assert await worker.uploads.recover() == []
        assert len(list(worker.disk.iterdir())) == 3

    on_virtual_time(use)


@settings(deadline=None)  # it has threads and files, and takes as long as they do
@given(
    st.lists(
        st.sampled_from(["append", "commit", "commit", "crash", "move", "move", "age", "away", "back"]),
        min_size=1,
        max_size=25,
    )
)
def test_whatever_happens_every_settled_page_is_in_the_bucket_once(tmp_path_factory, story):
    """Two disks, one shard, any story: at its end each settled page reads back, and nothing else is in the bucket."""
    folder = tmp_path_factory.mktemp("story")

    async def use(clock):
        ground, register = memory_ground(segment=Bytes(3000), segment_time=SOON), LocalSegments()
        shard = Story(ground, register, clock, folder)
        await shard.take()
        for event in story:
            await getattr(shard, event)()
        await shard.end()

    on_virtual_time(use)


class Story:
    """A shard that two workers own in turn, and what a frontier would know of it."""

    def __init__(self, ground: Ground, register: LocalSegments, clock: VirtualClock, folder: Path) -> None:
        self.ground, self.register, self.clock, self.folder = ground, register, clock, folder
        self.disks, self.turn, self.epoch, self.pages = ("a", "b"), 0, 0, 0
        self.mark = Mark()
        self.settled: dict[bytes, Place] = {}
        self.fresh: dict[bytes, Place] = {}  # appended, not settled
        self.upload = ground.bucket.upload

    async def take(self) -> None:
        name = self.disks[self.turn]
        self.epoch += 1
        self.worker = Worker(self.ground, self.folder / name, self.register, self.clock, name)
        assert await self.worker.uploads.recover() == []
        self.running = asyncio.create_task(self.worker.uploads.run())
        self.archive = self.worker.archive(epoch=self.epoch)
        assert await self.archive.cut(self.mark) == self.mark
        self.fresh = {}

    async def append(self) -> None:
        self.pages += 1
        body = hashlib.sha512(b"%d" % self.pages).hexdigest().encode() * 8
        (place,) = await append(self.archive, body, settle=False)
        self.fresh[body] = place

    async def commit(self) -> None:
        await self.append()
        self.settled |= self.fresh
        self.fresh, self.mark = {}, self.archive.mark()
        self.archive.settled()

    async def crash(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.take()

    async def move(self) -> None:
        self.turn = 1 - self.turn
        await self.crash()

    async def age(self) -> None:
        await asyncio.sleep(11)
        await self.archive.sync()

    async def away(self) -> None:
        def upload(*_):
            raise BucketError("away")

        self.ground.bucket.upload = upload  # type: ignore[method-assign]

    async def back(self) -> None:
        self.ground.bucket.upload = self.upload  # type: ignore[method-assign]

    async def end(self) -> None:
        await self.back()
        for _ in range(2):  # each disk once
            await self.move()
            await self.archive.close()
            await self.worker.uploads.drain()
        self.running.cancel()
        await asyncio.wait([self.running])
        assert [path for name in self.disks for path in (self.folder / name).glob("*.warc.gz")] == []
        for body, place in self.settled.items():
            assert self.archive.read(place).endswith(body)
        files = self.ground.download(self.folder / "bucket")
        assert warc_check.check(*files) == []
        found = Counter(
            record.block.rpartition(b"\r\n\r\n")[2]
            for path in files
            for record in self.worker.uploads.reader.records(path.name)
            if record.fields["warc-type"] == "response"
        )
        assert found == Counter(self.settled.keys())


# ------------------------------------------------------------------------------------------------ digests, errors, pages


@pytest.mark.parametrize(("size", "parts"), [(0, 0), (1, 0), (99, 0), (100, 0), (101, 2), (200, 2), (250, 3)])
def test_an_etag_is_the_md5_or_that_of_the_parts(tmp_path, size, parts):
    octets = hashlib.shake_128(b"x").digest(size) if size else b""
    (tmp_path / "f").write_bytes(octets)
    found = digests(tmp_path / "f", 100)
    md5 = partial(hashlib.md5, usedforsecurity=False)
    joined = md5(b"".join(md5(octets[at : at + 100]).digest() for at in range(0, size, 100))).hexdigest()
    assert found.etag == (f"{joined}-{parts}" if parts else md5(octets).hexdigest())
    assert (found.size, found.sha256) == (size, f"sha256:{hashlib.sha256(octets).hexdigest()}")


def html_of(_url: str, answer: bytes) -> tuple[str, bytes] | None:
    head, _, body = answer.partition(b"\r\n\r\n")
    return ("text/html", body) if b" 200 " in head else None


def test_in_the_layout_of_pages_each_page_has_an_object_too(tmp_path):
    async def use(clock):
        worker = Worker(memory_ground(segment=Bytes(1), layout="pages"), tmp_path / "d", clock=clock)
        worker.uploads.content = html_of
        long = "http://example.org/" + "x" * 3000
        async with worker.running():
            archive = worker.archive()
            answers = [exchange("http://example.org/a", b"<p>a"), exchange(long, b"<p>b")]
            packs = [archive.pack(answer, page_of(answer, answer.body), None) for answer in answers]
            places = await archive.append(packs)
            archive.settled()
            await worker.uploads.drain()
        keys = worker.ground.objects()
        pages = [key for key in keys if key.endswith(".html.gz")]
        assert len(keys) == 3
        assert len(pages) == 2
        digest = hashlib.sha256(b"http://example.org/a").hexdigest()[:32]
        found = obstore.get(worker.ground.store, f"2026-01-02/{digest}.html.gz")
        assert gzip.decompress(bytes(found.bytes())) == b"<p>a"
        place = places[0]
        assert found.attributes == {
            "Content-Type": "text/html",
            "Content-Encoding": "gzip",
            "url": "http://example.org/a",
            "fetched-at": "2026-01-02T03:04:05.123456Z",
            "segment": f"{place.file} {place.offset} {place.length}",
        }
        assert archive.read(place) == message(answers[0])

    on_virtual_time(use)

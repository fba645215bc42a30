"""Seeds are kept until they are stored, whatever happens in between."""

import asyncio
import io
import os

import pytest

from skitter import seeds
from skitter.compose import open_reader, opened
from skitter.events import Events
from skitter.model import Link
from skitter.runtime.process import run
from skitter.seeds import intake
from skitter.seeds.intake import Intake
from skitter.settings import Settings


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(intake, "_BATCH", 7)


def lines(*numbers):
    return "".join(f"http://h{number}.test/\n" for number in numbers).encode()


async def taken(kept, *, batches=None):
    """What comes out, as text; after so many batches the process ends, and only those are stored."""
    found = []
    async for batch in kept.batches():
        found += [seed.url if isinstance(seed, Link) else seed.complaint for seed in batch.seeds]
        kept.stored(batch)
        if batches is not None:
            batches -= 1
            if not batches:
                return found
    kept.finish()
    return found


def test_a_file_is_read_with_the_places_of_bad_lines_and_then_removed(tmp_path):
    kept = Intake(tmp_path)
    kept.keep("urls.txt", io.BytesIO(b"nt\n\nftp://x.test/\n" + lines(1)), begun=b"# a comme")
    found = run(taken(kept))
    assert found[0].startswith("urls.txt:3: ftp://x.test/: ")
    assert found[1:] == ["http://h1.test/"]
    assert list(tmp_path.iterdir()) == []
    assert Intake(tmp_path).is_empty


def test_the_next_process_continues_with_the_same_line_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "_MOVE_EVERY", 0.0)
    first = Intake(tmp_path)
    first.keep_links(seeds.named(["http://named.test/", "no url"]))
    first.keep("urls.txt", io.BytesIO(lines(*range(20)) + b"mailto:x"))
    named, *rest = run(taken(first, batches=3))
    assert (named, rest[0].partition(":")[0]) == ("http://named.test/", "argument 2")
    assert len(rest) == 1 + 14
    left = run(taken(Intake(tmp_path)))
    assert left[:6] == [f"http://h{number}.test/" for number in range(14, 20)]
    assert left[6].startswith("urls.txt:21: mailto:x")
    assert len(left) == 7
    assert list(tmp_path.iterdir()) == []


def test_a_position_lags_behind_by_some_batches_at_most_and_never_runs_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "_MOVE_EVERY", 1000.0)
    first = Intake(tmp_path)
    first.keep("urls.txt", io.BytesIO(lines(*range(40))))
    run(taken(first, batches=4))
    assert (
        run(taken(Intake(tmp_path), batches=1))[0] == "http://h7.test/"
    )  # the first move is written at once
    first.close()
    assert run(taken(Intake(tmp_path)))[0] == "http://h28.test/"


def test_an_interrupted_copy_of_a_file_counts_as_never_given(tmp_path):
    class Interrupted(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise KeyboardInterrupt
            return super().read(20)

    kept = Intake(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        kept.keep("urls.txt", Interrupted(lines(*range(40))))
    assert kept.is_empty
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_read_as_it_arrives_and_never_half_a_line(tmp_path):
    reading, writing = os.pipe()
    kept = Intake(tmp_path)
    kept.keep_as_it_comes("-", reading, begun=lines(1))

    async def main():
        taking = asyncio.ensure_future(taken(kept))
        os.write(writing, lines(2) + b"http://h3.te")
        while kept.sources[0].position.line < 2:
            await asyncio.sleep(0.01)
        assert not taking.done()
        (said,) = kept.broken_off(now=True)
        assert said.startswith(
            "standard input was not read to its end: 2 lines were read and kept, the rest was not"
        )
        left = Intake(tmp_path)  # a crash at this moment
        assert left.broken_off(now=True) == []
        assert left.broken_off(now=False) == [said]
        assert (
            left.sources[0].read(intake.Position(left.sources[0]._first), seeds.urls.DEFAULT_RULES).end.line
            == 2
        )
        os.write(writing, b"st/")
        os.close(writing)
        return await taking

    assert run(main()) == ["http://h1.test/", "http://h2.test/", "http://h3.test/"]
    os.close(reading)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_cannot_be_copied_is_an_error_and_not_the_end_of_the_seeds(tmp_path):
    kept = Intake(tmp_path)
    kept.keep_as_it_comes("-", -1, begun=lines(1))
    with pytest.raises(OSError, match="descriptor"):
        run(taken(kept))


def test_lines_that_are_too_long_or_empty_hold_up_no_others(tmp_path):
    kept = Intake(tmp_path)
    kept.keep("urls.txt", io.BytesIO(b"x" * (seeds.MAX_LINE * 2 + 5) + b"\n" + b"\n" * 1000 + lines(1)))
    first, second = run(taken(kept))
    assert first.startswith("urls.txt:1: xxx")
    assert second == "http://h1.test/"


# ------------------------------------------------------------------------------------------------ whole crawls


def test_the_next_run_stores_the_seeds_that_are_left(tmp_path, monkeypatch):
    """A bad one costs no other, and an error in the middle costs none of them."""
    wanted = [f"http://h{number}.test/" for number in range(40)]

    async def begin(fail_at=None):
        async with opened(tmp_path / "c", Settings(), Events()) as crawl:
            if fail_at is not None:
                add, batches = crawl.local_shards.add_seed_batch, 0

                async def failing(batch):
                    nonlocal batches
                    batches += 1
                    if batches == fail_at:
                        raise OSError("no space left on device")
                    await add(batch)

                crawl.local_shards.add_seed_batch = failing
            return await crawl.seed(seeds.named([*wanted, "no url at all"] if fail_at else []))

    async def stored():
        reader = open_reader(tmp_path / "c")
        found = {record.url async for record in reader.frontier.urls()}
        await reader.close()
        return found

    with pytest.raises(OSError, match="no space"):
        run(begin(fail_at=3))
    assert len(run(stored())) == 14
    assert run(begin()) == 40 - 14
    assert run(stored()) == {*wanted, "no url at all"}
    assert list((tmp_path / "c" / "seeds").iterdir()) == []

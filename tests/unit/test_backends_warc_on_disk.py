"""An archive whose files stay on the disks of the workers that wrote them."""

import asyncio

from skitter.backends.warc import WarcArchive
from skitter.backends.warc.on_disk import OnDisk
from skitter.cluster.ports import End
from skitter.crawl.directory import CrawlDirectory
from skitter.ports import Mark, Packed
from skitter.runtime.clock import SystemClock
from skitter.settings import ArchiveSettings


class Ends:
    """`skitter.cluster.ports.Ends` in memory."""

    def __init__(self):
        self._ends = []

    async def add_end(self, end):
        self._ends.append(end)

    async def ends(self):
        return self._ends


def pack():
    return Packed([b"WARC/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n"], 0)


def worker(path, epoch, ends=None):
    directory = CrawlDirectory(path)
    return OnDisk(directory.archive, "here", ends or Ends(), print).archive(
        WarcArchive(directory.archive, 0, ArchiveSettings(), SystemClock()), 0, epoch
    )


def test_what_a_worker_has_settled_is_there_when_its_shard_comes_back_by_way_of_one_that_stored_nothing(
    tmp_path,
):
    async def scene():
        first = worker(tmp_path / "first", 1)
        await first.cut(first.mark())
        [place] = await first.append([pack()])
        mark = first.mark()
        await first.close()

        second = worker(tmp_path / "second", 2)
        assert await second.cut(mark) == mark
        mark = second.mark()  # settled with a visit that brought nothing to be stored
        await second.close()

        again = worker(tmp_path / "first", 3)
        assert await again.cut(mark) == mark
        assert again.read(place) == b""

    asyncio.run(scene())


def test_what_was_never_settled_is_cut_at_the_next_start_and_nothing_else(tmp_path):
    """Of three lives of a shard the second dies with an answer in its file that nobody settled."""

    async def scene():
        said = []
        first, second = tmp_path / "first", tmp_path / "second"
        ends = Ends()
        life = worker(first, 1, ends)
        await life.cut(Mark())
        [place] = await life.append([pack()])
        life.settled()
        settled = life.mark()
        await life.append([pack()])  # and then it is killed

        other = worker(second, 2, ends)
        assert await other.cut(settled) == settled
        await other.append([pack()])  # nor does this one settle anything

        third = worker(first, 3, ends)
        assert await third.cut(settled) == settled
        [kept] = await third.append([pack()])
        third.settled()
        for path in (first, second):
            directory = CrawlDirectory(path)
            await OnDisk(directory.archive, "here", ends, said.append).tidy()
        assert CrawlDirectory(second).files() == []
        assert CrawlDirectory(first).files() == sorted({place.file, kept.file})
        assert (first / "archive" / place.file).stat().st_size == settled.end
        assert third.read(kept) == b""
        assert len(said) == 1
        for archive in (life, other, third):
            await archive.close()

    asyncio.run(scene())


def test_files_of_which_nobody_has_said_where_they_end_are_left_alone(tmp_path):
    """They may be of a crawl that was begun before ends were written down."""

    async def scene():
        old = worker(tmp_path, 1, Ends())
        await old.cut(Mark())
        await old.append([pack()])
        await old.close()
        ends = Ends()
        await ends.add_end(End(0, 9, Mark("00-20260101000000-500000000.warc.gz", 10)))
        await OnDisk(CrawlDirectory(tmp_path).archive, "here", ends, print).tidy()
        assert len(CrawlDirectory(tmp_path).files()) == 1

    asyncio.run(scene())

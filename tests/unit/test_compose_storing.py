"""An archive whose files stay on the disks of the workers that wrote them."""

import asyncio

from skitter.backends.warc import WarcArchive
from skitter.clock import SystemClock
from skitter.compose.storing import _OnDisk
from skitter.directory import CrawlDirectory
from skitter.ports import Packed
from skitter.settings import ArchiveSettings


def worker(path, epoch):
    directory = CrawlDirectory(path)
    return _OnDisk(directory).archive(
        WarcArchive(directory.archive, 0, ArchiveSettings(), SystemClock()), 0, epoch
    )


def test_what_a_worker_has_settled_is_there_when_its_shard_comes_back_by_way_of_one_that_stored_nothing(
    tmp_path,
):
    async def scene():
        first = worker(tmp_path / "first", 1)
        await first.cut(first.mark())
        [place] = await first.append([Packed([b"WARC/1.1\r\nContent-Length: 0\r\n\r\n\r\n\r\n"], 0)])
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

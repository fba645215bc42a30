import asyncio
from pathlib import Path

import pytest

from skitter.backends.s3 import LocalSegments
from skitter.backends.warc import WarcArchive
from skitter.model import Place
from skitter.ports import Archive, Mark
from skitter.settings import ArchiveSettings, Bytes
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.archive import ArchiveContract, exchange, message
from tests.s3 import Ground, WholeArchive, Worker, real_ground


class TestWarcArchive(ArchiveContract):
    def open(self, directory: Path) -> Archive:
        return WarcArchive(directory, 0, ArchiveSettings(), VirtualClock(), software="Skitter/test")


class TestWarcArchiveWithAFilePerGroup(ArchiveContract):
    """Every promise also holds across files."""

    def open(self, directory: Path) -> Archive:
        return WarcArchive(
            directory, 7, ArchiveSettings(max_file=Bytes(1)), VirtualClock(), software="Skitter/test"
        )


class TestS3Archive(ArchiveContract):
    """On a real server. Nothing is settled here, so it is a local archive with a register beside it."""

    eager = False

    def open(self, directory: Path) -> Archive:
        if directory not in self.grounds:
            self.grounds[directory] = real_ground(segment=Bytes(1))
        register = LocalSegments(directory / "segments.json")
        self.epoch += 1  # each opening takes the shard under a new epoch
        return WholeArchive(
            Worker(self.grounds[directory], directory, register), eager=self.eager, epoch=self.epoch
        )

    @pytest.fixture(autouse=True)
    def nothing_there_yet(self) -> None:
        self.grounds: dict[Path, Ground] = {}
        self.epoch = 0


class TestS3ArchiveInTheBucket(TestS3Archive):
    """The same if every batch is settled, uploaded and removed from the disk at once: all reads are from S3."""

    eager = True

    def test_3_cut_removes_what_lies_behind_the_mark_and_nothing_else(self, tmp_path: Path) -> None:
        """Nothing settled is cut: it must still be there."""
        answer = exchange()

        async def use(archive: Archive) -> tuple[list[Place], Mark]:
            packs = [archive.pack(answer, None, None)]
            places = await archive.append(packs)
            mark = archive.mark()
            return places + await archive.append(packs), mark

        async def resume(archive: Archive) -> tuple[Mark, list[bytes]]:
            return await archive.cut(mark), [archive.read(place) for place in places]

        places, mark = self._run(tmp_path, use)
        assert list(tmp_path.glob("*.warc.gz")) == []
        assert self._run(tmp_path, resume) == (mark, [message(answer)] * 2)

    def shorten(self, directory: Path, mark: Mark, octets: int) -> None:
        """A power loss here takes nothing from the bucket."""
        assert not (directory / mark.file).exists()

    def test_3_a_lost_tail_is_reported_and_whole_visits_remain(self, tmp_path: Path) -> None:
        """A disk that is lost completely costs nothing that was uploaded."""
        answer = exchange()

        async def use(archive: Archive) -> tuple[list[Place], Mark]:
            return await archive.append([archive.pack(answer, None, None)]), archive.mark()

        places, mark = self._run(tmp_path / "first", use)
        self.grounds[tmp_path / "second"] = self.grounds[tmp_path / "first"]
        archive = self.open(tmp_path / "second")
        assert asyncio.run(archive.cut(mark)) == mark
        assert [archive.read(place) for place in places] == [message(answer)]

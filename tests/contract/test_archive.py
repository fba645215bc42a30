from pathlib import Path

from skitter.backends.warc import WarcArchive
from skitter.ports import Archive
from skitter.settings import ArchiveSettings, Bytes
from skitter.testing.clock import VirtualClock
from skitter.testing.contracts.archive import ArchiveContract


class TestWarcArchive(ArchiveContract):
    def open(self, directory: Path) -> Archive:
        return WarcArchive(directory, 0, ArchiveSettings(), VirtualClock(), software="Skitter/test")


class TestWarcArchiveWithAFilePerGroup(ArchiveContract):
    """Every promise holds across files too."""

    def open(self, directory: Path) -> Archive:
        return WarcArchive(
            directory, 7, ArchiveSettings(max_file=Bytes(1)), VirtualClock(), software="Skitter/test"
        )

"""A crawl opened for reading, by exports, `why`, `pages` and `status`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from skitter.control.log import read
from skitter.crawl.directory import CrawlDirectory
from skitter.export.cdxj import Record
from skitter.model import Place
from skitter.ports import Command, Records
from skitter.settings import Settings


class Stored(Record, Protocol):
    """A record as it is in a file."""

    @property
    def member(self) -> bytes:
        """The gzip member."""
        ...


class Archived(Protocol):
    """The archive, for reading."""

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place; for a revisit only its head. Raises OSError if no complete record is there."""
        ...

    def records(self, file: str) -> Iterator[Stored]:
        """Every settled record of a file, in order, once `Source.files` was asked."""
        ...


class LocalFiles(Archived, Protocol):
    """The archive in a crawl directory."""

    async def files(self) -> list[str]:
        """The names of its files with something settled in them."""
        ...

    def size(self, file: str) -> int:
        """How much of a file is settled, in octets."""
        ...


class Source(Protocol):
    """A crawl opened for reading, possibly while it runs."""

    @property
    def settings(self) -> Settings:
        """The settings of its last run."""
        ...

    @property
    def directory(self) -> CrawlDirectory:
        """Its directory."""
        ...

    @property
    def frontier(self) -> Records:
        """The read side of its state."""
        ...

    @property
    def archive(self) -> Archived:
        """Its answers."""
        ...

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    async def roots(self) -> Sequence[str]:
        """The roots of its scope."""
        ...

    async def commands(self) -> Sequence[Command]:
        """What it was told while it ran, in order."""
        ...

    async def files(self) -> list[str]:
        """The names of the archive's files."""
        ...

    def path_of(self, file: str) -> str:
        """A file of the archive as other programs name it: below the archive folder, or below the bucket."""
        ...

    async def elsewhere(self) -> Mapping[str, int]:
        """Number of pages whose answers are in directories that are not read here, by MACHINE:PATH."""
        ...


def with_settings(source: Source, settings: Settings) -> Source:
    """The same crawl, read with other settings."""
    return cast("Source", _Other(source, settings))


class _Other:
    def __init__(self, source: Source, settings: Settings) -> None:
        self._source = source
        self.settings = settings

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)


@dataclass(frozen=True, slots=True)
class DirectoryReader:
    """`Source` of a crawl on this machine."""

    settings: Settings
    directory: CrawlDirectory
    frontier: Records
    archive: LocalFiles

    @property
    def name(self) -> str:
        """Its directory."""
        return str(self.directory.path)

    async def roots(self) -> list[str]:
        """What the scope is measured from."""
        return self.directory.roots()

    async def commands(self) -> list[Command]:
        """Those in its directory."""
        return read(self.directory.commands_file)

    async def files(self) -> list[str]:
        """The names of the archive's files."""
        return await self.archive.files()

    def path_of(self, file: str) -> str:
        """Below the archive folder."""
        return file

    async def elsewhere(self) -> dict[str, int]:
        """Nothing: all pages are here."""
        return {}

    async def close(self) -> None:
        """Release the store."""
        await self.frontier.close()

"""A crawl, to read from: what exports, `why`, `pages` and `status` need, whoever opened it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skitter.crawl.directory import CrawlDirectory
from skitter.export.cdxj import Record
from skitter.model import Place
from skitter.ports import Records
from skitter.settings import Settings


class Archived(Protocol):
    """The archive, to read from."""

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place; for a revisit its head alone. Raises OSError where no whole record lies."""
        ...

    def records(self, file: str) -> Iterator[Record]:
        """Every record of a file, in order."""
        ...


class Source(Protocol):
    """A crawl directory, to read from, also while a crawl runs in it."""

    @property
    def settings(self) -> Settings:
        """As resolved when the crawl was last run."""
        ...

    @property
    def directory(self) -> CrawlDirectory:
        """Where it lies."""
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
        """What it is called in answers to people."""
        ...

    async def roots(self) -> Sequence[str]:
        """What its scope is measured from."""
        ...

    async def files(self) -> list[str]:
        """The names of the archive's files."""
        ...

    def path_of(self, file: str) -> str:
        """What other programs call a file of the archive: below the archive folder, or below the bucket."""
        ...

    async def elsewhere(self) -> Mapping[str, int]:
        """How many pages have their answers in directories that are not read here, by MACHINE:PATH."""
        ...


@dataclass(frozen=True, slots=True)
class DirectoryReader:
    """`Source` of a crawl on this machine."""

    settings: Settings
    directory: CrawlDirectory
    frontier: Records
    archive: Archived

    @property
    def name(self) -> str:
        """Its directory."""
        return str(self.directory.path)

    async def roots(self) -> list[str]:
        """What the scope is measured from."""
        return self.directory.roots()

    async def files(self) -> list[str]:
        """The names of the archive's files."""
        return self.directory.files()

    def path_of(self, file: str) -> str:
        """Below the archive folder."""
        return file

    async def elsewhere(self) -> dict[str, int]:
        """All of it is here."""
        return {}

    async def close(self) -> None:
        """Let go of the store."""
        await self.frontier.close()

"""Reads the archive of a cluster: workers' directories and the bucket, without what was never settled."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Protocol

from skitter.backends.s3.bucket import open_bucket
from skitter.backends.s3.ends import Found, directory_of, readable_end
from skitter.backends.s3.names import is_segment, segment_key, shard_of
from skitter.backends.s3.reading import SegmentReader
from skitter.backends.s3.segments import WHOLE, Segment, Stage
from skitter.backends.warc import Reader as LocalReader
from skitter.backends.warc import Record
from skitter.model import Page, Place
from skitter.ports import Mark
from skitter.settings import Settings


class Register(Protocol):
    """What a reader needs to know about the segments in a bucket."""

    def stored(self) -> AsyncIterator[str]:
        """The names of all segments in the bucket, in order."""
        ...

    async def look_up(self, names: Sequence[str]) -> list[Segment]:
        """Those of these segments that are known."""
        ...


class NotHere(OSError):  # noqa: N818  it is somewhere
    """The file is in a worker's directory that is not read here. The message says where."""


class Folders:
    """The archive files in the directories of some workers."""

    def __init__(self, folders: Sequence[Path], found: Found) -> None:
        self._folders = folders
        self._found = found

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return LocalReader(self._folder(place.file)).read(place)

    def records(self, file: str) -> Iterator[Record]:
        """Every record of a file, in order."""
        return LocalReader(self._folder(file)).records(file)

    def _folder(self, file: str) -> Path:
        for folder in self._folders:
            if Path(file).name == file and (folder / file).is_file():
                return folder
        where = directory_of(file, self._found) or "a worker's directory"
        raise NotHere(f"{file} is in {where}; name that directory too, or a copy of it")


class Bucketed:
    """The archive with a bucket, which is opened for the first answer."""

    def __init__(self, folders: Sequence[Path], settings: Settings) -> None:
        self._folders, self._settings = folders or [Path()], settings

    @cached_property
    def _readers(self) -> list[SegmentReader]:
        bucket = open_bucket(self._settings.s3, self._settings.cluster.name, probe=False)
        return [SegmentReader(folder, bucket) for folder in self._folders]

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return self._reader(place.file).read(place)

    def records(self, file: str) -> Iterator[Record]:
        """Every record of a file, in order."""
        return self._reader(file).records(file)

    def _reader(self, file: str) -> SegmentReader:
        """The reader whose directory has the file; any, if it is in the bucket."""
        for folder, reader in zip(self._folders, self._readers, strict=True):
            if (folder / file).is_file():
                return reader
        return self._readers[0]


class SettledArchive:
    """The archive of a cluster, without records that were appended but never settled (see `ends`)."""

    def __init__(
        self, folders: Sequence[Path], settings: Settings, found: Found, register: Register | None
    ) -> None:
        """`folders` are those of some workers' archives; `register` lists the segments in the bucket, if there is one."""
        bucket = settings.s3.bucket
        self._archive = Bucketed(folders, settings) if bucket else Folders(folders, found)
        self._folders, self._settings, self._found, self._register = folders, settings, found, register
        self._limits: dict[str, int] = {}  # octets of a file that are settled

    def read(self, place: Place) -> bytes:
        """The HTTP message at a place."""
        return self._archive.read(place)

    def records(self, file: str) -> Iterator[Record]:
        """Every settled record of a file, in order."""
        end = self._limits.get(file, WHOLE)
        records = self._archive.records(file)
        return records if end == WHOLE else takewhile(lambda record: record.place.offset < end, records)

    async def files(self, marks: Sequence[Mark]) -> list[str]:
        """The available files: in the bucket and in the folders. `marks`: how far each shard is settled."""
        here = sorted(file for file in self._here() if is_segment(file))
        self._limits.update(await self._settled_ends(here, marks))
        stored = [name async for name in self._register.stored()] if self._register else []
        return sorted({*here, *stored})

    def _here(self) -> set[str]:
        return {path.name for folder in self._folders for path in folder.glob("*.warc.gz")}

    async def _settled_ends(self, files: Sequence[str], marks: Sequence[Mark]) -> dict[str, int]:
        """The settled size of files that are still on a worker's disk."""
        ends = {file: readable_end(file, self._found, marks[shard_of(file)]) for file in files}
        if self._register is not None and files:
            for segment in await self._register.look_up(files):
                if segment.stage is not Stage.BEGUN:
                    ends[segment.name] = 0 if segment.stage is Stage.ABANDONED else segment.size
        return ends

    def path_of(self, file: str) -> str:
        """Its key in the bucket, if there is one; otherwise its path below its worker's archive folder."""
        s3 = self._settings.s3
        return segment_key(s3.prefix, self._settings.cluster.name, file) if s3.bucket else file

    async def elsewhere(self, pages: AsyncIterator[Page]) -> dict[str, int]:
        """How many pages are in folders that were not named, by place. None with a bucket, which gets all of them in time."""
        if self._settings.s3.bucket:
            return {}
        here, files = self._here(), Counter[str]()
        async for page in pages:
            if page.archive is not None and page.archive.file not in here:
                files[page.archive.file] += 1
        missing: Counter[str] = Counter()
        for file, number in files.items():
            missing[directory_of(file, self._found)] += number
        return dict(missing.most_common())

"""What `skitter check` reads: the RocksDB stores and WARC files of a crawl directory."""

import time
from collections.abc import Callable, Iterator, Mapping

from skitter.backends.rocksdb import mending, rocks_frontier, summary
from skitter.backends.rocksdb.checking import StoreCheck
from skitter.backends.rocksdb.store import RocksStore
from skitter.backends.warc.checking import walk
from skitter.backends.warc.files import settled_files
from skitter.backends.warc.records import uri
from skitter.crawl.check_values import Answer, Damaged, Whole
from skitter.crawl.directory import CrawlDirectory
from skitter.frontier import ShardReader
from skitter.model import Page
from skitter.ports import Mark
from skitter.settings import Settings

_CACHE = 16 << 20


class _CheckedStore(StoreCheck):
    """`crawl.check.KeptStore` in RocksDB."""

    def __init__(self, store: RocksStore, progress: Callable[[int], None], *, has_summary: bool) -> None:
        super().__init__(store, progress)
        self.records = ShardReader(store)
        self.has_summary = has_summary


class OnDisk:
    """`crawl.check.Kept` in a crawl directory."""

    def __init__(self, directory: CrawlDirectory) -> None:
        self._directory = directory

    def store(self, shard: int, progress: Callable[[int], None]) -> _CheckedStore:
        """The store of a shard, opened for reading."""
        path = self._directory.state(shard)
        store = RocksStore(path, _CACHE, read_only=True)
        return _CheckedStore(store, progress, has_summary=summary.read(path) is not None)

    def settled_files(self, shard: int, mark: Mark) -> Mapping[str, int]:
        """The files of a shard up to the mark."""
        return settled_files(self._directory.archive, shard, mark)

    def walk(self, file: str, end: int) -> Iterator[Answer | Damaged | Whole]:
        """The contents of a file."""
        return walk(self._directory.archive / file, end)

    def uri(self, url: str) -> str:
        """A URL as in WARC-Target-URI."""
        return uri(url).decode()

    def mend(self, shard: int) -> str:
        """Repair a damaged store."""
        return mending.mend(self._directory.state(shard), _CACHE)

    async def fetch_again(self, shard: int, wanted: Callable[[Page], bool], settings: Settings) -> int:
        """Make pages pending again."""
        path, shards, now = self._directory.state(shard), max(1, settings.crawl.shards), time.time()
        frontier = rocks_frontier(path, settings, shard=shard, shards=shards)
        await frontier.open(now)
        try:
            return await frontier.fetch_again(wanted, now)
        finally:
            await frontier.close(now)

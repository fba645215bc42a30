"""A shard on RocksDB: one directory per shard, no service to run.

`layout` describes the keys, `store` keeps rows, `seen` is the set of every URL, `database` is the directory itself.
"""

from pathlib import Path

from skitter.backends.rocksdb.store import RocksStore
from skitter.frontier import ShardFrontier, ShardReader
from skitter.frontier.crashes import InHand
from skitter.settings import Settings

_READER_CACHE = 16 << 20


def rocks_frontier(
    path: Path, settings: Settings | None = None, *, shard: int = 0, shards: int = 1
) -> ShardFrontier:
    """The frontier of a shard in its own directory. Opening it locks the directory."""
    settings = settings or Settings()
    store = RocksStore(path, settings.frontier.block_cache)
    return ShardFrontier(
        store, settings, shard=shard, shards=shards, at_hand=store, in_hand=InHand(path / "hand")
    )


def open_reader(path: Path) -> ShardReader:
    """Read a shard as it is now, even while its owner runs."""
    return ShardReader(RocksStore(path, _READER_CACHE, read_only=True))

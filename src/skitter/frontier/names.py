"""What names stand for: the id of a URL, the domain and the shard of a host."""

from hashlib import blake2b
from typing import NamedTuple

from skitter import urls
from skitter.frontier.bounded import Bounded
from skitter.model import Link, Purpose


class Named(NamedTuple):
    """A host's name, understood."""

    domain: str
    owner: int  # the shard that it belongs to
    foreign: bool  # which is another one


def key_id(key: str) -> bytes:
    """What a URL, its page and its links are known by. No two keys that anybody can find have the same (BLAKE2b)."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Names:
    """Fingerprints and owners, remembered."""

    def __init__(self, shard: int, shards: int, capacity: int) -> None:
        self._shard, self._shards = shard, shards
        self._capacity = capacity
        self._hosts: Bounded[str, Named] = Bounded(4 * capacity)
        # The memo of judged links hands out the very same value for every page that repeats an href. Holding the link
        # keeps its identity from being reused.
        self._same: dict[int, tuple[Link, bytes]] = {}
        self.known: dict[int, bytes] = {}  # of these, what changes nothing when it is offered again
        self.refused: dict[int, bytes] = {}  # … when it is refused again

    def host(self, name: str) -> Named:
        """The domain of a host, and whose it is."""
        named = self._hosts.get(name)
        if named is None:
            domain = urls.registrable_domain(name)
            owner = urls.shard(domain, self._shards) if self._shards > 1 else self._shard
            named = self._hosts[name] = Named(domain, owner, owner != self._shard)
        return named

    def id_of(self, link: Link) -> bytes:
        """What a link's row, lease and page are known by."""
        same = self._same.get(id(link))
        if same is not None:
            return same[1]
        page = link.purpose is Purpose.PAGE
        id16 = key_id(link.key if page else f"robots\0{link.host}\0{link.origin}")
        self._same[id(link)] = link, id16
        return id16

    def trim(self) -> None:
        """Forget what is too much."""
        self._hosts.trim()
        if len(self._same) > self._capacity:
            self._same.clear()
            self.known.clear()
            self.refused.clear()

"""How keys are spelt, so that RocksDB's byte order is the order the frontier needs.

host8    fingerprint of a host's name          dom8   fingerprint of its registrable domain
id16     dom8 + fingerprint of a URL's key: what a URL, its page, its lease and its links are known by. Two spellings
         of one URL may differ in their host (www.), never in their domain.
spot24   score, larger first + sequence number, older first + the second half of the id16

family   key                                                  value
urls     id16                                                 UrlRow; of one in the queue, WAITS and where: host8 + queue
                                                              + spot24 without its end
queue    host8 + queue + spot24                               UrlRow
due      "t" (retry) or "v" (recrawl) + time + id16
         "a" + host8 + time + id16: its host is set aside     (nothing)
hosts    host8                                                HostRow
agenda   its place (see frontier.agenda)                      name of the host
leases   id16                                                 Visit
suspects id16                                                 Suspicion
pages    id16                                                 PageRow
robots   origin                                               RobotsCopy
twins    dom8 + "d" + digest                                  id16
         dom8 + "0".."3" + 16 bits of the SimHash + SimHash   id16
outbox   sequence number                                      Link
log      number                                               fingerprints and ranks of a commit's new URLs, see seen
default  "format", "secret", "meta", "seen", "boot"           see database, store and seen
         "learned " + name of a host, or of a domain          Learned
"""

from math import inf

from skitter.frontier.bounded import Bounded
from skitter.frontier.levels import QUEUES
from skitter.frontier.rows import Spot
from skitter.frontier.sortable import number8, score8
from skitter.urls import fingerprint

FAMILIES = (
    "urls",
    "queue",
    "due",
    "hosts",
    "agenda",
    "leases",
    "suspects",
    "pages",
    "robots",
    "twins",
    "outbox",
    "log",
)

LEARNED = b"learned "
WAITS = b"\xc1"  # the one byte that begins no MessagePack
RETRY, RECRAWL, PARKED = b"t", b"v", b"a"
QUEUE = tuple(bytes((number,)) for number in range(QUEUES))
BLOCKS = 4  # parts of a SimHash by which it is found; see nearest
_NAMES = 20_000  # whose fingerprints are cached


class Fingerprints(Bounded[str, bytes]):
    """The fingerprints of names, made when first asked for."""

    def __init__(self, secret: int) -> None:
        super().__init__(_NAMES)
        self._secret = secret

    def __missing__(self, name: str) -> bytes:
        self.trim()
        made = self[name] = fingerprint(name, self._secret).to_bytes(8, "big")
        return made


def queue_start(host8: bytes, queue: int, behind: Spot | None) -> bytes:
    """The first key of a host's queue, or the first one after a spot."""
    prefix = host8 + QUEUE[queue]
    if behind is None or behind[0] == -inf:
        return prefix
    return prefix + score8(-behind[0]) + number8(max(behind[1] + 1, 0))


def queue_end(host8: bytes, queue: int) -> bytes:
    """The first key after a host's queue."""
    return host8 + bytes((queue + 1,))


def waits_at(row: bytes) -> bytes:
    """The value of an entry whose row is in the queue: the text of a URL is stored once."""
    return WAITS + row[:-8]


def row_of(packed: bytes, id16: bytes) -> bytes:
    """The queue row that `waits_at` names."""
    return packed[1:] + id16[8:]


def after(prefix: bytes) -> bytes:
    """The first key after all keys with this prefix. The prefix must not end in 0xff, or nothing may follow it."""
    number = int.from_bytes(prefix, "big") + 1
    return number.to_bytes(len(prefix), "big") if number >> (8 * len(prefix)) == 0 else prefix + b"\xff" * 32

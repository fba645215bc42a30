"""How keys are spelt, so that RocksDB's byte order is the order the frontier needs.

host8    fingerprint of a host's name          dom8   fingerprint of its registrable domain
id16     dom8 + fingerprint of a URL's key: what a URL, its page, its lease and its links are known by. Two spellings
         of one URL may differ in their host (www.), never in their domain.
spot24   score, larger first + sequence number, older first + the second half of the id16

family   key                                                  value
urls     id16                                                 Entry; of one in the queue, WAITS and where: host8 + level
                                                              + spot24 without its end
queue    host8 + level + spot24                               Entry
due      "t" (retry) or "v" (recrawl) + time + id16
         "a" + host8 + such a key: its host is set aside      (nothing)
hosts    host8                                                HostState
agenda   level + spot24 of its head + host8: a host that is free now
         0xff + time + host8: a host that is free later       (nothing)
leases   id16                                                 Lease
suspects id16                                                 crashes, of these in hand
pages    id16                                                 Page without text; id16 of every link on it, joined
robots   origin                                               RobotsCopy
twins    dom8 + "d" + digest                                  id16 + time
         dom8 + "0".."3" + 16 bits of the SimHash + SimHash   id16 + time
outbox   sequence number                                      Link
log      number                                               fingerprints and ranks of a commit's new URLs, see seen
default  "format", "secret", "ledger", "seen"                 see store, shard and seen
"""

from skitter.frontier.sortable import number8, score8
from skitter.model import Level
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

WAITS = b"\xc1"  # the one byte that begins no MessagePack
RETRY, RECRAWL, PARKED = b"t", b"v", b"a"
LATER = b"\xff"
SPOT = 24  # bytes
LEVEL = tuple(bytes((level,)) for level in Level)


def fp8(text: str, secret: int) -> bytes:
    """A fingerprint as it stands in keys."""
    return fingerprint(text, secret).to_bytes(8, "big")


def seen8(id16: bytes) -> int:
    """What a URL is known by in the seen set."""
    return int.from_bytes(id16[:8], "big") ^ int.from_bytes(id16[8:], "big")


def spot24(score: float, seq: int, id16: bytes) -> bytes:
    """Where a link stands in its host's level."""
    return score8(score) + number8(seq) + id16[8:]


def waits_at(row: bytes) -> bytes:
    """What stands in the place of an entry that is in this row of the queue: the text of a URL is stored once."""
    return WAITS + row[:-8]


def row_of(packed: bytes, id16: bytes) -> bytes:
    """The row of the queue that `waits_at` named."""
    return packed[1:] + id16[8:]


def after(prefix: bytes) -> bytes:
    """The first key behind every key with this prefix; the prefix does not end in 0xff or is followed by nothing."""
    number = int.from_bytes(prefix, "big") + 1
    return number.to_bytes(len(prefix), "big") if number >> (8 * len(prefix)) == 0 else prefix + b"\xff" * 32

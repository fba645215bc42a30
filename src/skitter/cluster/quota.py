"""Who may store how many pages, so that all workers together never store more than `crawl.max_pages`. Pure.

Pages are allowed to a shard, not to a worker: as many as it may have in all, those that it has included. So nothing has to be
given back by whoever dies: the next owner of the shard finds what was allowed to it, and what was stored of that counts by
the pages that are there. An owner asks for what it needs in the next seconds, and gives back what it does not; it has never
more stored and in flight than it is allowed, and the allowances of all shards are never more than the limit. Hence the limit
is never exceeded, and it is reached while any shard has work.

The ledger is one small text on the engine, replaced as a whole if it is still the one that was read (`Claims.swap`). An entry
is its owner's: who held the shard under an older epoch changes nothing in it.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace


class Allowance(Struct, frozen=True):
    """What a shard may store in all."""

    epoch: int  # of the owner that asked last
    pages: int


class Ledger(Struct, frozen=True):
    """What the workers of a crawl keep together."""

    began: float  # when the first worker joined, by the engine's clock
    writes: int = 0  # no two versions are alike
    allowed: Mapping[int, Allowance] = field(default_factory=dict)  # by shard


class Wish(Struct, frozen=True):
    """What the owner of a shard has, and what it would like to have."""

    epoch: int
    used: int  # pages that are stored, or may come of visits in flight
    pages: int  # as many as it would like to be allowed in all: fewer than it is, and it gives some back


_ledger = msgspec.json.Decoder(Ledger)


def read(words: str) -> Ledger | None:
    """The ledger in a text; None when nobody has written one yet."""
    return _ledger.decode(words) if words else None


def written(ledger: Ledger) -> str:
    """Its next version as a text."""
    return msgspec.json.encode(replace(ledger, writes=ledger.writes + 1)).decode()


def share_out(
    ledger: Ledger, limit: int, wishes: Mapping[int, Wish], stored: Mapping[int, int]
) -> dict[int, Allowance]:
    """What everybody may store now. `stored` are the pages of every shard, of those that nobody has asked for too.

    What is given back is given to those who lack something, in equal parts as far as they want them.
    """
    mine = {
        shard: wish
        for shard, wish in wishes.items()
        if shard not in ledger.allowed or ledger.allowed[shard].epoch <= wish.epoch
    }
    # A worker that knew of no limit may have stored more than was allowed.
    held = {
        shard: max(pages, ledger.allowed[shard].pages if shard in ledger.allowed else 0)
        for shard, pages in stored.items()
    }
    for shard, wish in mine.items():
        held[shard] = max(wish.used, min(held.get(shard, 0), wish.pages))
    free = limit - sum(held.values())
    lacking = [shard for shard, wish in mine.items() if wish.pages > held[shard]]
    for place, shard in enumerate(lacking):
        part = max(0, min(mine[shard].pages - held[shard], -(-free // (len(lacking) - place))))
        held[shard] += part
        free -= part
    return {**ledger.allowed, **{shard: Allowance(wish.epoch, held[shard]) for shard, wish in mine.items()}}

"""How many pages each shard of a cluster may store, so that all workers together never store more than `crawl.max_pages`.

Pages are allowed to a shard, not to a worker: as many as it may have in all, those that it has included. So nothing has to be
given back by a worker that dies: the next owner of the shard finds what was allowed to it, and what was stored of that counts
by the pages that are there. An owner asks for what it needs in the next seconds, and gives back what it does not; it has never
more stored and in flight than it is allowed, and the allowances of all shards are never more than the limit. Hence the limit
is never exceeded, and it is reached while any shard has work.

The quota is one small text on the engine, replaced as a whole if it is still the one that was read (`Claims.swap`). An entry is its owner's: who held the
shard under an older epoch changes nothing in it.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from skitter.cluster.ports import Claims
from skitter.crawl.limits import Share, share_out


class Allowance(Struct, frozen=True):
    """What a shard may store in all."""

    epoch: int  # of the owner that asked last
    pages: int


class Quota(Struct, frozen=True):
    """What the workers of a crawl keep together."""

    began: float  # when the first worker joined, by the engine's clock
    writes: int = 0  # no two versions are alike
    allowed: Mapping[int, Allowance] = field(default_factory=dict)  # by shard


class Wish(Struct, frozen=True):
    """What the owner of a shard has, and what it would like to have."""

    epoch: int
    used: int  # pages that are stored, or may come of visits in flight
    pages: int  # as many as it would like to be allowed in all: fewer than it is, and it gives some back


_quota = msgspec.json.Decoder(Quota)


def read(words: str) -> Quota | None:
    """The quota in a text; None when nobody has written one yet."""
    return _quota.decode(words) if words else None


def written(quota: Quota) -> str:
    """Its next version as a text."""
    return msgspec.json.encode(replace(quota, writes=quota.writes + 1)).decode()


async def began(claims: Claims) -> float | None:
    """When the first worker joined; None before."""
    quota = read(await claims.swap("", ""))
    return None if quota is None else quota.began


def allowances(
    quota: Quota, limit: int, wishes: Mapping[int, Wish], stored: Mapping[int, int]
) -> dict[int, Allowance]:
    """What everybody may store now. `stored` are the pages of every shard, of those that nobody has asked for too.

    An owner that gives some back does not use it any more when it says so: that is free at once.
    """
    mine = {
        shard: wish
        for shard, wish in wishes.items()
        if shard not in quota.allowed or quota.allowed[shard].epoch <= wish.epoch
    }
    shares = {}
    for shard in stored.keys() | mine.keys():
        # A worker that knew of no limit may have stored more than was allowed.
        held = max(stored.get(shard, 0), quota.allowed[shard].pages if shard in quota.allowed else 0)
        wish = mine.get(shard) or Wish(0, held, held)
        shares[shard] = Share(wish.used, max(wish.used, min(held, wish.pages)), wish.pages)
    pages = share_out(limit, dict(sorted(shares.items())))
    return {**quota.allowed, **{shard: Allowance(wish.epoch, pages[shard]) for shard, wish in mine.items()}}

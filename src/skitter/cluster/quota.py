"""How many pages each shard of a cluster may store, so that all workers together stay within `crawl.max_pages`.

Pages are allowed to a shard, not to a worker: a total that includes those already stored. So a worker that dies need
not give anything back: the next owner of the shard finds its allowance, and the stored pages count against it. An
owner asks for what it needs in the next seconds, and gives back what it does not need; it never has more stored and
in flight than allowed, and the allowances of all shards never exceed the limit. Hence the limit is never exceeded,
and it is reached while any shard has work.

The quota is one small text on the engine, replaced as a whole if it is still the one that was read (`Claims.swap`).
An entry belongs to the shard's owner: a holder under an older epoch changes nothing in it.
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
    """The quota that all workers share."""

    began: float  # when the first worker joined, by the engine's clock
    writes: int = 0  # makes every version unique
    allowed: Mapping[int, Allowance] = field(default_factory=dict)  # by shard


class Wish(Struct, frozen=True):
    """What the owner of a shard has, and what it wants."""

    epoch: int
    used: int  # pages stored, or possible from visits in flight
    pages: int  # the total it wants: if less than allowed, it gives some back


_quota = msgspec.json.Decoder(Quota)


def read(words: str) -> Quota | None:
    """Decode a quota; None if nobody has written one yet."""
    return _quota.decode(words) if words else None


def written(quota: Quota) -> str:
    """Encode the next version of a quota."""
    return msgspec.json.encode(replace(quota, writes=quota.writes + 1)).decode()


async def began(claims: Claims) -> float | None:
    """When the first worker joined; None before."""
    quota = read(await claims.swap("", ""))
    return None if quota is None else quota.began


def allowances(
    quota: Quota, limit: int, wishes: Mapping[int, Wish], stored: Mapping[int, int]
) -> dict[int, Allowance]:
    """What each shard may store now. `stored` has the pages of every shard, also of those not asked for.

    An owner stops using what it gives back before it says so: that is free at once.
    """
    mine = {
        shard: wish
        for shard, wish in wishes.items()
        if shard not in quota.allowed or quota.allowed[shard].epoch <= wish.epoch
    }
    shares = {}
    for shard in stored.keys() | mine.keys():
        # A worker that knew no limit may have stored more than allowed.
        held = max(stored.get(shard, 0), quota.allowed[shard].pages if shard in quota.allowed else 0)
        wish = mine.get(shard) or Wish(0, held, held)
        shares[shard] = Share(wish.used, max(wish.used, min(held, wish.pages)), wish.pages)
    pages = share_out(limit, dict(sorted(shares.items())))
    return {**quota.allowed, **{shard: Allowance(wish.epoch, pages[shard]) for shard, wish in mine.items()}}

"""Which shards a worker should have: as many as the others, give or take one.

Every worker decides for itself from what all of them see, so two of them may look at different moments: the claim
decides who was first, and a shard is given back only if another worker lacks one.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Plan(NamedTuple):
    """What to change now."""

    take: list[int]  # free shards to claim, in this order
    give: list[int]  # shards of ours to hand over


def plan(me: str, workers: Collection[str], owners: Sequence[str]) -> Plan:
    """What a worker does next. `owners` has the owner of every shard, by number; empty if nobody holds it."""
    everybody = sorted({*workers, me})
    shares = _shares(len(owners), everybody)
    mine = [shard for shard, owner in enumerate(owners) if owner == me]
    free = [shard for shard, owner in enumerate(owners) if not owner]
    lacking = shares[me] - len(mine)
    if lacking > 0:
        # Each starts at another number, so that workers that start together do not race for the same shards.
        start = everybody.index(me) * len(free) // len(everybody)
        return Plan((free[start:] + free[:start])[:lacking], [])
    held = dict.fromkeys(everybody, 0)
    for owner in owners:
        if owner in held:
            held[owner] += 1
    missing = sum(max(0, shares[worker] - held[worker]) for worker in everybody if worker != me) - len(free)
    return Plan([], mine[len(mine) - min(-lacking, max(0, missing)) :])


def _shares(shards: int, workers: list[str]) -> dict[str, int]:
    each, left = divmod(shards, len(workers))
    return {worker: each + (rank < left) for rank, worker in enumerate(workers)}

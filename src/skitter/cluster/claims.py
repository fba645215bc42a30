"""What a cluster needs from its engine to share shards out: claims with epochs, signs of life, one clock, a notice board."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct


class Claim(Struct, frozen=True, array_like=True):
    """Who has a shard, under which epoch, and until when by the engine's clock unless it is renewed."""

    worker: str
    epoch: int
    until: float


class Claims(Protocol):
    """Shards, each with one owner at a time.

    1. `take` gives a shard to one worker only, and only while nobody has it; every taking has a higher epoch than the
       one before. Whatever is written under an old epoch changes nothing from then on.
    2. A claim that is not renewed for the length of the lease is free, by the engine's own clock.
    3. `renew` never brings back a claim that another has taken meanwhile; it may bring back one that has only run out.
    4. An engine that is away is `EngineAway`; every verb may be called again.
    """

    async def time(self) -> float:
        """The engine's seconds since the epoch."""
        ...

    async def take(self, shard: int) -> int | None:
        """Claim a shard; its new epoch, or None if somebody has it."""
        ...

    async def renew(self, epochs: Mapping[int, int], says: Mapping[str, Any]) -> set[int]:
        """A sign of life, with a few words for `status`; those shards that are still ours under these epochs."""
        ...

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back at once."""
        ...

    async def leave(self) -> None:
        """No more signs of life will come from this worker."""
        ...

    async def owners(self) -> dict[int, Claim]:
        """Who has which shard now; those that nobody has are not in it."""
        ...

    async def workers(self) -> dict[str, dict[str, Any]]:
        """Who has given a sign of life within the length of a lease, and what they said."""
        ...

    async def roots(self, new: Sequence[str] = ()) -> list[str]:
        """The roots of the scope, all that any worker has put there, after adding these."""
        ...

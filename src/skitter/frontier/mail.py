"""Links on their way from the shard that found them to the shard that owns their host."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import MsgspecError

from skitter.model import Link

DAMAGED = (MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading bytes may come to that somebody else has put there."""

Positions = Mapping[str, str]
"""How far the mail of a shard is taken in, by source. Only the mail knows what the words mean."""


class Mail(Protocol):
    """The way out, one for all shards of a worker.

    1. What `send` has acknowledged survives a crash of the sender and of the engine, until its receiver has trimmed it.
    2. It may arrive twice and in any order; adding a link is idempotent.
    """

    async def send(self, links: Mapping[int, Sequence[Link]]) -> None:
        """Bring links to their shards, by number. Returns when they are safe."""
        ...

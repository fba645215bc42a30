"""The ports of a cluster: who owns which shard, by the engine's word and clock, and how forwarded links arrive."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from skitter.model import Counts, Link
from skitter.ports import EngineError, Mark


class NoCrawl(EngineError):  # noqa: N818  the engine is well
    """There is no crawl of this name on an engine."""


class UnknownSettings(EngineError):  # noqa: N818  the engine is well
    """A crawl keeps no settings for its workers."""


class Claim(Struct, frozen=True):
    """A shard that was taken. `lapsed`: when the lease of an owner that did not give it back ended; None when it did.

    `connected`: that owner has, or may have, a connection to the engine: it may be frozen, with requests under way. If the
    engine knows that there is none any more, its process is gone, or it has lost touch and has broken its requests off.
    """

    shard: int
    epoch: int
    now: float
    lapsed: float | None = None
    connected: bool = True

    def over_after(self, deadline: float) -> float:
        """Seconds from now on in which requests of the last owner may be under way, each no longer than `deadline`."""
        if self.lapsed is None:
            return 0.0
        return max(0.0, self.lapsed + (deadline if self.connected else 0.0) - self.now)


class End(Struct, frozen=True):
    """How far the archive of a shard was settled when it was taken under an epoch.

    From then on nobody settles anything in files that earlier owners have written.
    """

    shard: int
    epoch: int
    mark: Mark
    directory: str = ""  # where the new owner keeps its own files, as MACHINE:PATH


class Renewal(Struct, frozen=True):
    """A sign of life, and what the engine says meanwhile."""

    now: float
    held: frozenset[int]  # shards that are still ours, for another lease
    owners: Sequence[str]  # of every shard, by number; empty for nobody's
    workers: Sequence[str]  # all that gave a sign of life within the last lease, this one too
    settings: int = 0  # the version of the crawl's settings; 0 when none are kept
    roots: int = 0  # the position of the last root of the scope: `Claims.roots` has those behind another


class Standing(Struct, frozen=True):
    """The status of one shard."""

    shard: int
    owner: str  # empty: nobody's
    epoch: int
    lease_until: float
    counts: Counts
    positions: Mapping[str, str]  # how far its forwarded links are stored
    now: float


class Colleague(Struct, frozen=True):
    """A worker that has joined and not left, and what it last said of itself."""

    name: str
    started_at: float
    seen_at: float
    about: Mapping[str, Any]
    now: float


class Disk(Struct, frozen=True):
    """A worker's disk with segments of the archive that are nowhere else."""

    name: str  # stays with the directory, whichever process has it
    worker: str  # who had it last; empty when it has left
    segments: int
    age: float  # seconds since the oldest was begun


class LostSegment(Protocol):
    """A segment of the archive whose only copy is lost."""

    @property
    def name(self) -> str:
        """The file that it was."""
        ...

    @property
    def shard(self) -> int:
        """Whose answers it held."""
        ...


class Disks(Protocol):
    """Segments of the archive that a single worker has, as an operator sees them."""

    async def disks(self) -> list[Disk]:
        """Every disk with segments that are only there."""
        ...

    async def give_up(self, disk: str) -> list[str] | None:
        """A disk is lost with all that was only there. None: a worker with it gives signs of life, and nothing changed."""
        ...

    async def lost(self) -> Sequence[LostSegment]:
        """Segments that are given up, and whose pages are not pending again yet."""
        ...

    async def reopened(self, names: Sequence[str]) -> None:
        """The pages of these lost segments are pending again."""
        ...


class Ends(Protocol):
    """Where the archive files of former owners end, for workers that keep their files on their own disks.

    A worker that was cut off cannot know whether its last write has arrived. The next owner of the shard finds the mark,
    and writes it down before it settles anything itself.
    """

    async def add_end(self, end: End) -> None:
        """Write down the mark that a new owner found. To say the same again changes nothing."""
        ...

    async def ends(self) -> list[End]:
        """All that were written down, one for each time that a shard was taken."""
        ...


class Claims(Ends, Protocol):
    """The shards of a crawl on many machines, each with one owner at a time. Time is the engine's.

    1. `take` gives a shard to one worker only, and only while nobody has it; every taking has a higher epoch than the one
       before. Whatever is written under an old epoch changes nothing from then on.
    2. A claim that is not renewed for the length of a lease is free.
    3. `renew` never brings back a claim that another has taken meanwhile; it may bring back one that has only run out.
    4. An engine that is away is `EngineAway`; every verb may be called again.
    """

    async def renew(self, epochs: Mapping[int, int], about: Mapping[str, Any]) -> Renewal:
        """Say that we live and keep shards, held under these epochs. One round trip."""
        ...

    async def take(self, shards: Sequence[int], most: int, settings: int | None = None) -> list[Claim]:
        """Take at most so many of these shards, those that nobody owns now; none if the settings have another version."""
        ...

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back: somebody else may take them at once."""
        ...

    async def leave(self) -> None:
        """Be a worker no more."""
        ...

    async def add_roots(self, roots: Sequence[str]) -> None:
        """Widen the scope of everybody."""
        ...

    async def roots(self, after: int, limit: int) -> tuple[Sequence[str], int]:
        """Roots of the scope behind a position, at most so many, in order; and the position of the last of them.

        Reading on from there misses none: a root that is added later has a later position.
        """
        ...

    async def intake(self, digest: str) -> int:
        """Up to which line a file of seeds is in; 0 when none is, or all of it."""
        ...

    async def took_in(self, digest: str, line: int | None) -> None:
        """A file of seeds is in up to this line; None: all of it is, and need not be remembered."""
        ...

    async def settings(self) -> tuple[int, str]:
        """The settings that all workers share, as TOML, and their version; 0 and nothing before there are any."""
        ...

    async def settle_on(self, seen: int, words: str) -> bool:
        """Replace the settings, if their version is still the one that was seen; then it is one higher."""
        ...

    async def swap(self, seen: str, new: str) -> str:
        """Replace the crawl's quota if it is still the one that was seen; says which one is there afterwards.

        There is one for all workers, at first an empty one: swap("", "") only looks.
        """
        ...

    async def standing(self) -> list[Standing]:
        """Every shard."""
        ...

    async def workers(self) -> list[Colleague]:
        """Every worker that has joined and not left."""
        ...


# ------------------------------------------------------------------------------------------------ forwarded links


class Delivery(Struct, frozen=True):
    """Links for a shard, and its positions once they are stored."""

    shard: int
    links: Sequence[Link]
    positions: dict[str, str]


class Inbox(Protocol):
    """Receives the forwarded links of all shards that a worker holds."""

    async def own(self, shard: int, positions: dict[str, str]) -> None:
        """Receive a shard's links from these positions on; again, if they were received and could not be stored."""
        ...

    async def disown(self, shard: int) -> None:
        """The shard is somebody else's."""
        ...

    async def receive(self, limit: int) -> list[Delivery]:
        """The next links of any shard, one delivery each; waits a moment when there are none."""
        ...

    async def stored(self, shard: int, positions: dict[str, str], now: float) -> None:
        """Everything before these positions is never asked for again."""
        ...

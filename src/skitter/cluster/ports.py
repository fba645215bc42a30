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
    """A shard that was taken. `lapsed`: when the lease of an owner that did not give it back ended; else None.

    `connected`: that owner has, or may have, a connection to the engine: it may be frozen, with requests in flight.
    If the engine knows that it has none, its process is gone, or it was cut off and has cancelled its requests.
    """

    shard: int
    epoch: int
    now: float
    lapsed: float | None = None
    connected: bool = True

    def over_after(self, deadline: float) -> float:
        """Seconds from now in which requests of the last owner may be in flight, each no longer than `deadline`."""
        if self.lapsed is None:
            return 0.0
        return max(0.0, self.lapsed + (deadline if self.connected else 0.0) - self.now)


class End(Struct, frozen=True):
    """How far the archive of a shard was settled when it was taken under an epoch.

    From then on, nobody settles anything in files of earlier owners.
    """

    shard: int
    epoch: int
    mark: Mark
    directory: str = ""  # where the new owner keeps its own files, as MACHINE:PATH


class Renewal(Struct, frozen=True):
    """A heartbeat's answer from the engine."""

    now: float
    held: frozenset[int]  # shards that are still ours, for another lease
    owners: Sequence[str]  # of every shard, by number; empty if nobody owns it
    workers: Sequence[str]  # all with a heartbeat within the last lease, including this one
    settings: int = 0  # the version of the crawl's settings; 0 if none are stored
    roots: int = 0  # the position of the last root; `Claims.roots` returns those after a position
    commands: int = 0  # the number of the last command


class Standing(Struct, frozen=True):
    """The status of one shard."""

    shard: int
    owner: str  # empty if nobody owns it
    epoch: int
    lease_until: float
    counts: Counts
    positions: Mapping[str, str]  # how far its forwarded links are stored
    now: float


class Colleague(Struct, frozen=True):
    """A worker that has joined and not left, and its last report."""

    name: str
    started_at: float
    seen_at: float
    about: Mapping[str, Any]
    now: float


class Disk(Struct, frozen=True):
    """A worker's disk with archive segments that exist only there."""

    name: str  # belongs to the directory, whichever process uses it
    worker: str  # its last worker; empty if that has left
    segments: int
    age: float  # seconds since the oldest was started


class LostSegment(Protocol):
    """A segment of the archive whose only copy is lost."""

    @property
    def name(self) -> str:
        """Its file name."""
        ...

    @property
    def shard(self) -> int:
        """The shard of its answers."""
        ...


class Disks(Protocol):
    """Archive segments that only one worker has, as operators see them."""

    async def disks(self) -> list[Disk]:
        """Every disk with segments that exist only there."""
        ...

    async def give_up(self, disk: str) -> list[str] | None:
        """A disk is lost with everything only it had. None: its worker still sends heartbeats, and nothing changed."""
        ...

    async def lost(self) -> Sequence[LostSegment]:
        """Segments that are given up, and whose pages are not pending again yet."""
        ...

    async def reopened(self, names: Sequence[str]) -> None:
        """The pages of these lost segments are pending again."""
        ...


class Ends(Protocol):
    """Where the archive files of former owners end, for workers that keep their files on their own disks.

    A worker that was cut off cannot know whether its last write has arrived. The next owner of the shard finds the
    mark, and records it before it settles anything itself.
    """

    async def add_end(self, end: End) -> None:
        """Record the mark that a new owner found. Safe to repeat."""
        ...

    async def ends(self) -> list[End]:
        """All recorded marks, one for each time that a shard was taken."""
        ...


class Claims(Ends, Protocol):
    """The shards of a cluster's crawl, each with at most one owner at a time. Times are by the engine's clock.

    1. `take` gives a shard to one worker only, and only if nobody has it; each time, the epoch is higher than before.
       From then on, writes under an old epoch change nothing.
    2. A claim that is not renewed for the length of a lease is free.
    3. `renew` never restores a claim that another worker has taken; it may restore one that has only expired.
    4. An engine that is away is `EngineAway`; every verb may be called again.
    """

    async def renew(self, epochs: Mapping[int, int], about: Mapping[str, Any]) -> Renewal:
        """Heartbeat: renew the shards held under these epochs. One round trip."""
        ...

    async def take(self, shards: Sequence[int], most: int, settings: int | None = None) -> list[Claim]:
        """Take at most `most` of these shards, if nobody owns them now; none if the settings have another version."""
        ...

    async def release(self, epochs: Mapping[int, int]) -> None:
        """Give shards back: others may take them at once."""
        ...

    async def leave(self) -> None:
        """Stop being a worker."""
        ...

    async def add_roots(self, roots: Sequence[str]) -> None:
        """Widen the scope of all workers."""
        ...

    async def roots(self, after: int, limit: int) -> tuple[Sequence[str], int]:
        """At most `limit` roots after a position, in order; and the position of the last one.

        Reading on from there misses none: a root that is added later has a later position.
        """
        ...

    async def add_command(self, words: str) -> int:
        """Keep a command of a person for all shards; returns its number. See `cluster.orders`.

        Numbers grow from 1, not necessarily by 1. Called again after EngineAway, it may keep the command twice, and
        applying it twice changes nothing more.
        """
        ...

    async def commands(self, after: int, limit: int) -> list[tuple[int, str]]:
        """At most `limit` commands after a number, in order. Reading on from there misses none."""
        ...

    async def intake(self, digest: str) -> int:
        """The line up to which a file of seeds is stored; 0 if none of it is, or all."""
        ...

    async def took_in(self, digest: str, line: int | None) -> None:
        """A file of seeds is stored up to this line; None: all of it, and the position is forgotten."""
        ...

    async def settings(self) -> tuple[int, str]:
        """The settings that all workers share, as TOML, and their version; 0 and empty if there are none."""
        ...

    async def settle_on(self, seen: int, words: str) -> bool:
        """Replace the settings, if their version is still the one seen; then it is one higher."""
        ...

    async def swap(self, seen: str, new: str) -> str:
        """Replace the crawl's quota if it is still the one seen; returns the one that is stored afterwards.

        All workers share one, at first empty: swap("", "") only reads it.
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
        """Receive a shard's links from these positions on. Call again if received links could not be stored."""
        ...

    async def disown(self, shard: int) -> None:
        """Another worker owns the shard now."""
        ...

    async def receive(self, limit: int) -> list[Delivery]:
        """The next links of any shard, one delivery each; waits a moment if there are none."""
        ...

    async def stored(self, shard: int, positions: dict[str, str], now: float) -> None:
        """Everything before these positions is stored, and never requested again."""
        ...

"""Opens and checks the engines of a cluster, all behind one interface: claims, stores, forwarding, announcements.

Problems with an engine show here, before any crawling: EngineError is one line with the setting and the fix.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from skitter.backends.s3.segments import Segment, Segments
from skitter.cluster.ports import Claims, Disks, Inbox
from skitter.cluster.shared_settings import in_force, keep
from skitter.engines.breaker import Guard
from skitter.frontier.store import Forwarding, Store
from skitter.model import Settlement
from skitter.ports import Accounts, Cache, Clock, Permits, PermitTerms
from skitter.settings import Settings, SettingsError


class Register(Segments, Disks, Protocol):
    """The register of segments, shared by workers and operators."""

    async def lost(self) -> list[Segment]:
        """Abandoned segments whose pages are not pending again yet."""
        ...

    def stored(self) -> AsyncIterator[str]:
        """The names of all segments in the bucket, in order."""
        ...


class LeasedPermits(Permits, Protocol):
    """Permits that all workers share."""

    workers: Callable[[], int]  # how many there are, as far as known

    async def run(self) -> None:
        """Look after the leases, for as long as permits are asked for."""
        ...


class Engines(Protocol):
    """The engines of a cluster, for a worker or for a command that only reads."""

    shards: int
    claims: Claims
    forwarding: Forwarding
    inbox: Inbox
    segments: Register | None  # the register of archive segments; None: each worker has its own
    guards: Sequence[Guard]  # the breaker of each engine

    def store(self, shard: int, epoch: int = 0) -> Store:
        """One shard; reading needs no epoch."""
        ...

    async def announce(self, settlements: Sequence[Settlement]) -> None:
        """Announce what is about to be settled; returns when that is safe."""
        ...

    async def unread(self) -> dict[int, int]:
        """Forwarded messages that are not read yet, by shard."""
        ...

    async def lag(self) -> dict[str, int]:
        """The same by the priority of their topic."""
        ...

    def trips(self) -> dict[str, float]:
        """Round trips so far, by engine."""
        ...

    def cache(self, name: str, kind: Any, capacity: int, clock: Clock) -> Cache:  # noqa: ANN401  any type of value
        """Answers that all workers share; those in it are of one kind."""
        ...

    def accounts(self) -> Accounts:
        """What all shards have used of the budgets of groups."""
        ...

    def permits(self, clock: Clock, terms: PermitTerms, kind: str = "") -> LeasedPermits:
        """Permits to send to an address, or of keys of another kind, for all workers together."""
        ...


@asynccontextmanager
async def opened(settings: Settings, worker: str, *, looking: bool = False) -> AsyncIterator[Engines]:
    """The engines that the settings name. `looking`: only reads, so engines other than the truth may be away."""
    async with AsyncExitStack() as stack:
        if settings.cluster.size == "full":
            from skitter.compose.full import open_full  # noqa: PLC0415  its libraries are an extra

            yield await open_full(settings, worker, stack, looking=looking)
        elif settings.cluster.size == "redis":
            from skitter.compose.small import open_small  # noqa: PLC0415  its library is an extra

            yield await open_small(settings, worker, stack)
        else:
            raise no_such_size(settings)


@asynccontextmanager
async def truth(settings: Settings) -> AsyncIterator[Claims]:
    """Only the engine that knows shards and workers; EngineError if it cannot be used, or has another crawl."""
    if settings.cluster.size == "full":
        from skitter.compose.full import open_truth  # noqa: PLC0415  its libraries are an extra

        async with open_truth(settings) as claims:
            yield claims
    elif settings.cluster.size == "redis":
        from skitter.compose.small import open_only_truth  # noqa: PLC0415  its library is an extra

        async with open_only_truth(settings) as claims:
            yield claims
    else:
        raise no_such_size(settings)


async def settings_in_force(
    settings: Settings, given: Mapping[str, object], *, strict: bool = True
) -> tuple[Settings, int]:
    """`cluster.shared_settings.in_force` of the crawl that the settings name."""
    async with truth(settings) as claims:
        return await in_force(claims, given, strict=strict)


async def make(settings: Settings, given: Mapping[str, object] | None = None) -> list[str]:
    """`cluster init`: creates schema, topics and shared settings; returns what was created, in words. Safe to repeat.

    If the crawl stores settings already, the `given` ones must not contradict them.
    """
    made = await _make(settings)
    async with truth(settings) as claims:
        return made + await keep(claims, settings, given)


async def _make(settings: Settings) -> list[str]:
    if not settings.crawl.shards:
        raise SettingsError(
            "crawl.shards must be set for a cluster, to a few times the workers it will ever have"
        )
    if settings.cluster.size == "full":
        from skitter.compose.making import make_full  # noqa: PLC0415  its libraries are an extra

        return await make_full(settings)
    if settings.cluster.size == "redis":
        from skitter.compose.small import make_small  # noqa: PLC0415  its library is an extra

        return await make_small(settings)
    raise no_such_size(settings)


async def unmake(settings: Settings) -> list[str]:
    """`cluster remove`: removes what `make` and the workers created; returns what that was, in words. Safe to repeat.

    Nothing is removed from the archive or the search index.
    """
    if settings.cluster.size == "full":
        from skitter.compose.full import unmake_full  # noqa: PLC0415  its libraries are an extra

        return await unmake_full(settings)
    if settings.cluster.size == "redis":
        from skitter.compose.small import unmake_small  # noqa: PLC0415  its library is an extra

        return await unmake_small(settings)
    raise no_such_size(settings)


def no_such_size(settings: Settings) -> SettingsError:
    """What to write instead."""
    return SettingsError(
        f'cluster.size is {settings.cluster.size}, which is a crawl on one machine; write size = "full" or "redis" under '
        "[cluster], and say where the engines are"
    )

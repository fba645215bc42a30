"""The settings that all workers of a cluster share, asked of the engine that keeps them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from skitter.cluster.agreement import agreed, changed, shared
from skitter.cluster.ports import Claims, UnknownSettings
from skitter.compose.engines import no_such_size
from skitter.settings import Settings

_LOOK = 0.5  # seconds between two looks at the workers


@asynccontextmanager
async def truth(settings: Settings) -> AsyncIterator[Claims]:
    """The engine that knows of shards and workers, alone; EngineError when it cannot be used, or has another crawl."""
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


async def in_force(
    settings: Settings, given: Mapping[str, object], *, strict: bool = True
) -> tuple[Settings, int]:
    """The settings of somebody who was given some, in the crawl that they name, and the version of those that all share.

    `strict`: what was given must not contradict them.
    """
    async with truth(settings) as claims:
        version, words = await claims.settings()
    if not version:
        raise UnknownSettings(
            "the crawl keeps no settings for its workers; stop all workers and run `skitter cluster init`"
        )
    return agreed(given, words, strict=strict), version


async def keep(settings: Settings, given: Mapping[str, object] | None = None) -> list[str]:
    """Keep the settings for all workers, once; where some are kept, these must not contradict. What was done, in words."""
    words = shared(settings)
    async with truth(settings) as claims:
        if await claims.settle_on(0, words):
            return ["the settings of the crawl are kept for all workers"]
        _, kept = await claims.settings()
    if given is not None:
        agreed(given, kept)
    return []


async def change(settings: Settings, assignments: Mapping[str, str]) -> tuple[int, list[str]]:
    """Change settings for all workers: the version that has them, and each change in words."""
    async with truth(settings) as claims:
        while True:
            version, words = await claims.settings()
            new, said = changed(words, assignments)
            if not said or await claims.settle_on(version, new):
                return version + bool(said), said


async def followed_by_all(settings: Settings, version: int) -> list[str]:
    """Wait until every worker that lives works by these settings; those that do not after some leases."""
    async with truth(settings) as claims:
        lacking: list[str] = []
        for _ in range(round(3 * settings.cluster.lease / _LOOK)):
            lacking = [
                worker.name
                for worker in await claims.workers()
                if worker.now - worker.seen_at < settings.cluster.lease
                and worker.about.get("settings") != version
            ]
            if not lacking:
                break
            await asyncio.sleep(_LOOK)
        return lacking

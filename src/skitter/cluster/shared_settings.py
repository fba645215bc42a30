"""The settings that all workers of a cluster share: stored on the engine, read by every worker, changed for all at
once.

`agreement` decides which are allowed; here they are read and written.
"""

import asyncio
from collections.abc import Mapping

from skitter.cluster.agreement import agreed, changed, shared
from skitter.cluster.ports import Claims, UnknownSettings
from skitter.settings import Settings

_LOOK = 0.5  # seconds between two checks of the workers


async def in_force(
    claims: Claims, given: Mapping[str, object], *, strict: bool = True
) -> tuple[Settings, int]:
    """A worker's settings combined with the shared ones, and the version of those.

    `strict`: the given settings must not contradict them.
    """
    version, words = await claims.settings()
    if not version:
        raise UnknownSettings(
            "the crawl keeps no settings for its workers; stop all workers and run `skitter cluster init`"
        )
    return agreed(given, words, strict=strict), version


async def keep(claims: Claims, settings: Settings, given: Mapping[str, object] | None = None) -> list[str]:
    """Store the settings for all workers, once; if some are stored, these must not contradict them. Returns what
    was done.
    """
    if await claims.settle_on(0, shared(settings)):
        return ["the settings of the crawl are kept for all workers"]
    _, kept = await claims.settings()
    if given is not None:
        agreed(given, kept)
    return []


async def change(claims: Claims, assignments: Mapping[str, object]) -> tuple[int, list[str]]:
    """Change settings for all workers: returns the new version, and each change in words."""
    while True:
        version, words = await claims.settings()
        new, said = changed(words, assignments)
        if not said or await claims.settle_on(version, new):
            return version + bool(said), said


async def followed_by_all(claims: Claims, version: int, lease: float) -> list[str]:
    """Wait until every live worker uses these settings; returns those that do not after some leases."""
    lacking: list[str] = []
    for _ in range(round(3 * lease / _LOOK)):
        lacking = [
            worker.name
            for worker in await claims.workers()
            if worker.now - worker.seen_at < lease and worker.about.get("settings") != version
        ]
        if not lacking:
            break
        await asyncio.sleep(_LOOK)
    return lacking

"""Engines that go away and come back: reported once each, checked while nothing uses them, and shown by `cluster status`.

Code that waits for an engine reports nothing; its breaker knows that the engine is away. This listens to all breakers of a
process.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skitter.engines.breaker import Guard
from skitter.ports import Clock
from skitter.reporting.format import duration, moment

_HELD = "what is in flight is held, and nothing new is begun"
Meanwhile = Mapping[str, str]
"""By engine, what happens to the work without it."""

INDEXING: Meanwhile = {"Kafka": "no pages come", "OpenSearch": "pages wait in Kafka"}


def working(size: str) -> Meanwhile:
    """What happens in a worker of a cluster of this size."""
    return {
        "PostgreSQL": _HELD,
        "Kafka": "what has finished is held, and nothing new is begun once there is no room for more",
        "Redis": _HELD if size == "redis" else "every worker resolves names for itself",
        "S3": "segments wait on this disk",
    }


def awaited(size: str) -> frozenset[str]:
    """The engines without which a worker of a cluster of this size cannot hand over its shards."""
    return frozenset({"PostgreSQL", "Kafka"} if size == "full" else {"Redis"})


class EngineWatch:
    """The breakers of one process."""

    def __init__(
        self, guards: Sequence[Guard], meanwhile: Meanwhile, clock: Clock, warn: Callable[[str], None]
    ) -> None:
        self._guards = guards
        self._meanwhile = meanwhile
        self._clock = clock
        self._warn = warn
        self._since: dict[str, float] = {}  # engines reported as away, by the guards' clock
        for guard in guards:
            guard.listen = self._tell
            self._tell(guard)

    async def run(self) -> None:
        """Check every engine that falls silent. Ends by cancellation."""
        await asyncio.gather(*(guard.watch() for guard in self._guards))

    def away_for(self, engine: str) -> float:
        """Seconds since an engine went away; 0 if it is there."""
        since = self._since.get(engine)
        return 0.0 if since is None else self._clock.monotonic() - since

    def about(self) -> dict[str, dict[str, Any]]:
        """By engine, the state of its breaker, and since when the engine is away."""
        return {
            guard.engine: {
                "breaker": guard.phase.value,
                "since": None if guard.away is None else self._moment_of(guard.away.since),
            }
            for guard in self._guards
        }

    def _tell(self, guard: Guard) -> None:
        engine, away, said = guard.engine, guard.away, guard.engine in self._since
        if away is not None and not said:
            self._since[engine] = away.since
            why = away.why.removeprefix(engine).lstrip(": ")
            since = moment(self._moment_of(away.since))
            self._warn(f"{engine} is away since {since} ({why}); {self._meanwhile[engine]}")
        elif away is None and said:
            gone = self._clock.monotonic() - self._since.pop(engine)
            self._warn(f"{engine} is back after {duration(gone)}")

    def _moment_of(self, monotonic: float) -> float:
        """The same moment in seconds since the epoch."""
        return self._clock.now() - (self._clock.monotonic() - monotonic)

"""Roots that one worker adds to the scope: all others learn of them with their next heartbeat."""

import asyncio
from collections.abc import Sequence

from skitter.cluster.ports import Claims
from skitter.engines.breaker import until_again
from skitter.engines.parts import in_parts
from skitter.events import Event, Events, RootsAdded, Warned
from skitter.ports import EngineAway, Unstorable

_SHOWN = 200  # characters of a root shown in a warning


class NewRoots:
    """Collects roots that are added here, and sends them to the engine until it has them."""

    def __init__(self, claims: Claims, events: Events) -> None:
        self._claims = claims
        self._events = events
        self._new: set[str] = set()
        self._waiting = asyncio.Event()
        events.subscribe(self._note, RootsAdded)

    def _note(self, event: Event) -> None:
        if isinstance(event, RootsAdded):
            self._new.update(event.roots)
            self._waiting.set()

    async def tell(self) -> None:
        """Send roots, repeating as necessary. Ends by cancellation."""
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            roots = sorted(self._new)
            try:
                await in_parts(roots, self._add, self._refused)
                self._new.difference_update(roots)
            except EngineAway as away:
                await until_again(away)
                self._waiting.set()

    async def _add(self, roots: Sequence[str]) -> list[None]:
        await self._claims.add_roots(roots)
        return []

    async def _refused(self, root: str, problem: Unstorable) -> None:
        self._events.emit(Warned(f"{root[:_SHOWN]} widens the scope of this worker only: {problem}"))

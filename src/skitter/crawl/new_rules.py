"""A robots.txt that changed in mid-crawl: what it forbids now leaves the queue, what it allows now comes back.

No page is fetched against the new rules in any case: each is judged once more when its turn comes. The sweep makes the
queue and the counts true, and finds what was refused before. It reads every URL of the shard, so it takes a tenth of
the time at most, however often files change; where none changes, it costs nothing.
"""

import asyncio
from collections.abc import Callable, Collection

from skitter.ports import Clock, Frontier, Judged, RulesOf
from skitter.robots.in_force import Permissions

_PAUSE = 9.0  # times as long as the last sweep took
_LONGEST_PAUSE = 600.0  # seconds


class NewRules:
    """Judges URLs again when a robots.txt has changed."""

    def __init__(
        self, frontier: Frontier, permissions: Permissions, clock: Clock, judged: Callable[[Judged], None]
    ) -> None:
        """`judged` is told after each sweep."""
        self._frontier, self._permissions, self._clock = frontier, permissions, clock
        self._judged = judged
        self._look = asyncio.Event()
        self._sweeping = False

    @property
    def pending(self) -> bool:
        """Whether URLs may come back, so that the crawl is not over."""
        return self._sweeping or self._frontier.has_new_rules()

    def look(self) -> None:
        """Something was stored: a robots.txt may have changed."""
        if self._frontier.has_new_rules():
            self._look.set()

    async def run(self) -> None:
        """Sweep whenever there are new rules."""
        self.look()
        while True:
            await self._look.wait()
            self._look.clear()
            began, self._sweeping = self._clock.monotonic(), True
            judged = await self._frontier.judge_by_rules(self._rules, self._clock.now())
            self._sweeping = False
            self._judged(judged)
            await asyncio.sleep(min((self._clock.monotonic() - began) * _PAUSE, _LONGEST_PAUSE))
            self.look()

    async def _rules(self, origins: Collection[str]) -> RulesOf:
        """The rules that are known and in force."""
        found = {origin: await self._permissions.in_force(origin) for origin in origins}
        return {
            origin: known.refusal
            for origin, known in found.items()
            if known.rules is not None and not known.held
        }

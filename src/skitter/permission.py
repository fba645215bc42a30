"""May we fetch this URL? The robots.txt rules in force, per origin, parsed once and kept for a while."""

from msgspec.structs import replace

from skitter import urls
from skitter.model import Reason, RobotsCopy
from skitter.ports import Cache, Clock, Frontier
from skitter.robots import RobotsRules, rules_in_force


class Permissions:
    """The rules of every origin we deal with. The truth is in the frontier; here it is parsed."""

    def __init__(self, frontier: Frontier, cache: Cache, clock: Clock, agent: str) -> None:
        self._frontier = frontier
        self._cache = cache
        self._clock = clock
        self._agent = agent

    async def rules(self, origin: str) -> RobotsRules | None:
        """What the origin's robots.txt says; None when we have never had an answer."""
        rules, _copy = await self._in_force(origin)
        return rules

    async def held_until(self, origin: str) -> float:
        """Before then nothing is wanted from an origin: its robots.txt could not be had, and will be asked for again."""
        _rules, copy = await self._in_force(origin)
        return copy.held if copy else 0.0

    async def refusal(self, url: str) -> Reason | None:
        """Why the URL may not be fetched; None when it may."""
        rules, copy = await self._in_force(urls.origin(url))
        if rules is None or copy is None:
            return Reason("robots.unknown", "the robots.txt of its origin has not been read")
        if rules.allows(url):
            return None
        if not rules.reachable:
            return Reason(
                "robots.unreachable", f"robots.txt could not be had ({copy.problem}), so nothing is allowed"
            )
        line = rules.line(url)
        if line is None:
            return Reason("robots", "robots.txt has too many rules to match this long a URL")
        where = f"line {line.number}: " if line.number else ""
        return Reason("robots", f"robots.txt {where}{line.text}")

    async def renew(self, copy: RobotsCopy) -> RobotsRules:
        """There is a new copy: what it says from now on."""
        await self._cache.forget(copy.origin)
        return rules_in_force(copy, self._agent)

    def statistics(self) -> dict[str, float]:
        """The cache of parsed rules in numbers."""
        return self._cache.statistics()

    async def _in_force(self, origin: str) -> tuple[RobotsRules | None, RobotsCopy | None]:
        return await self._cache.get_or_fetch(origin, lambda: self._load(origin))

    async def _load(self, origin: str) -> tuple[tuple[RobotsRules | None, RobotsCopy | None], float]:
        copy = await self._frontier.robots(origin)
        if copy is None:
            return (None, None), 0.0
        kept = replace(copy, body=b"")  # the rules hold what they need of it
        return (rules_in_force(copy, self._agent), kept), max(0.0, copy.expires - self._clock.now())

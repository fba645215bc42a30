"""May we fetch this URL? The robots.txt rules in force, per origin, parsed once and kept for a while."""

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
        return await self._cache.get_or_fetch(origin, lambda: self._load(origin))

    async def refusal(self, url: str) -> Reason | None:
        """Why the URL may not be fetched; None when it may."""
        rules = await self.rules(urls.origin(url))
        if rules is None:
            return Reason("robots.unknown", "the robots.txt of its origin has not been read")
        if rules.allows(url):
            return None
        if not rules.reachable:
            return Reason("robots.unreachable", "robots.txt could not be read, so nothing is allowed")
        line = rules.line(url)
        where = (
            f"line {line.number}: {line.text}"
            if line and line.number
            else line.text
            if line
            else "it is too long to match"
        )
        return Reason("robots", f"robots.txt {where}")

    async def renew(self, copy: RobotsCopy) -> RobotsRules:
        """There is a new copy: what it says from now on."""
        await self._cache.forget(copy.origin)
        return rules_in_force(copy, self._agent)

    def statistics(self) -> dict[str, float]:
        """The cache of parsed rules in numbers."""
        return self._cache.statistics()

    async def _load(self, origin: str) -> tuple[RobotsRules | None, float]:
        copy = await self._frontier.robots(origin)
        if copy is None:
            return None, 0.0
        return rules_in_force(copy, self._agent), max(0.0, copy.expires - self._clock.now())

"""May we fetch this URL? The robots.txt rules in force, per origin, parsed once and kept for a while."""

from msgspec import Struct
from msgspec.structs import replace

from skitter import reasons
from skitter.model import Reason, RobotsCopy, Statement
from skitter.ports import Cache, Clock, Frontier
from skitter.robots import RobotsRules, rules_in_force
from skitter.runtime import windows
from skitter.runtime.metrics import CacheMetrics
from skitter.runtime.windows import Windows

_AT_HAND = 1000  # origins; those that are visited now are few


class InForce(Struct, frozen=True):
    """What applies to an origin now. Without rules there was never an answer."""

    rules: RobotsRules | None = None
    held: float = (
        0.0  # until then nothing is fetched: the robots.txt could not be fetched, and will be tried again
    )
    problem: str = ""
    hours: Windows | None = None  # its pages are fetched only then (Visit-time)
    until: float = 0.0  # of the monotonic clock: the frontier is asked again from then on
    says: bool = False  # whether it says anything about the uses of pages
    read_at: float = 0.0

    def statements(self, url: str) -> list[Statement]:
        """What it says about the uses of a page that may be fetched."""
        said = None if self.rules is None else self.rules.said
        return [] if said is None else [replace(one, at=self.read_at) for one in said.statements(url)]

    def refusal(self, url: str) -> Reason | None:
        """Why the URL may not be fetched; None if it may."""
        rules = self.rules
        if rules is None:
            return Reason(reasons.ROBOTS_UNKNOWN, "the robots.txt of its origin has not been read")
        if rules.allows(url):
            return None
        if not rules.reachable:
            return Reason(
                reasons.ROBOTS_UNREACHABLE,
                f"robots.txt could not be fetched ({self.problem}), so nothing is allowed",
            )
        line = rules.line(url)
        if line is None:
            return Reason(reasons.ROBOTS, "robots.txt has too many rules to match this long a URL")
        where = f"line {line.number}: " if line.number else ""
        return Reason(reasons.ROBOTS, f"robots.txt {where}{line.text}")


class Permissions:
    """The rules of every origin in use. The frontier stores them; here they are parsed."""

    def __init__(self, frontier: Frontier, cache: Cache, clock: Clock, agent: str) -> None:
        self._frontier = frontier
        self._cache = cache
        self._clock = clock
        self._agent = agent
        self.renewals = 0  # of any origin: while there was none, the rules in force are unchanged
        self._at_hand: dict[str, InForce] = {}  # the part of the cache that is read without awaiting
        self._hits = 0  # of that part

    async def in_force(self, origin: str) -> InForce:
        """What the origin's robots.txt says."""
        known = self._at_hand.get(origin)
        if known is not None and known.until > self._clock.monotonic():
            self._hits += 1
            return known
        renewals = self.renewals
        found = await self._cache.get_or_fetch(origin, lambda: self._load(origin))
        if renewals == self.renewals:  # else it may be what was in force before
            if len(self._at_hand) >= _AT_HAND:
                self._at_hand.clear()
            self._at_hand[origin] = found
        return found

    async def renew(self, copy: RobotsCopy) -> RobotsRules | None:
        """Use a new copy from now on."""
        await self.forget(copy.origin)
        renewed = await self._cache.get_or_fetch(copy.origin, lambda: self._read(copy))
        return renewed.rules

    def differ(self, before: RobotsCopy, now: RobotsCopy) -> bool:
        """Whether a new copy allows something else. While a host only fails to answer, its pages wait and none is lost."""
        if (
            (before.access, before.body) == (now.access, now.body)
            or not before.fetched_at
            or before.held
            or now.held
        ):
            return False
        old, new = rules_in_force(before, self._agent), rules_in_force(now, self._agent)
        return old.reachable != new.reachable or not old.index.same_as(new.index)

    async def forget(self, origin: str) -> None:
        """Forget an origin: another shard has sent a copy to the frontier, or may have."""
        self.renewals += 1
        self._at_hand.pop(origin, None)
        await self._cache.forget(origin)

    def metrics(self) -> CacheMetrics:
        """The cache of parsed rules in numbers."""
        numbers = self._cache.metrics()
        return replace(numbers, hits=numbers.hits + self._hits)

    async def _load(self, origin: str) -> tuple[InForce, float]:
        copy = await self._frontier.robots(origin)
        return (InForce(), 0.0) if copy is None else await self._read(copy)

    async def _read(self, copy: RobotsCopy) -> tuple[InForce, float]:
        rules = rules_in_force(copy, self._agent)
        fresh = max(0.0, copy.expires - self._clock.now())
        hours = None if rules.visit_time is None else windows.daily(*rules.visit_time)
        until = self._clock.monotonic() + fresh
        says = rules.said is not None
        return InForce(rules, copy.held, copy.problem, hours, until, says, copy.fetched_at), fresh

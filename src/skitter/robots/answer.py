"""What an answer to the request for a robots.txt means (RFC 9309 2.3.1).

A definite answer (a file, or that there is none) is used for a day. Without one nothing is allowed: the host
waits and is tried again a few times, then given up. Rules read earlier stay in force while a host fails.
"""

from msgspec import Struct
from msgspec.structs import replace

from skitter import reasons
from skitter.model import (
    Failed,
    Fault,
    Fetched,
    NotModified,
    NotNow,
    Outcome,
    Reason,
    Redirected,
    Refused,
    RobotsCopy,
)
from skitter.robots.matching import RobotsRules
from skitter.robots.reading import LONGEST_DELAY, MAX_SIZE, clipped, robots_rules
from skitter.settings import RobotsSettings

# Seconds to wait after a reused connection was closed on the request: the next one gets a new connection. The
# host's delay comes on top.
_REUSED = 1.0


class RobotsAnswer(Struct, frozen=True, kw_only=True):
    """How one request for an origin's robots.txt ended."""

    origin: str
    outcome: Outcome
    hops: int = 0  # redirects that led to this request
    retry_after: float | None = None  # seconds, from Retry-After


class RobotsVerdict(Struct, frozen=True, kw_only=True):
    """What it means: `copy` is in force from now on, or `follow` is the next URL to fetch."""

    copy: RobotsCopy | None = None
    follow: str = ""
    aside: Reason | None = None  # the host is given up


def rules_in_force(copy: RobotsCopy, agent: str) -> RobotsRules:
    """The rules of a copy."""
    if copy.access == "rules":
        return robots_rules(copy.body, agent)
    return replace(robots_rules(b"", agent), reachable=copy.access == "all")


def judge(  # noqa: PLR0911  one return per kind of answer
    answer: RobotsAnswer, previous: RobotsCopy | None, settings: RobotsSettings, now: float, jitter: float
) -> RobotsVerdict:
    """What the answer means, given the previous copy. `jitter` is a number in [-1, 1], drawn by the caller."""
    keep = _Keep(answer.origin, settings, now, jitter)
    match answer.outcome:
        case Fetched(exchange, status, content=content) if 200 <= status < 300:
            return keep.rules(status, clipped(content, len(content)) if exchange.cut else content)
        case NotModified() if previous is not None and previous.access == "rules":
            return keep.rules(previous.status, previous.body)
        case Redirected(target=target) if target and answer.hops < settings.max_redirects:
            return RobotsVerdict(follow=target)
        case Redirected(status=status, target=target, location=location):
            return keep.none(status, "too many redirects" if target else f"redirect to {location!r}")
        case Fetched(status=status) if 300 <= status < 500 and status != 429:
            return keep.none(status, f"status {status}")
        case Fetched(status=status):
            return _failed(answer, previous, settings, now, f"status {status}")
        case NotModified():
            return _failed(answer, previous, settings, now, "status 304 about a copy that we do not have")
        case Refused(reason=reason) | NotNow(reason=reason):  # a visit that is put off does not come here
            return _failed(answer, previous, settings, now, reason.detail or reason.code)
        case Failed(fault=fault, detail=detail):
            return _failed(answer, previous, settings, now, f"{fault}: {detail}" if detail else str(fault))


class _Keep(Struct, frozen=True):
    """A definite answer, kept for a day at most (2.4). Copies expire randomly earlier, never later."""

    origin: str
    settings: RobotsSettings
    now: float
    jitter: float

    def rules(self, status: int, body: bytes) -> RobotsVerdict:
        """There is a file."""
        return self._copy(status=status, body=clipped(body, MAX_SIZE), access="rules", problem="")

    def none(self, status: int, problem: str) -> RobotsVerdict:
        """There is no file: everything is allowed (2.3.1.3). The same holds for endless redirects (2.3.1.2)."""
        return self._copy(status=status, body=b"", access="all", problem=problem)

    def _copy(self, *, status: int, body: bytes, access: str, problem: str) -> RobotsVerdict:
        share = self.settings.jitter * (1 + self.jitter) / 2
        return RobotsVerdict(
            copy=RobotsCopy(
                origin=self.origin,
                status=status,
                body=body,
                access=access,
                fetched_at=self.now,
                expires=self.now + self.settings.cache * (1 - share),
                problem=problem,
            )
        )


def _failed(
    answer: RobotsAnswer, previous: RobotsCopy | None, settings: RobotsSettings, now: float, problem: str
) -> RobotsVerdict:
    """No answer: nothing is allowed (2.3.1.4), unless there are rules from before the failure. Try again later."""
    status = answer.outcome.status if isinstance(answer.outcome, Fetched) else 0
    # Neither is the host's fault: our memory limit, or a reused connection that it closed.
    blameless = _is_fault(answer.outcome, Fault.BUSY, Fault.REUSE)
    tries = (previous.tries if previous else 0) + (not blameless)
    again = now + (
        _REUSED
        if _is_fault(answer.outcome, Fault.REUSE)
        else _wait(answer.retry_after, tries, settings, busy=status == 429)
    )
    # Crawling on with old rules after "too many requests" would be absurd, though RFC 9309 groups 429 with
    # the other 4xx.
    held = again if status == 429 else 0.0
    if previous and previous.access == "rules" and now - previous.fetched_at <= settings.stale:
        return RobotsVerdict(copy=replace(previous, expires=again, held=held, tries=tries, problem=problem))
    given_up = tries > len(settings.retry_after) or _for_good(answer.outcome)
    copy = RobotsCopy(
        origin=answer.origin,
        status=status,
        access="none",
        fetched_at=now,
        expires=now + settings.cache if given_up else again,
        held=0.0 if given_up else again,
        tries=tries,
        problem=problem,
    )
    if not given_up:
        return RobotsVerdict(copy=copy)
    times = "at the first try" if tries == 1 else f"in {tries} tries"
    detail = (
        f"{answer.origin}/robots.txt could not be fetched {times}, so nothing is allowed; last: {problem}"
    )
    return RobotsVerdict(copy=copy, aside=Reason(reasons.ROBOTS_UNREACHABLE, detail))


def _is_fault(outcome: Outcome, *faults: Fault) -> bool:
    return isinstance(outcome, Failed) and outcome.fault in faults


def _for_good(outcome: Outcome) -> bool:
    """Whether a retry is useless: the name does not exist, or the guard refuses its addresses."""
    return isinstance(outcome, Refused) or _is_fault(outcome, Fault.NXDOMAIN)


def _wait(asked: float | None, tries: int, settings: RobotsSettings, *, busy: bool) -> float:
    """Seconds until the next try. The first 429 decides its own wait; repeated ones wait like failures."""
    asked = min(asked or 0.0, LONGEST_DELAY)
    if asked and busy and tries == 1:
        return asked
    waits = settings.retry_after or (settings.cache,)
    return max(waits[min(max(tries, 1), len(waits)) - 1], asked)

"""Was robots.txt asked first, was it obeyed, and was it asked no more often than needed?"""

from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

from msgspec import Struct, field

from skitter import urls
from skitter.reporting.audit.duties import Duties
from skitter.reporting.audit.logs import RobotsTexts
from skitter.reporting.audit.robots import ALL, Rules
from skitter.reporting.audit.values import Request
from skitter.reporting.format import duration

_HOPS = 5  # RFC 9309 2.3.1.2: redirects that must be followed
_SLACK = 120.0  # seconds from a lease, when a copy was fresh enough, to the request
_LAG = (
    5.0  # seconds after an answer in which a request that was under way may still go by the rules before it
)

Complaint = tuple[str, str, str, str]  # check, kind, owed, found


class _Answered(Struct):
    """A request for a robots.txt that may not have ended yet."""

    request: Request
    rules: Rules | None
    location: str


class _Origin(Struct):
    """What is known of an origin's robots.txt at some moment."""

    state: str = ""  # rules, all, failed, moved, unknown
    rules: Rules | None = None
    since: float = 0.0  # when these rules came
    before: Rules | None = None
    asked: float = 0.0  # the last request
    answered: float = 0.0  # the last definite answer
    run: tuple[int, int] = (0, 0)  # of that answer
    hops: int = 0
    location: str = ""
    pending: list[_Answered] = field(default_factory=list)


class RobotsKept:
    """Goes through all requests in order, and remembers what each origin has said."""

    def __init__(self, texts: RobotsTexts) -> None:
        self._texts = texts
        self._origins: dict[str, _Origin] = {}
        self._hops: dict[str, set[str]] = {}  # where a robots.txt has moved: for which origins
        self._same: dict[Rules, Rules] = {}  # thousands of hosts may have the same file
        self._known: dict[str, Rules | None] = {}
        self.unproven: set[str] = set()  # origins whose rules no archive has
        self.checked = 0

    def __len__(self) -> int:
        return len(self._origins)

    def delay(self, url: str, at: float) -> float:
        """The delay that the origin of a URL asks for."""
        origin = self._origins.get(urls.origin(url))
        if origin is None:
            return 0.0
        # Only looked at: requests that began before may still be judged by what was known then.
        rules = [
            answered.rules for answered in origin.pending if answered.request.end <= at and answered.rules
        ]
        latest = rules[-1] if rules else origin.rules
        return latest.delay if latest is not None else 0.0

    def forget(self, url: str) -> None:
        """Its visit was open when the process died: it may be asked again."""
        if (origin := self._origins.get(urls.origin(url))) is not None:
            origin.answered = 0.0

    def is_robots(self, request: Request) -> bool:
        """Whether a request is for a robots.txt, or for the place to which one has moved."""
        if request.purpose:
            return request.purpose == "robots"
        return urlsplit(request.url).path == "/robots.txt" or request.url in self._hops

    def asked(self, request: Request, duties: Duties) -> Iterator[Complaint]:
        """A request for a robots.txt."""
        own = urls.origin(request.url)
        origins = {request.origin} if request.origin else self._hops.pop(request.url, set())
        if not request.origin and urlsplit(request.url).path == "/robots.txt":
            origins = origins | {own}
            yield from self._too_often(request, own, duties)
        answer = self._texts.of(request)
        rules = None
        if answer is not None and 200 <= request.status < 300:
            rules = self._texts.rules(answer, duties.agent)
            rules = self._same.setdefault(rules, rules)
        location = answer.headers.get("location", "") if answer is not None else "?"
        for name in origins:
            origin = self._origins.setdefault(name, _Origin())
            origin.asked = request.start
            origin.pending.append(_Answered(request, rules, location))
            if not request.purpose and 300 <= request.status < 400 and location not in {"", "?"}:
                self._hops.setdefault(urljoin(request.url, location), set()).add(name)

    def _too_often(self, request: Request, name: str, duties: Duties) -> Iterator[Complaint]:
        origin = self._at(name, request.start)
        if (
            origin is None
            or not origin.answered
            or not request.purpose
            or origin.run != (request.file, request.run)
        ):
            return
        age = request.start - origin.answered
        if age < duties.least_cache - _SLACK:
            kept = duration(duties.least_cache)
            yield (
                "once",
                "robots twice",
                f"a robots.txt is used for {kept}",
                f"asked again after {duration(age)}",
            )

    def page(self, request: Request, duties: Duties, slack: float) -> Iterator[Complaint]:
        """A request for anything else."""
        name = urls.origin(request.url)
        origin = self._at(name, request.start + slack)
        if origin is None or not origin.state:
            late = origin is not None and bool(origin.pending)
            found = "it had not been answered yet" if late else "it was not asked for before"
            yield "robots first", "robots first", f"{name}/robots.txt first", found
            given = self._given(request.host, duties.agent)
            if given is not None:  # never asked, but known to the owner of the site
                self.checked += 1
                yield from _by_rules(request, given, None)
            return
        if request.start - origin.asked > duties.cache + _SLACK:
            age = duration(request.start - origin.asked)
            yield (
                "robots first",
                "robots stale",
                f"a robots.txt no older than {duration(duties.cache)}",
                f"it was {age} old",
            )
        if origin.state == "unknown" or (
            origin.state == "moved" and origin.hops <= _HOPS and origin.location == "?"
        ):
            self.unproven.add(name)
            return
        self.checked += 1
        if origin.state == "moved" and origin.hops <= _HOPS:
            yield from _moved(name, origin)
        elif origin.state == "failed":
            owed = "nothing, while robots.txt cannot be had"
            yield "robots obeyed", "robots unreachable", owed, "requested"
        elif origin.rules is not None:
            fresh = request.start < origin.since + _LAG
            yield from _by_rules(request, origin.rules, origin.before if fresh else None)

    def _given(self, host: str, agent: str) -> Rules | None:
        if host not in self._known:
            self._known[host] = self._texts.given(host, agent)
        return self._known[host]

    def _at(self, name: str, at: float) -> _Origin | None:
        """What was known of an origin at a moment: answers that had ended by then count."""
        origin = self._origins.get(name)
        if origin is None:
            return None
        while origin.pending and origin.pending[0].request.end <= at:
            _learn(origin, origin.pending.pop(0))
        return origin


def _moved(name: str, origin: _Origin) -> Iterator[Complaint]:
    if urls.fetched_form(urljoin(f"{name}/robots.txt", origin.location)) and origin.location:
        found = f"it moved to {origin.location}, which was not asked"
        yield "robots first", "robots moved", f"{name}/robots.txt first", found


def _by_rules(request: Request, rules: Rules, before: Rules | None) -> Iterator[Complaint]:
    """What rules say to a request, which may still go by those before them."""
    line = rules.refusal(request.url)
    if line and not (before is not None and not before.refusal(request.url)):
        yield "robots obeyed", "robots disobeyed", f"robots.txt says {line}", "requested"
    if rules.hours and before is None:
        minute = int(request.start % 86400) // 60
        if not any(_within(minute, start, end) for start, end in rules.hours):
            hours = ", ".join(f"{a // 60:02}:{a % 60:02}-{b // 60:02}:{b % 60:02}" for a, b in rules.hours)
            now = f"{minute // 60:02}:{minute % 60:02}"
            yield "windows", "visit time", f"Visit-time in robots.txt: {hours} UTC", f"requested at {now} UTC"


def _within(minute: int, start: int, end: int) -> bool:
    return start <= minute < end if start < end else minute >= start or minute < end


def _learn(origin: _Origin, answered: _Answered) -> None:
    """RFC 9309 2.3.1: what an answer means."""
    request, status = answered.request, answered.request.status
    kept = origin.rules if origin.state in {"rules", "all"} else None
    if 200 <= status < 300:
        origin.state = "unknown" if answered.rules is None else "rules"
        origin.before, origin.rules, origin.since = kept, answered.rules, request.end
    elif status == 304:
        pass
    elif 300 <= status < 400:
        origin.hops += 1
        origin.state, origin.location = "moved", answered.location
        return
    elif 400 <= status < 500 and status != 429:
        origin.state = "all"
        origin.before, origin.rules, origin.since = kept, ALL, request.end
    elif origin.state not in {"rules", "unknown"}:
        origin.state = "failed"
        return
    else:
        return  # the rules from before hold while the host fails
    origin.hops = 0
    origin.answered, origin.run = request.end, (request.file, request.run)

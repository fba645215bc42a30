"""What a crawl is waiting for, for the progress display: requests in flight, pausing hosts, and why.

Nothing is decided by this. The frontier knows every host's clock but not its reason; here the reasons of
recent answers are kept for a few hosts, only for pauses long enough to be noticed.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from skitter.model import HostRecord, Settlement, Visit

SHOWN = 4  # most URLs and hosts worth showing
LONG = 2.0  # seconds: shorter pauses are over before anybody reads them
_KEPT = 1000  # hosts
_TIDY = 1.0  # seconds between two clean-ups of finished pauses


class Asked(Struct, frozen=True, array_like=True):
    """A request in flight, and for how many seconds."""

    url: str
    seconds: float


class Pause(Struct, frozen=True, array_like=True):
    """A host (or an origin) that pauses for some more seconds."""

    host: str  # empty: the whole crawl
    seconds: float
    why: str


class Waiting(Struct, frozen=True, array_like=True):
    """What the crawl waits for: the longest requests first, the shortest pauses first."""

    asked: Sequence[Asked] = ()
    pauses: Sequence[Pause] = ()
    next_in: float | None = None  # seconds until the next request may start; None: nothing waits, or unknown


class Pauses:
    """Pausing hosts with the reason, from recent settlements."""

    def __init__(self, usual: float) -> None:
        """`usual` is the delay that every host gets."""
        self._usual = usual
        self._until: dict[str, tuple[float, str]] = {}
        self._tidied = 0.0

    def note(self, settlement: Settlement, now: float) -> None:
        """Record a settled visit: does its host pause, and why?"""
        copy, free = settlement.robots, settlement.verdict.host_free
        if copy is not None:
            self._until.pop(copy.origin, None)
            if copy.held > now:
                self._keep(copy.origin, copy.held, f"no robots.txt ({copy.problem.partition(': ')[0]})", now)
        held = settlement.verdict.host_held
        if held is not None and held > now + LONG and settlement.verdict.reason is not None:
            self._keep(settlement.visit.link.host, held, settlement.verdict.reason.detail, now)
        elif free is not None and free > now + LONG:
            self._keep(settlement.visit.link.host, free, _why(settlement, self._usual), now)

    def slowed(self, host: HostRecord, now: float) -> None:
        """Record what a host's trouble cost it, if that is long."""
        pace = host.pace
        if pace is not None and host.free_at > now + LONG and (pace.wait or pace.parked):
            sign = pace.cause or "failures"
            why = f"parked after {pace.failures} failures" if pace.parked else f"slowed down after {sign}"
            self._keep(host.host, host.free_at, why, now)

    def current(self, now: float) -> list[Pause]:
        """The pauses that end first."""
        self._tidy(now)
        soonest = sorted((until, host, why) for host, (until, why) in self._until.items())
        return [Pause(host, until - now, why) for until, host, why in soonest[:SHOWN]]

    def _keep(self, host: str, until: float, why: str, now: float) -> None:
        if len(self._until) >= _KEPT and now > self._tidied + _TIDY:
            self._tidy(now)
        if len(self._until) < _KEPT or host in self._until:
            self._until[host] = until, why

    def _tidy(self, now: float) -> None:
        self._tidied = now
        self._until = {host: pause for host, pause in self._until.items() if pause[0] > now}


def _why(settlement: Settlement, usual: float) -> str:
    """Why a host pauses for long after this visit."""
    verdict, status, exchange = settlement.verdict, settlement.status, settlement.exchange
    owed = verdict.host_delay or 0.0
    asked = (verdict.host_free or 0.0) - (exchange.ended if exchange is not None else 0.0)
    if exchange is not None and (status == 429 or status >= 500) and asked > owed:
        named = b"\nretry-after:" in exchange.head.lower()
        return f"Retry-After {asked:.0f} s" if named else f"it answered {status}"
    return f"Crawl-delay {owed:g} s" if owed > usual else f"delay {owed:g} s"


def asked(visits: Iterable[Visit], now: float) -> list[Asked]:
    """The URLs of running visits."""
    return [Asked(visit.link.url, max(0.0, now - visit.leased_at)) for visit in visits]


def together(parts: Sequence[Waiting]) -> Waiting:
    """Combine what several shards or workers wait for."""
    urls = sorted((each for part in parts for each in part.asked), key=lambda each: -each.seconds)
    found = {
        (each.host, each.why): each for part in parts for each in part.pauses
    }  # a crawl's own is in each
    pauses = sorted(found.values(), key=lambda each: each.seconds)
    due = [part.next_in for part in parts if part.next_in is not None]
    return Waiting(urls[:SHOWN], pauses[:SHOWN], min(due, default=None))

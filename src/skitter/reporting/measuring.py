"""What every finished visit adds to the metrics of its process.

It also checks what the frontier promises: no request is sent to a host before that is free. The frontier decides; here
it is only compared what was sent with what was owed, as `skitter audit` does afterwards with the log.
"""

import re
from bisect import bisect_left

from skitter import reasons
from skitter.model import Exchange, Fault, Purpose, Settlement
from skitter.runtime.metrics import (
    ArchiveMetrics,
    ChallengeMetrics,
    Metrics,
    PolitenessMetrics,
    RequestMetrics,
    RobotsMetrics,
)

_ROBOTS = Purpose.ROBOTS
_HOSTS = 20_000  # whose next free time is remembered; with more, the half that was not visited for longest is forgotten
_TOLERANCE = 0.001  # seconds: two clocks are read one after the other
_FAULTS = frozenset(fault.value for fault in Fault)

# Where vendors put a mark on a challenge, as opposed to an ordinary refusal. A vendor that changes it is missed.
_CHALLENGED = frozenset((202, 403, 405, 429, 503))
_IN_HEAD = re.compile(
    rb"\n(?:(cf-mitigated: *challenge)|(x-amzn-waf-action: *(?:challenge|captcha))|(x-datadome(?:-cid)?:|x-dd-b:)|(server: *akamaighost))",
    re.IGNORECASE,
)
_HEAD_VENDORS = ("cloudflare", "aws", "datadome", "akamai")
_IN_BODY = (
    (b"_Incapsula_Resource", "imperva"),
    (b"px-captcha", "human"),
    (b"/.within.website/x/", "anubis"),
)
_LOOKED_AT = 4096  # bytes at the beginning of a body …
_SHORT = 16384  # … that is no longer than this: a challenge says little
VENDORS = (*_HEAD_VENDORS, *(vendor for _, vendor in _IN_BODY))


_CLASSES = tuple(f"{digit}xx" for digit in range(10))


class Measuring:
    """The metrics of one process that its visits fill."""

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self.politeness = PolitenessMetrics()
        self.robots = RobotsMetrics()
        self.challenge = ChallengeMetrics()
        self.archive = ArchiveMetrics()
        self._owed: dict[str, tuple[float, float]] = {}  # by host: when it was found out, and when it is free

    def visited(self, settlement: Settlement, content: bytes | None, now: float) -> None:
        """A visit has ended. `content` is its decoded body, if that is known."""
        exchange, verdict = settlement.exchange, settlement.verdict
        if exchange is None:
            reason = verdict.reason
            if reason is not None and reason.code == reasons.ROBOTS:
                self.robots.denied += 1
            elif reason is not None and verdict.attempted and reason.code in _FAULTS:
                _count(self.requests.failures, reason.code)
            return
        self.requested(exchange, settlement.status, verdict.reason.code if verdict.reason else "")
        self._mind_the_host(settlement, exchange, now)
        if settlement.visit.link.purpose is _ROBOTS:
            self.robots.fetched += 1
            self.robots.failed += settlement.robots is not None and settlement.robots.tries > 0
        elif vendor := challenge(settlement.status, exchange.head, content or exchange.body):
            _count(self.challenge.pages, vendor)

    def requested(self, exchange: Exchange, status: int, problem: str) -> None:
        """A request has ended: of a visit, or of a page that was rendered."""
        requests = self.requests
        taken = exchange.ended - exchange.started
        size = len(exchange.head) + len(exchange.body) + exchange.beyond
        seconds, sizes = requests.seconds, requests.bytes
        seconds.counts[bisect_left(seconds.bounds, taken)] += 1
        seconds.total += taken
        sizes.counts[bisect_left(sizes.bounds, size)] += 1
        sizes.total += size
        if status:
            name, answers = _CLASSES[status // 100], requests.answers
            answers[name] = answers.get(name, 0) + 1
        else:
            _count(requests.failures, problem if problem in _FAULTS else reasons.UNKNOWN)

    def archived(self, records: int, now: float) -> None:
        """Something was appended to the archive."""
        self.archive.records += records
        self.archive.last_write_timestamp = now

    def metrics(self) -> Metrics:
        """All of it."""
        return Metrics(
            requests=self.requests,
            politeness=self.politeness,
            robots=self.robots,
            challenge=self.challenge,
            archive=self.archive,
        )

    def _mind_the_host(self, settlement: Settlement, exchange: Exchange, now: float) -> None:
        """Whether the host was free when the request was sent, and when it is free again.

        Visits that were leased before the last answer of the host was known may overlap with it, where settings allow several
        at once: they are judged by the clock that they were leased under.
        """
        visit, free, owed = settlement.visit, settlement.verdict.host_free, self._owed
        host = visit.link.host
        known, until = owed.pop(host, (0.0, 0.0))
        least = visit.host_free if visit.leased_at <= known else max(visit.host_free, until)
        if exchange.started < least - _TOLERANCE:
            self.politeness.violations += 1
        if free is not None:
            wait = self.politeness.wait
            left_alone = max(0.0, free - exchange.ended)
            wait.counts[bisect_left(wait.bounds, left_alone)] += 1
            wait.total += left_alone
            owed[host] = (now, max(free, until))
            if len(owed) > _HOSTS:
                for name in list(owed)[: _HOSTS // 2]:
                    del owed[name]


def challenge(status: int, head: bytes, body: bytes) -> str:
    """Whose challenge an answer is; empty if it is none that is known."""
    if status in _CHALLENGED and (found := _IN_HEAD.search(head)):
        vendor = _HEAD_VENDORS[(found.lastindex or 1) - 1]
        if vendor != "akamai" or (status == 403 and b"Reference&#32;&#35;" in body[:_LOOKED_AT]):
            return vendor
    if len(body) < _SHORT and (status == 200 or status in _CHALLENGED):
        for mark, vendor in _IN_BODY:
            if body.find(mark, 0, _LOOKED_AT) >= 0:
                return vendor
    return ""


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1

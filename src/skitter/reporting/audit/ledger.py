"""Judges requests one by one, in the order of their start, with arithmetic of its own.

For every key (host, address, domain, group) there is one account: when it is free again, and which requests are
still in flight. Memory grows with the number of keys, not with the number of requests.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from math import inf

from msgspec import Struct, field

from skitter.reporting.audit.bandwidth import Bandwidth
from skitter.reporting.audit.duties import Duties, Duty
from skitter.reporting.audit.robots_kept import Complaint, RobotsKept
from skitter.reporting.audit.values import Log, Request
from skitter.reporting.format import amount, count, counted, moment

_AFTER_A_CRASH = 10.0  # seconds at the end of a run whose results a power loss may have taken
_LEAST_SLACK = 1.0  # seconds that a request may be late on its way, where only starts are apart
_SETTLED = 2.0  # seconds in which an answer is settled: what is still in hand comes on top of a budget
_DAY = 86400.0
_MIDNIGHT = 5.0  # seconds after it in which a request may belong to the day before
PAGES = frozenset({"", "page", "redirect", "retry"})
_RENDER = "render"  # the purpose of what a page requested while a browser rendered it
_RENDER_IN_FLIGHT = 2


class _Account(Struct):
    """What is owed to one key."""

    era: int = 0
    free_at: float = 0.0
    why: str = ""
    turn: float = -inf  # the earliest time at which the last request can have been sent
    shown: float = -inf  # the turn of the last one that a page made while it was rendered
    owed: float = (
        0.0  # for what a page requested while it was rendered: seconds after the last of that has ended
    )
    ended: float = 0.0  # when that was
    asked_until: float = 0.0  # Retry-After
    asked: str = ""
    asked_with: str = ""  # the URL of that answer
    ends: list[float] = field(default_factory=list)  # of requests in flight
    peak: int = 0
    pages: int = 0
    received: int = 0
    busy: float = 0.0
    done: list[tuple[float, int, float]] = field(
        default_factory=list
    )  # (end, bytes, seconds) not added up yet
    day: int = -1
    today: int = 0


class _Tries(Struct):
    """The requests for one URL that was requested more than once."""

    final: bool = False  # it was answered for good
    failures: int = 0
    file: int = 0
    run: int = 0
    end: float = 0.0
    lost: bool = False  # a process died with it
    page: bool = False  # it was counted as a page


class Ledger:
    """Everything that is known while requests go by."""

    def __init__(
        self, logs: Sequence[Log], duties: Sequence[Duties], robots: RobotsKept, repeated: frozenset[int]
    ) -> None:
        self._logs = logs
        self._duties = duties
        self._robots = robots
        self._repeated = repeated
        self._accounts: dict[tuple[str, str], _Account] = {}
        self._tries: dict[int, _Tries] = {}
        self._bandwidth = Bandwidth()
        self._runs: dict[tuple[int, int], float] = {}  # when a run of a log ended
        self.counted: Counter[str] = Counter()  # how often something was checked
        self.peaks: dict[str, tuple[int, str]] = {}  # by kind of key: most in flight, and where
        self.closest: tuple[float, str] = (inf, "")  # seconds beyond what was owed, and to whom
        self.excused: Counter[str] = Counter()

    def judge(self, request: Request) -> Iterator[tuple[Complaint, str]]:
        """What is wrong with a request, and with which key."""
        duties, log = self._duties[request.terms], self._logs[request.file]
        if request.lost:
            self._lost(request, duties)
            return
        for complaint in self._by_robots(request, duties, log):
            yield complaint, request.host
        self.counted["windows"] += bool(duties.windows(request.url, request.host))
        if log.ends and (rate := duties.bandwidth):
            self.counted["bandwidth"] += 1
            yield from ((complaint, "") for complaint in self._bandwidth.judge(request, rate))
        # One that was decided before the window closed may be on its way.
        before = request.start - _LEAST_SLACK
        closed = duties.closed(request.url, request.host, request.start)
        if closed and duties.closed(request.url, request.host, before):
            yield (
                ("windows", "window", f"only {closed}", f"requested at {moment(request.start)}"),
                request.host,
            )
        again = list(self._again(request, duties, log))
        yield from ((complaint, request.host) for complaint in again)
        for duty in duties.keys(request.url, request.host, request.address):
            account = self._account(duty, request)
            for complaint in self._kept(request, duty, account, log, duties):
                yield complaint, duty.name
            self._enter(request, duty, account, log)

    # -- robots.txt, once --------------------------------------------------------------------------------------

    def _by_robots(self, request: Request, duties: Duties, log: Log) -> Iterator[Complaint]:
        if self._robots.is_robots(request):
            yield from self._robots.asked(request, duties)
        else:
            self.counted["robots first"] += 1
            yield from self._robots.page(request, duties, log.precision)

    def _again(self, request: Request, duties: Duties, log: Log) -> Iterator[Complaint]:
        """Nothing twice without a reason."""
        self._runs[request.file, request.run] = max(
            request.end, self._runs.get((request.file, request.run), 0.0)
        )
        if self._robots.is_robots(request) or hash(request.url) not in self._repeated:
            return
        self.counted["once"] += 1
        tries = self._tries.get(hash(request.url))
        if tries is None:
            tries = self._tries[hash(request.url)] = _Tries()
        elif tries.final and not self._has_reason(request, tries, log):
            yield "once", "twice", "one request for a URL that was answered", "requested again"
        elif request.attempt > 1 and tries.failures > duties.retries:
            owed = f"at most {counted(duties.retries, 'retry', 'retries')} (schedule.retries)"
            yield "once", "retries", owed, f"retry {tries.failures}"
        if request.attempt == 1:
            tries.failures = 0
        failed = request.status in {0, 429} or request.status >= 500
        tries.failures += failed and request.fault != "reuse"
        tries.final, tries.lost = not failed, False
        tries.file, tries.run, tries.end = request.file, request.run, request.end

    def _has_reason(self, request: Request, tries: _Tries, log: Log) -> bool:
        if request.purpose in {
            "recrawl",
            "redirect",
            _RENDER,
        }:  # each worker remembers what its pages were given
            return True
        if tries.lost:
            self.excused["requested again after a process died with them in flight"] += 1
            return True
        if log.kind != "requests":  # no reasons in there: once a day is fair
            return request.start - tries.end > _DAY
        ended = self._runs.get((tries.file, tries.run), tries.end)
        if (tries.file, tries.run) != (request.file, request.run) and tries.end > ended - _AFTER_A_CRASH:
            self.excused["requested again after a crash took their result"] += 1
            return True
        return False

    def _lost(self, request: Request, duties: Duties) -> None:
        """A process died with it in flight: it may have been sent, and its host waits once more."""
        self.counted["lost"] += 1
        tries = self._tries.get(hash(request.url))
        if tries is not None:
            tries.lost = True
        elif hash(request.url) in self._repeated:
            self._tries[hash(request.url)] = _Tries(lost=True)
        self._robots.forget(request.url)
        duty = duties.host(request.url, request.host)
        account = self._account(duty, request)
        if account.asked_with == request.url and account.asked_until > request.start:
            # The answer is in the log, but a crash came before it was kept: nobody knows what it asked for.
            self.excused["wishes to wait (Retry-After) in answers that a crash took"] += 1
            account.asked_until = 0.0
        delay = max(duty.delay, self._robots.delay(request.url, request.start))
        if request.start + delay > account.free_at:
            account.free_at = request.start + delay
            account.why = f"{delay:g} s after a run began, or broke off, with it in flight"

    # -- accounts ----------------------------------------------------------------------------------------------

    def _account(self, duty: Duty, request: Request) -> _Account:
        account = self._accounts.setdefault((duty.kind, duty.name), _Account(era=request.era))
        if account.era != request.era:  # the clock was set back: what was owed before cannot be counted on
            account.era, account.free_at, account.turn, account.asked_until = request.era, 0.0, -inf, 0.0
            account.ends.clear()
            self.excused["hosts not judged across a clock that was set back"] += duty.kind == "host"
        return account

    def _kept(
        self, request: Request, duty: Duty, account: _Account, log: Log, duties: Duties
    ) -> Iterator[Complaint]:
        rendered = request.purpose == _RENDER and duty.kind == "host"
        if rendered:
            yield from self._render_gap(request, duties, account, log)
        else:
            yield from self._gap(request, duty, account, log)
        if log.ends and duty.in_flight is not None:
            self.counted["in flight"] += 1
            while account.ends and account.ends[0] <= request.start + log.precision:
                heapq.heappop(account.ends)
            now = len(account.ends) + 1
            if now > self.peaks.get(duty.kind, (0, ""))[0]:
                self.peaks[duty.kind] = now, duty.name
            most = max(duty.in_flight, _RENDER_IN_FLIGHT) if rendered else duty.in_flight
            if now > most:
                owed = f"at most {most} at a time per {duty.kind}"
                yield "in flight", f"in flight {duty.kind}", owed, f"{now} at a time"
        budgets = (duty.pages, duty.bytes, duty.seconds, duty.requests_per_day)
        self.counted["budgets"] += any(each is not None for each in budgets)
        yield from _within_budget(request, duty, account)

    def _gap(self, request: Request, duty: Duty, account: _Account, log: Log) -> Iterator[Complaint]:
        start = request.start
        if account.owed:
            account.free_at = max(account.free_at, account.ended) + account.owed
            account.owed = account.ended = 0.0
        if account.asked and start + log.precision < account.asked_until:
            early = account.asked_until - start
            yield "Retry-After", "retry after", account.asked, f"{early:.3f} s before"
        if log.ends and not duty.turns:
            beyond = start - account.free_at
            self.counted["gap"] += bool(account.why)
            if account.why and 0 <= beyond < self.closest[0]:
                self.closest = beyond, duty.name
            if beyond < -log.precision and account.why:
                yield "gap", f"gap {duty.kind}", account.why, f"{-beyond:.3f} s too early"
        elif duty.delay or account.free_at:
            self.counted["gap"] += account.turn > -inf
            # Where only starts are known, or some are late on their way: each has its turn, a delay behind the one before.
            due = max(account.turn + _turn(duty, account), 0.0)
            slack = log.precision if not log.ends else max(_LEAST_SLACK, duty.delay) + log.precision
            if due > start + slack:
                early = due - slack - start
                yield "gap", f"gap {duty.kind}", account.why, f"at least {early:.3f} s too early"
                due = start
            account.turn = max(start, due)

    def _render_gap(
        self, request: Request, duties: Duties, account: _Account, log: Log
    ) -> Iterator[Complaint]:
        """What a page requests while it is rendered follows each other at a gap; the delay for each is owed afterwards."""
        gap = float(duties.value(request.url, "fetch.render_gap", 0.1))
        self.counted["gap"] += account.shown > -inf
        if account.asked and request.start + log.precision < account.asked_until:
            early = account.asked_until - request.start
            yield "Retry-After", "retry after", account.asked, f"{early:.3f} s before"
        # Each has its turn, a gap behind the one before; on its way it may be late by less than that.
        due, slack = account.shown + gap, gap / 2 + log.precision
        if request.start + slack < due:
            owed = f"{gap:g} s between two requests of a rendered page (fetch.render_gap)"
            yield "gap", "gap host", owed, f"at least {due - slack - request.start:.3f} s too early"
            due = request.start
        account.shown = max(request.start, due)

    def _enter(self, request: Request, duty: Duty, account: _Account, log: Log) -> None:
        delay, why = duty.delay, f"({duty.source})"
        if duty.kind == "host":
            asked = self._robots.delay(request.url, request.end)
            if asked > delay:
                delay, why = asked, "(robots.txt)"
            self._retry_after(request, account)
        took = request.end - request.start
        if log.ends and not duty.turns:
            burst = (duty.burst - 1) * delay
            rested = min(account.free_at, request.start)
            if request.purpose == _RENDER and duty.kind == "host":
                account.owed, account.ended = account.owed + delay, max(account.ended, request.end)
            else:
                account.free_at = max(rested + took, request.end - burst) + delay
            account.why = f"{delay:g} s after the end of the last answer {why}" if delay else ""
        else:
            account.free_at = delay  # between two turns
            account.why = f"{delay:g} s between two requests {why}"
        if log.ends:
            heapq.heappush(account.ends, request.end)
        _spend(request, duty, account, self._tries.get(hash(request.url)))

    def _retry_after(self, request: Request, account: _Account) -> None:
        if not request.retry_after or not (request.status == 429 or request.status >= 500):
            return
        until = _asked_until(request.retry_after, request.end)
        if until is not None:
            self.counted["Retry-After"] += 1
            if until > account.asked_until:
                account.asked_until, account.asked_with = until, request.url
                account.asked = f"Retry-After: {request.retry_after}, sent with {request.status}"


def _turn(duty: Duty, account: _Account) -> float:
    return account.free_at if duty.kind == "host" else duty.delay


# ------------------------------------------------------------------------------------------------ budgets


def _within_budget(request: Request, duty: Duty, account: _Account) -> Iterator[Complaint]:
    """What was used up before a request began."""
    if duty.pages is not None and account.pages > duty.pages:
        account.pages = duty.pages  # said once for each page too many
        yield (
            "budgets",
            f"pages {duty.kind}",
            f"at most {count(duty.pages)} pages per {duty.kind}",
            "one more was stored",
        )
    for end, size, seconds in list(account.done):
        if end <= request.start - _SETTLED:
            account.done.remove((end, size, seconds))
            account.received += size
            account.busy += seconds
    if duty.bytes is not None and account.received >= duty.bytes:
        found = f"requested after {amount(account.received)}"
        yield "budgets", f"bytes {duty.kind}", f"at most {amount(duty.bytes)} per {duty.kind}", found
    if duty.seconds is not None and account.busy >= duty.seconds:
        found = f"requested after {account.busy:.1f} s"
        yield (
            "budgets",
            f"seconds {duty.kind}",
            f"at most {duty.seconds:g} s of requests per {duty.kind}",
            found,
        )
    today = int(request.start // _DAY)
    counts = request.start % _DAY > _MIDNIGHT
    account.today = account.today + counts if today == account.day else int(counts)
    account.day = today
    if duty.requests_per_day is not None and account.today > duty.requests_per_day:
        owed = f"at most {count(duty.requests_per_day)} requests a day per {duty.kind}"
        yield "budgets", f"requests {duty.kind}", owed, f"number {count(account.today)} of its day"


def _spend(request: Request, duty: Duty, account: _Account, tries: _Tries | None) -> None:
    if duty.bytes is not None or duty.seconds is not None:
        account.done.append((request.end, request.size, request.end - request.start))
    if duty.pages is not None and 200 <= request.status < 300 and request.purpose in PAGES:
        again = tries is not None and tries.page
        account.pages += not again
    if tries is not None and duty.kind == "host":
        tries.page = tries.page or 200 <= request.status < 300


def _asked_until(text: str, end: float) -> float | None:
    """The time that a Retry-After names (RFC 9110 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return end + min(float(text[:10]), 1e9)
    try:
        return max(end, parsedate_to_datetime(text).timestamp() - 1.0)  # a date has whole seconds
    except (ValueError, IndexError, TypeError, OverflowError):
        return None

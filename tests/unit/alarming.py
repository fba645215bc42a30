"""A crawl as its metrics show it, minute by minute, with a fault for two hours in the middle."""

from collections.abc import Callable
from dataclasses import dataclass, field

from skitter.model import Counts
from skitter.reporting.observation import Observation, WorkerSeen
from skitter.runtime.metrics import (
    AgendaMetrics,
    EngineMetrics,
    HostMetrics,
    Metrics,
    added_up,
)

MINUTE = 60.0
BEGINS, ENDS, OVER = 60, 180, 260  # minutes
GIB = 2**30


@dataclass
class Minute:
    """What happens in a minute of a healthy crawl; a fault changes some of it."""

    answers: dict[str, int] = field(default_factory=lambda: {"2xx": 55, "4xx": 4, "5xx": 1})
    failures: dict[str, int] = field(default_factory=dict)
    challenges: int = 0
    robots: int = 2
    robots_failed: int = 0
    violations: int = 0
    ready: int = 5
    in_flight: int = 10
    queued: int = 5_000
    archived: bool = True
    up: bool = True
    free: float = 50 * GIB
    offset: float = 0.01
    phase: int = 0
    lag: int = 100
    silent: int = 0
    paused: bool = False
    finished: bool = False


Fault = Callable[[Minute, int], None]
"""Changes a minute; the number counts the minutes of the fault."""


class Sick:
    """A crawl with a fault."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self._measured = Metrics()
        self._pages = 0
        self._written = 0.0

    def minutes(self) -> list[Observation]:
        """One look a minute, from 0 on."""
        return [self._look(number) for number in range(OVER)]

    def _look(self, number: int) -> Observation:
        now = Minute()
        if self._fault is not None and BEGINS <= number < ENDS:
            self._fault(now, number - BEGINS)
        measured = self._measured
        for name, some in now.answers.items():
            measured.requests.answers[name] = measured.requests.answers.get(name, 0) + some
        for name, some in now.failures.items():
            measured.requests.failures[name] = measured.requests.failures.get(name, 0) + some
        for _ in range(sum(now.answers.values()) + sum(now.failures.values())):
            measured.requests.seconds.observe(0.2)
        if now.challenges:
            pages = measured.challenge.pages
            pages["cloudflare"] = pages.get("cloudflare", 0) + now.challenges
        measured.robots.fetched += now.robots
        measured.robots.failed += now.robots_failed
        measured.politeness.violations += now.violations
        measured.agenda, measured.hosts = AgendaMetrics(now.ready), HostMetrics(0, now.in_flight)
        self._pages += now.answers.get("2xx", 0)
        if now.archived:
            measured.archive.last_write_timestamp = number * MINUTE
        return Observation(
            at=number * MINUTE,
            counts=Counts(queued=now.queued, pages=self._pages),
            metrics=added_up([measured]),
            workers=[WorkerSeen("0", up=True), WorkerSeen("1", up=now.up)],
            engines={"Redis": EngineMetrics(), "Kafka": EngineMetrics(now.phase)},
            lag={"high": now.lag, "low": 3},
            silent_workers=now.silent,
            disk_free=int(now.free),
            disk_size=100 * GIB,
            clock_offset=now.offset,
            paused=now.paused,
            finished=now.finished,
            expected_pages=100_000,
        )


def _nothing(now: Minute) -> None:
    now.answers = {}


def _error_rate(now: Minute, _: int) -> None:
    now.answers, now.failures = {"2xx": 50, "5xx": 3}, {"timeout": 3, "nxdomain": 1}


def _stalled(now: Minute, _: int) -> None:
    _nothing(now)


def _slow(now: Minute, number: int) -> None:
    now.answers = {"2xx": 1} if number % 2 else {}


def _unarchived(now: Minute, _: int) -> None:
    now.archived = False


def _violated(now: Minute, _: int) -> None:
    now.violations = 1


def _covers_little(now: Minute, _: int) -> None:
    now.finished = True


def _certificates(now: Minute, _: int) -> None:
    now.failures = {"tls": 1}


def _robots(now: Minute, _: int) -> None:
    now.robots, now.robots_failed = 4, 3


def _challenged(now: Minute, _: int) -> None:
    now.answers, now.challenges = {"2xx": 40, "4xx": 20}, 18


def _set(**values: object) -> Fault:
    def fault(now: Minute, _: int) -> None:
        for name, value in values.items():
            setattr(now, name, value)

    return fault


def _fills_up(now: Minute, number: int) -> None:
    now.free = 50 * GIB - number * 0.1 * GIB


FAULTS: dict[str, Fault] = {
    "queue_large": _set(queued=1_000_001),
    "stalled": _stalled,
    "slow": _slow,
    "no_archive_record": _unarchived,
    "politeness_violation": _violated,
    "coverage": _covers_little,
    "error_rate": _error_rate,
    "certificate_trouble": _certificates,
    "robots_trouble": _robots,
    "challenged": _challenged,
    "worker_down": _set(up=False),
    "disk_low": _set(free=9 * GIB),
    "disk_full_soon": _fills_up,
    "clock_skew": _set(offset=-1.5),
    "worker_silent": _set(silent=1),
    "breaker_open": _set(phase=2),
    "lag": _set(lag=100_001),
}
"""For each rule, a fault that it must notice."""
ALSO: dict[str, set[str]] = {"disk_low": {"disk_full_soon"}}
"""What else may hold in a fault."""


def _window_is_closed(now: Minute, _: int) -> None:
    _nothing(now)
    now.paused = True


def _polite_waiting(now: Minute, number: int) -> None:
    """One host left, with a long Crawl-delay."""
    now.ready, now.in_flight, now.answers = 0, 0, {"2xx": 1} if number % 5 == 0 else {}


def _few_failures(now: Minute, number: int) -> None:
    """Half of very few requests fail."""
    now.ready = 0
    if 15 < number < 105:  # at both ends, the many requests besides them would count
        now.answers, now.failures = {"2xx": 2, "5xx": 2}, {"timeout": 1}
    else:
        now.answers = {"2xx": 2}


FINE: dict[str, Fault] = {
    "a closed window": _window_is_closed,
    "a pause": _set(answers={}, paused=True),
    "a long delay": _polite_waiting,
    "few requests": _few_failures,
    "a disk that is used a little": _set(free=30 * GIB),
    "a drained queue": _set(answers={}, ready=0, in_flight=0, queued=0),
}
"""What needs nobody."""

"""The alert rules, as one table: [alerts] evaluates it, and the rules for Prometheus in deploy/ are written from it."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from skitter.reporting.alerting.conditions import (
    Age,
    Compared,
    History,
    Most,
    Predicted,
    Share,
    Size,
    Sum,
    Total,
)
from skitter.reporting.exposition import NETWORK_FAILURES
from skitter.settings.alerts import AlertsSettings

MINUTE, HOUR = 60.0, 3600.0


class Rule(Struct, frozen=True, kw_only=True):
    """When to call somebody. All conditions must hold, for as long as it says; the first one's value is told."""

    name: str
    severity: str  # critical: somebody must do something; warning: somebody should look
    summary: str  # {value} is the first condition's
    conditions: tuple[Compared, ...]
    lasting: float = 0.0  # seconds
    beyond: str = ""  # what only Prometheus knows, instead of the conditions

    def holds(self, seen: History) -> bool:
        """Whether it holds now, for however short a time."""
        return bool(self.conditions) and all(condition.holds(seen) for condition in self.conditions)

    def value(self, seen: History) -> float | None:
        """The number that the summary tells."""
        return self.conditions[0].value.of(seen) if self.conditions else None

    def promql(self) -> str:
        """The same for Prometheus."""
        return self.beyond or "\nand ".join(condition.promql() for condition in self.conditions)

    @property
    def title(self) -> str:
        """Its name among the rules of Prometheus."""
        return "Skitter" + "".join(word.capitalize() for word in self.name.split("_"))


def metrics_of(rules: Iterable[Rule]) -> frozenset[str]:
    """The metrics that rules look at."""
    return frozenset(
        name for rule in rules for condition in rule.conditions for name in _names(condition.value)
    )


def _names(value: object) -> Sequence[str]:
    match value:
        case Total() | Most() | Predicted() | Age():
            return [value.name]
        case Size(inner):
            return _names(inner)
        case Sum(parts):
            return [name for part in parts for name in _names(part)]
        case Share(part, whole):
            return [*_names(part), *_names(whole)]
    raise AssertionError(value)


# ------------------------------------------------------------------------------------------------ the table

_TEN, _HALF = 10 * MINUTE, 30 * MINUTE
_ANSWERS, _FAILURES = "skitter_requests_answers_total", "skitter_requests_failures_total"
_ENDED = "skitter_requests_seconds_count"


def _tried(over: float) -> Sum:
    """Requests over a time, names that did not resolve included."""
    return Sum((Total(_ANSWERS, "class", over=over), Total(_FAILURES, "reason", over=over)))


def _work_waits() -> Compared:
    return Compared(Total("skitter_hosts", "state", ("ready", "in_flight")), ">", 0)


def table(at: AlertsSettings) -> tuple[Rule, ...]:
    """Every rule, with the thresholds of the settings."""
    return (*_of_the_crawl(at), *_of_the_web(at), *_of_the_machine(at), *_of_the_cluster(at))


def chosen(at: AlertsSettings) -> tuple[Rule, ...]:
    """The rules that are watched."""
    return tuple(rule for rule in table(at) if not at.rules or rule.name in at.rules)


def _of_the_crawl(at: AlertsSettings) -> tuple[Rule, ...]:
    going = Compared(Total("skitter_crawl_paused"), "==", 0)
    recent = min(_TEN, at.stalled_after / 2)
    return (
        Rule(
            name="queue_large",
            severity="warning",
            summary="{value:,.0f} URLs wait",
            conditions=(Compared(Total("skitter_crawl_queued"), ">", at.queue_size),),
            lasting=10 * MINUTE,
        ),
        Rule(
            name="stalled",
            severity="critical",
            summary="hosts are free or being asked, and no request ends",
            conditions=(Compared(Total(_ENDED, over=recent), "==", 0), _work_waits(), going),
            lasting=max(0.0, at.stalled_after - recent),
        ),
        Rule(
            name="slow",
            severity="warning",
            summary="{value:.0f} requests ended in ten minutes, though hosts are free",
            conditions=(
                Compared(Total(_ENDED, over=_TEN), "<", at.slow_rate * _TEN),
                Compared(Total(_ENDED, over=_TEN), ">", 0),
                Compared(Total("skitter_hosts", "state", ("ready",)), ">", 0),
                going,
            ),
            lasting=45 * MINUTE,
        ),
        Rule(
            name="no_archive_record",
            severity="critical",
            summary="pages come, and nothing was archived for {value:.0f} s",
            conditions=(
                Compared(Age("skitter_archive_last_write_timestamp_seconds"), ">", at.archive_age),
                Compared(Total(_ANSWERS, "class", ("2xx",), _HALF), ">", 0),
            ),
            lasting=5 * MINUTE,
        ),
        Rule(
            name="politeness_violation",
            severity="critical",
            summary="{value:.0f} requests were sent before their host was free",
            conditions=(Compared(Total("skitter_politeness_violations_total", over=_TEN), ">", 0),),
        ),
        Rule(
            name="coverage",
            severity="warning",
            summary="the crawl ended with {value:.0%} of the pages of the run before",
            conditions=(
                Compared(
                    Share(Total("skitter_crawl_pages_total"), Total("skitter_crawl_expected_pages")),
                    "<",
                    at.coverage_share,
                ),
                Compared(Total("skitter_crawl_expected_pages"), ">", 0),
                Compared(Total("skitter_crawl_finished"), "==", 1),
            ),
        ),
    )


def _of_the_web(at: AlertsSettings) -> tuple[Rule, ...]:
    failed = Sum(
        (Total(_ANSWERS, "class", ("5xx",), _TEN), Total(_FAILURES, "reason", NETWORK_FAILURES, _TEN))
    )
    asked = Total("skitter_robots_fetched_total", over=_HALF)
    challenges = Total("skitter_challenge_pages_total", "vendor", over=_HALF)
    return (
        Rule(
            name="error_rate",
            severity="warning",
            summary="{value:.1%} of the requests of ten minutes failed (5xx and network)",
            conditions=(
                Compared(Share(failed, _tried(_TEN)), ">", at.error_share),
                Compared(_tried(_TEN), ">=", at.error_requests),
            ),
        ),
        Rule(
            name="certificate_trouble",
            severity="warning",
            summary="{value:.0f} TLS failures in half an hour",
            conditions=(Compared(Total(_FAILURES, "reason", ("tls",), _HALF), ">", at.tls_failures),),
        ),
        Rule(
            name="robots_trouble",
            severity="warning",
            summary="{value:.0%} of the robots.txt requests of half an hour failed",
            conditions=(
                Compared(
                    Share(Total("skitter_robots_failed_total", over=_HALF), asked), ">", at.unheard_share
                ),
                Compared(asked, ">=", 10),
            ),
            lasting=5 * MINUTE,
        ),
        Rule(
            name="challenged",
            severity="warning",
            summary="{value:.0%} of the answers of half an hour are challenges",
            conditions=(
                Compared(Share(challenges, _tried(_HALF)), ">", at.challenge_share),
                Compared(_tried(_HALF), ">=", at.error_requests),
            ),
        ),
    )


def _of_the_machine(at: AlertsSettings) -> tuple[Rule, ...]:
    free = Total("skitter_disk_free_bytes")
    return (
        Rule(
            name="worker_down",
            severity="critical",
            summary="a worker does not answer",
            conditions=(Compared(Most("skitter_worker_up", "worker", least=True), "==", 0),),
            lasting=2 * MINUTE,
        ),
        Rule(
            name="disk_low",
            severity="critical",
            summary="{value:.0%} of the disk is free",
            conditions=(Compared(Share(free, Total("skitter_disk_size_bytes")), "<", at.disk_share),),
            lasting=5 * MINUTE,
        ),
        Rule(
            name="disk_full_soon",
            severity="warning",
            summary="the disk fills up",
            conditions=(Compared(Predicted("skitter_disk_free_bytes", HOUR, at.disk_ahead), "<", 0),),
            lasting=30 * MINUTE,
        ),
        Rule(
            name="clock_skew",
            severity="warning",
            summary="clocks differ by {value:.1f} s",
            conditions=(Compared(Size(Total("skitter_clock_offset_seconds")), ">", at.clock_skew),),
            lasting=5 * MINUTE,
        ),
    )


def _of_the_cluster(at: AlertsSettings) -> tuple[Rule, ...]:
    return (
        Rule(
            name="worker_silent",
            severity="critical",
            summary="{value:.0f} workers of the cluster are not heard of any more",
            conditions=(Compared(Total("skitter_cluster_silent_workers"), ">", 0),),
            lasting=2 * MINUTE,
        ),
        Rule(
            name="breaker_open",
            severity="critical",
            summary="an engine is away",
            conditions=(Compared(Most("skitter_engine_phase", "engine"), ">=", 1),),
            lasting=2 * MINUTE,
        ),
        Rule(
            name="lag",
            severity="warning",
            summary="{value:,.0f} forwarded messages wait in a topic",
            conditions=(Compared(Most("skitter_lag_messages", "topic"), ">", at.lag_messages),),
            lasting=15 * MINUTE,
        ),
    )


DOWN = Rule(
    name="down",
    severity="critical",
    summary="Prometheus cannot reach it",
    conditions=(),
    lasting=5 * MINUTE,
    beyond='up{job=~"skitter.*"} == 0',
)
"""What nobody can say of oneself: only Prometheus has it."""

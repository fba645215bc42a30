"""Which alerts are firing: a rule that holds for long enough begins one, and it ends when the rule no longer holds."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from skitter.reporting.alerting.conditions import History
from skitter.reporting.alerting.rules import Rule

_SETTLING = 60.0  # seconds that an alert of the run before stays, besides the time that its rule must hold


class Alert(Struct, frozen=True, kw_only=True):
    """A rule that holds, or no longer does."""

    name: str
    severity: str
    summary: str
    since: float  # when the rule began to hold, in seconds since the epoch
    value: float | None = None
    ended: float | None = None  # None: it is firing


class Alerts:
    """What holds now, and since when. Time comes with the numbers."""

    def __init__(self, rules: Sequence[Rule], firing: Sequence[Alert] = (), began: float = 0.0) -> None:
        """`firing`: what was, when the last run ended."""
        self._rules = rules
        self._began = began
        self._since: dict[str, float] = {}
        self._firing: dict[str, Alert] = {alert.name: alert for alert in firing}
        self._before = set(self._firing)

    @property
    def firing(self) -> list[Alert]:
        """Those that are firing, the oldest first."""
        return sorted(self._firing.values(), key=lambda alert: (alert.since, alert.name))

    def look(self, seen: History) -> list[Alert]:
        """Those that have begun or ended with the last numbers."""
        changed = []
        for rule in self._rules:
            if rule.holds(seen):
                changed += self._held(rule, seen)
            else:
                changed += self._let_go(rule, seen.now)
        return changed

    def _held(self, rule: Rule, seen: History) -> list[Alert]:
        since = self._since.setdefault(rule.name, seen.now)
        self._before.discard(rule.name)
        if seen.now - since < rule.lasting:
            return []
        known = self._firing.get(rule.name)
        alert = Alert(
            name=rule.name,
            severity=rule.severity,
            summary=told(rule, rule.value(seen)),
            since=known.since if known else since,
            value=rule.value(seen),
        )
        self._firing[rule.name] = alert
        return [] if known else [alert]

    def _let_go(self, rule: Rule, now: float) -> list[Alert]:
        self._since.pop(rule.name, None)
        known = self._firing.get(rule.name)
        if known is None or (rule.name in self._before and now - self._began < rule.lasting + _SETTLING):
            return []
        self._before.discard(rule.name)
        del self._firing[rule.name]
        return [replace(known, ended=now)]


def told(rule: Rule, value: float | None) -> str:
    """What a rule says about a value."""
    return rule.summary.format(value=0.0 if value is None else value)


def as_fields(alert: Alert, crawl: Mapping[str, str]) -> dict[str, object]:
    """The message about an alert. `crawl` says which crawl it is about."""
    return {
        "alert": alert.name,
        "state": "firing" if alert.ended is None else "resolved",
        "severity": alert.severity,
        "summary": alert.summary,
        "value": alert.value,
        "since": alert.since,
        "ended": alert.ended,
        **crawl,
        "runbook": f"docs/runbook.md#{alert.name}",
    }

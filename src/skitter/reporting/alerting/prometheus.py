"""The rules as a file for Prometheus."""

import json

from skitter.reporting.alerting.rules import DOWN, Rule, table
from skitter.settings.alerts import AlertsSettings

MADE = "# made by scripts/reference.py from src/skitter/reporting/alerting/rules.py; do not edit\n"


def rule_file(settings: AlertsSettings) -> str:
    """YAML with all rules. Its strings are written as in JSON, which YAML reads as well."""
    rules = [*table(settings), DOWN]
    return f"{MADE}groups:\n  - name: skitter\n    rules:\n" + "".join(_rule(rule) for rule in rules)


def _rule(rule: Rule) -> str:
    return (
        f"      - alert: {rule.title}\n"
        f"        expr: {json.dumps(' '.join(rule.promql().split()))}\n"
        f"        for: {rule.lasting:.0f}s\n"
        f"        labels:\n"
        f"          severity: {rule.severity}\n"
        f"        annotations:\n"
        f"          summary: {json.dumps(_summary(rule))}\n"
        f"          runbook: docs/runbook.md#{rule.name}\n"
    )


def _summary(rule: Rule) -> str:
    return f"{'{{ $labels.instance }}'}: {_without_value(rule.summary)}"


def _without_value(summary: str) -> str:
    """Prometheus writes values by its own rules."""
    begin, brace, rest = summary.partition("{value")
    if not brace:
        return summary
    spec, _, end = rest.partition("}")
    how = "humanizePercentage" if "%" in spec else "humanize"
    return f"{begin}{{{{ $value | {how} }}}}{end}"

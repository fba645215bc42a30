"""Alert rules: each notices its fault, none a healthy crawl, and Prometheus agrees minute by minute."""

import json
from pathlib import Path

import pytest
import yaml

from skitter.reporting.alerting.history import Numbers, numbers
from skitter.reporting.alerting.prometheus import rule_file
from skitter.reporting.alerting.rules import DOWN, chosen, metrics_of, table
from skitter.reporting.alerting.standing import Alert, Alerts, as_fields
from skitter.reporting.exposition import families
from skitter.reporting.observation import Observation
from skitter.settings.alerts import AlertsSettings
from skitter.settings.rules import ALERT_RULES
from tests.prometheus import promtool
from tests.unit.alarming import ALSO, BEGINS, ENDS, FAULTS, FINE, OVER, Sick

ROOT = Path(__file__).parents[2]
RULES = table(AlertsSettings())
DISK = ("disk_full_soon",)  # a straight line through a sudden change


def firing(looks: list[Observation], settings: AlertsSettings | None = None) -> list[set[str]]:
    """The alerts that are firing after each look."""
    rules = chosen(settings or AlertsSettings())
    seen, alerts, found = Numbers(metrics_of(rules)), Alerts(rules), []
    for look in looks:
        seen.note(look)
        alerts.look(seen)
        found.append({alert.name for alert in alerts.firing})
    return found


def test_every_rule_has_a_name_in_the_settings_and_a_fault():
    assert tuple(rule.name for rule in RULES) == ALERT_RULES
    assert FAULTS.keys() == set(ALERT_RULES)


@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_fires_in_its_fault_and_not_before_and_not_for_long_after(name):
    found = firing(Sick(FAULTS[name]).minutes())
    assert set().union(*found[:BEGINS]) == set()
    assert name in found[ENDS - 1]
    assert found[-1] == set()
    others = set().union(*found) - {name}
    assert others <= ALSO.get(name, set()), "one fault is one alert"


def test_a_healthy_crawl_is_left_alone():
    assert set().union(*firing(Sick(None).minutes())) == set()


@pytest.mark.parametrize("name", FINE)
def test_nobody_is_called_for_what_needs_nobody(name):
    assert set().union(*firing(Sick(FINE[name]).minutes())) <= set(DISK)


def test_a_stall_is_not_called_slow_and_slow_progress_not_a_stall():
    stalled, slow = (set().union(*firing(Sick(FAULTS[name]).minutes())) for name in ("stalled", "slow"))
    assert (stalled, slow) == ({"stalled"}, {"slow"})


def test_an_alert_begins_when_its_rule_has_held_for_as_long_as_it_says():
    found = firing(Sick(FAULTS["worker_down"]).minutes())
    assert [minute for minute, names in enumerate(found) if names] == list(range(BEGINS + 2, ENDS))


def test_thresholds_are_settings_and_rules_are_chosen_by_name():
    settings = AlertsSettings(queue_size=100, rules=("queue_large",))
    assert firing(Sick(FAULTS["lag"]).minutes(), settings)[-1] == {"queue_large"}
    assert set().union(*firing(Sick(FAULTS["lag"]).minutes(), AlertsSettings(rules=("stalled",)))) == set()


def test_an_alert_is_told_when_it_begins_and_when_it_ends():
    rules = chosen(AlertsSettings(rules=("queue_large",)))
    seen, alerts, told = Numbers(metrics_of(rules)), Alerts(rules), []
    for look in Sick(FAULTS["queue_large"]).minutes():
        seen.note(look)
        told += alerts.look(seen)
    begun, over = told
    assert (begun.summary, begun.since, begun.ended) == ("1,000,001 URLs wait", BEGINS * 60, None)
    assert (over.name, over.since, over.ended) == ("queue_large", BEGINS * 60, ENDS * 60)
    message = as_fields(over, {"crawl": "news"})
    assert (message["state"], message["crawl"], message["runbook"]) == (
        "resolved",
        "news",
        "docs/runbook.md#queue_large",
    )


def test_what_was_firing_when_a_crawl_stopped_is_not_told_again_and_ends_when_it_is_over():
    rules = chosen(AlertsSettings(rules=("queue_large",)))
    before = Alert(name="queue_large", severity="warning", summary="", since=5.0)
    looks = Sick(FAULTS["queue_large"]).minutes()

    def changes(some: list[Observation]) -> list[Alert]:
        seen, alerts, told = Numbers(metrics_of(rules)), Alerts(rules, [before], some[0].at), []
        for look in some:
            seen.note(look)
            told += alerts.look(seen)
        return told

    assert changes(looks[BEGINS:ENDS]) == []
    (over,) = changes(looks[:BEGINS])
    assert (over.since, over.ended) == (5.0, 11 * 60), "it is given the time that its rule takes to notice"


def test_a_clock_that_is_set_back_leads_to_no_alert():
    looks = Sick(None).minutes()
    seen = Numbers(metrics_of(RULES))
    for look in (*looks[100:150], *looks[:50]):
        seen.note(look)
        assert not [rule.name for rule in RULES if rule.holds(seen)]


# ------------------------------------------------------------------------------------------------ Prometheus


def test_the_rules_in_deploy_are_those_of_the_table():
    kept = ROOT / "deploy" / "prometheus" / "skitter.rules.yml"
    assert kept.read_text() == rule_file(AlertsSettings())
    assert f"SUCCESS: {len(RULES) + 1} rules found" in promtool("check", "rules", kept)


def test_every_rule_has_an_entry_in_the_runbook():
    text = (ROOT / "docs" / "runbook.md").read_text()
    assert [rule.name for rule in (*RULES, DOWN) if f"\n## {rule.name}\n" not in text] == []


def test_rules_look_at_metrics_that_there_are():
    told = {
        family.name + point.suffix for family in families(Sick(None).minutes()[0]) for point in family.points
    }
    assert metrics_of(RULES) <= told


def input_series(looks: list[Observation]) -> list[dict[str, str]]:
    """The numbers that rules look at, as promtool reads them."""
    names = metrics_of(RULES)
    labels = {rule_label(family.name): family.metric.label for family in families(looks[0])}
    by: dict[tuple[str, str], list[str]] = {}
    for number, look in enumerate(looks):
        for name, values in numbers(families(look), names).items():
            for value, figure in values.items():
                by.setdefault((name, value), ["_"] * number).append(f"{figure:.10g}")
    found = []
    for (name, value), told in by.items():
        own = f'{labels[rule_label(name)]}="{value}",' if value else ""
        found.append({"series": f'{name}{{{own}instance="a",job="skitter"}}', "values": " ".join(told)})
    return found


def rule_label(name: str) -> str:
    return name.removesuffix("_count")


def expectation(minute: int, names: set[str]) -> dict[str, object]:
    severity = {rule.name: rule.severity for rule in RULES}
    title = {rule.name: rule.title for rule in RULES}
    return {
        "expr": 'ALERTS{alertstate="firing"}',
        "eval_time": f"{minute}m",
        "exp_samples": [
            {
                "labels": f'ALERTS{{alertname="{title[name]}",alertstate="firing",instance="a",job="skitter",severity="{severity[name]}"}}',
                "value": 1,
            }
            for name in sorted(names)
        ],
    }


def test_prometheus_says_the_same_before_in_and_after_every_fault(tmp_path):
    rules = tmp_path / "skitter.rules.yml"
    rules.write_text(rule_file(AlertsSettings()))
    tests = []
    for name, fault in FAULTS.items():
        looks = Sick(fault).minutes()
        found = firing(looks)
        minutes = (BEGINS - 1, ENDS - 1, OVER - 1)
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": input_series(looks),
                "promql_expr_test": [expectation(minute, found[minute]) for minute in minutes],
            }
        )
    down = {"series": 'up{instance="a",job="skitter"}', "values": "1x10 0x20"}
    firing_down = {
        "labels": 'ALERTS{alertname="SkitterDown",alertstate="firing",instance="a",job="skitter",severity="critical"}',
        "value": 1,
    }
    tests.append(
        {
            "name": "down",
            "interval": "1m",
            "input_series": [down],
            "promql_expr_test": [
                {"expr": 'ALERTS{alertstate="firing"}', "eval_time": "10m", "exp_samples": []},
                {"expr": 'ALERTS{alertstate="firing"}', "eval_time": "20m", "exp_samples": [firing_down]},
            ],
        }
    )
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", file)


def test_the_rule_file_is_yaml_with_a_summary_and_a_runbook_for_each():
    (group,) = yaml.safe_load(rule_file(AlertsSettings()))["groups"]
    assert len(group["rules"]) == len(RULES) + 1 >= 12
    assert all({"summary", "runbook"} <= rule["annotations"].keys() for rule in group["rules"])

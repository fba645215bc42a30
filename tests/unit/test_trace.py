"""The path of a URL stays short: `scripts/trace.py` counts the modules that one URL passes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "trace.py"

# What one URL may pass on its way through a crawl. Who makes the path shorter lowers these.
MOST_MODULES = 45
MOST_CHANGES = 350


def run(*options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def traced():
    return json.loads(run("--json"))


def test_one_url_passes_few_modules(traced):
    assert traced["modules"] <= MOST_MODULES


def test_control_seldom_changes_from_one_module_to_another(traced):
    assert traced["changes"] <= MOST_CHANGES


def test_the_path_has_every_station_in_order(traced):
    stations = list(dict.fromkeys(module["station"] for module in traced["path"]))
    named = ["leased", "fetched", "parsed", "links judged", "compared", "archived", "settled, links added"]
    assert [station for station in stations if station in named] == named


def test_the_figures_are_the_same_in_every_run(traced):
    first, _, *changes = run("--full").splitlines()
    assert first == f"{traced['modules']} modules, {traced['changes']} changes of module for one URL"
    assert len(changes) == traced["changes"] == sum(pair["changes"] for pair in traced["pairs"])

"""An alert of a real crawl, from the rule to the receiver and `status`, in one process and in a fleet."""

import json
import subprocess
import sys

import pytest

from skitter.testing.web import SyntheticWeb, serve_process
from tests.crawl.harness import crawl_with, settings_for

SCRIPT = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"


@pytest.fixture(scope="module")
def server():
    with serve_process(SyntheticWeb(seed=41, hosts=2, pages_per_host=6)) as running:
        yield running


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("expected", [10, 1000])
def test_a_run_with_fewer_pages_than_the_one_before_calls_somebody_when_it_ends(
    server, tmp_path, workers, expected
):
    settings = settings_for(
        server,
        scope__kind="any",
        alerts__command=(sys.executable, "-c", SCRIPT, str(tmp_path / "told")),
        alerts__rules=("coverage", "politeness_violation"),
        alerts__expected_pages=expected,
    )
    crawl_with(workers, tmp_path / "c", server.seeds(), settings)
    status = [sys.executable, "-m", "skitter", "status", str(tmp_path / "c")]
    shown = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    fields = json.loads(
        subprocess.run([*status, "--json"], capture_output=True, text=True, check=True).stdout
    )
    if expected == 10:
        assert not (tmp_path / "told").exists()
        assert (fields["alerts"], "alert" in shown) == ([], False)
        return
    (line,) = (tmp_path / "told").read_text().splitlines()
    message = json.loads(line)
    assert (message["alert"], message["state"], message["crawl"]) == ("coverage", "firing", "c")
    assert [each["name"] for each in fields["alerts"]] == ["coverage"]
    assert "alert: coverage, for " in shown

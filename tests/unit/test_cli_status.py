"""`skitter status` starts with the answer: the state of the crawl, how much it has, and what to do next."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from skitter.cli import main
from skitter.cli.status import standing
from skitter.model import Counts
from skitter.settings import Settings
from skitter.testing.web import Features, SyntheticWeb, serve
from tests.crawl.harness import crawl, settings_for

SETTINGS = Settings()
LIMITED = replace(SETTINGS, crawl=replace(SETTINGS.crawl, max_pages=10))


@pytest.mark.parametrize(
    ("counts", "settings", "running", "state", "said", "advice"),
    [
        (Counts(pages=3, queued=2), SETTINGS, True, "running", "running", ""),
        (Counts(pages=3), SETTINGS, False, "finished", "finished: nothing is left to do", ""),
        (Counts(pages=3, statuses={404: 1}), SETTINGS, False, "finished", "finished", "skitter pages 'my crawl' --failed"),
        (Counts(), SETTINGS, False, "finished", "no page could be fetched", "skitter why 'my crawl' URL"),
        (Counts(pages=3, queued=2), SETTINGS, False, "stopped", "with work left", "skitter resume 'my crawl'"),
        (Counts(pages=3, leased=2), SETTINGS, False, "stopped", "nothing is lost", "skitter resume 'my crawl'"),
        (Counts(pages=10, queued=2), LIMITED, False, "limit", "crawl.max_pages", "resume 'my crawl' --max-pages 20"),
        (Counts(pages=9, queued=2), LIMITED, False, "stopped", "with work left", "skitter resume 'my crawl'"),
    ],
)  # fmt: skip
def test_the_state_follows_from_the_counts_and_the_limits(counts, settings, running, state, said, advice):
    now = standing("my crawl", settings, counts, running=running)
    assert now.state == state
    assert said in now.said
    assert now.advice == advice == "" or (advice and advice in now.advice)


def test_a_full_disk_is_named():
    now = standing("d", SETTINGS, Counts(pages=1, queued=1), running=False, short="only 3 MiB are free")
    assert now.advice == "free some space first: only 3 MiB are free; then continue with: skitter resume d"


def test_the_life_of_a_crawl(tmp_path, capsys):
    path, meanwhile = tmp_path / "crawl", []

    def look(running):
        def ask(_event):
            if not meanwhile and running.local_shards.counts.pages:
                asked = [sys.executable, "-m", "skitter", "status", str(path), "--json"]
                done = subprocess.run(asked, capture_output=True, timeout=60, check=True)
                meanwhile.append(json.loads(done.stdout)["state"])

        running.events.subscribe(ask)

    with serve(SyntheticWeb(seed=3, hosts=1, pages_per_host=12, features=Features.plain())) as server:
        crawl(path, server.seeds(), settings_for(server, crawl__max_pages=5), look)
        assert meanwhile == ["running"]
        assert main(["status", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{path}: stopped at a limit (crawl.max_pages), with work left"
        assert lines[1].startswith("  5 pages, ")
        assert lines[2] == f"  continue with: skitter resume {path} --max-pages 10"
        crawl(path, [], settings_for(server))
    assert main(["status", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{path}: finished: nothing is left to do\n  12 pages, 0 waiting, ")
    assert "Metrics" not in shown
    assert main(["status", str(path), "-v"]) == 0
    assert "Metrics" in capsys.readouterr().out

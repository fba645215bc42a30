"""`skitter status` starts with the answer: the state of the crawl, how much it has, and what to do next."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from skitter.cli import main
from skitter.cli.status import bucket_lines
from skitter.model import Counts, HostRecord
from skitter.reporting.report import host_table
from skitter.reporting.standing import standing
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


def test_the_hosts_are_shown_with_when_each_may_be_asked_again():
    waiting = HostRecord(host="a.test", domain="a.test", queued=3, free_at=110.0, delay=20.0)
    ready = HostRecord(host="b.test", domain="b.test", queued=1, free_at=90.0)
    held = HostRecord(host="c.test", domain="c.test", queued=1, free_at=90.0, held=400.0)
    done = HostRecord(host="d.test", domain="d.test")
    shown = "\n".join(host_table([waiting, ready, held, done], 100.0))
    assert "next request" in shown
    assert [line.split()[8:] for line in shown.splitlines()[3:]] == [
        ["in", "10s"],
        ["now"],
        ["in", "5m", "00s"],
        [],
    ]
    assert "next request" not in "\n".join(host_table([waiting]))
    closed = "\n".join(host_table([ready], 100.0, opens=3700.0))
    assert "in 1h 00m" in closed  # the window of the crawl is closed until then
    assert "now" not in closed


def test_buckets_say_what_may_start_how_often_and_when():
    settings = replace(SETTINGS, politeness=replace(SETTINGS.politeness, delay=2.0, burst=3, per_host=3))
    rested = HostRecord(host="a.test", domain="a.test", queued=1200, free_at=90.0)
    asked = HostRecord(host="b.test", domain="b.test", queued=3, free_at=110.0, delay=20.0)
    lines = bucket_lines([rested, asked], settings, 100.0)
    assert [line.split() for line in lines[3:]] == [
        ["a.test", "1,200", "3", "1", "every", "2.0s", "now"],
        ["b.test", "3", "0", "1", "every", "20s", "in", "10s"],
    ]
    assert "in 1h 00m" in bucket_lines([rested], settings, 100.0, opens=3700.0)[3]
    assert bucket_lines([], settings, 100.0) == []


def test_verbose_status_shows_the_buckets_of_hosts_with_work(tmp_path, capsys):
    """Those with most URLs waiting, and no more of them than --hosts says."""
    path = tmp_path / "crawl"
    with serve(SyntheticWeb(seed=3, hosts=6, pages_per_host=12, features=Features.plain())) as server:
        crawl(path, server.seeds(), settings_for(server, scope__kind="any", crawl__max_pages=12))
    assert main(["status", str(path), "--hosts", "2"]) == 0
    assert "may start" not in capsys.readouterr().out
    assert main(["status", str(path), "--hosts", "2", "-v"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(number for number, line in enumerate(lines) if "may start" in line)
    waiting = [int(line.split()[1]) for line in lines[head + 1 : head + 3]]
    assert waiting == sorted(waiting, reverse=True)
    assert all(waiting)
    assert not lines[head + 3].strip()

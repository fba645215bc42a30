"""Schedulers and crawls as processes that are killed: no run is lost, none begins twice, and each goes on under its id."""

import json
import os
import signal
from collections import Counter

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.jobs.real import Jobs, crawl_process, kill, skitter

PAGES = 40
LEASE = ("--lease", "3s")


@pytest.fixture
def jobs(tmp_path) -> Jobs:
    return Jobs(tmp_path / "root")


@pytest.fixture(scope="module")
def server():
    with serve_process(SyntheticWeb(seed=5, hosts=1, pages_per_host=PAGES, features=Features())) as served:
        yield served


def crawl_words(server, delay: str = "0") -> list[str]:
    words = [
        *server.seeds(),
        "--delay",
        delay,
        "--allow-private",
        "127.0.0.0/8",
        "--set",
        "fetch.contact=test@example.org",
    ]
    for host, address in server.web.resolve_map().items():
        words += ["--resolve", f"{host}:{address}"]
    return words


def fetched(server, since: int) -> Counter[str]:
    """How often each page was requested, since that many requests."""
    return Counter(
        request.page
        for request in server.log()[since:]
        if request.status == 200 and request.page != "/robots.txt"
    )


def test_a_run_by_hand_crawls_and_keeps_its_report(jobs, server):
    jobs("add", "news", *crawl_words(server))
    ran = json.loads(jobs("run", "news", "--json"))
    assert (ran["state"], ran["exit_code"], ran["by_hand"], ran["tries"]) == ("done", 0, True, 1)
    assert ran["counts"]["pages"] == ran["report"]["counts"]["pages"] >= PAGES
    assert "finished" in skitter("status", str(jobs.root / ran["directory"]))
    assert jobs.read("list")["jobs"][0]["runs"][0]["state"] == "done"
    assert f"{ran['run']}" in jobs("log", "news")
    assert ran["run"] in (jobs.root / "runs.xml").read_text()
    said = jobs.read("log", "news", "--run", ran["run"])
    assert said["report"]["outcome"] == "done"


def test_a_run_that_is_due_begins_once_with_two_schedulers(jobs, server):
    jobs("add", "often", *crawl_words(server), "--every", "* * * * *")
    with jobs.scheduler(*LEASE), jobs.scheduler(*LEASE):
        done = jobs.until(lambda: [run for run in jobs.runs("often") if run["state"] == "done"])
    assert [run["tries"] for run in done] == [1] * len(done)
    assert all(run["due"].endswith(":00.000Z") for run in jobs.runs("often"))
    assert len({run["directory"] for run in done}) == len(done), "each is a crawl of its own"


def test_a_run_whose_scheduler_is_killed_goes_on_under_its_id(jobs, server):
    """Its crawl ends with it, or another could not begin in the same directory."""
    since = len(server.log())
    jobs("add", "slow", *crawl_words(server, "200ms"))
    jobs("run", "slow", "--queue")
    (waiting,) = jobs.runs("slow")
    directory = jobs.root / waiting["directory"]
    with jobs.scheduler(*LEASE) as first:
        jobs.until(lambda: len(fetched(server, since)) > 5)
        crawling = crawl_process(directory)
        assert crawling
        kill(first)
        with jobs.scheduler(*LEASE):
            done = jobs.until(lambda: [run for run in jobs.runs("slow") if run["state"] == "done"])
    assert [run["run"] for run in done] == [waiting["run"]]
    assert done[0]["tries"] == 2
    assert crawl_process(directory) == 0
    requested = fetched(server, since)
    assert len(requested) >= PAGES
    again = {page: times for page, times in requested.items() if times > 1}
    assert sum(again.values()) - len(again) <= 2, f"pages were fetched again: {again}"


def test_a_run_whose_crawl_is_killed_goes_on_under_its_id(jobs, server, monkeypatch):
    since = len(server.log())
    jobs("add", "slow", *crawl_words(server, "200ms"))
    jobs("run", "slow", "--queue")
    (waiting,) = jobs.runs("slow")
    directory = jobs.root / waiting["directory"]
    with jobs.scheduler(*LEASE):
        jobs.until(lambda: len(fetched(server, since)) > 5)
        os.kill(crawl_process(directory), signal.SIGKILL)
        told = jobs.until(lambda: [run for run in jobs.runs("slow") if run["state"] == "waiting"])
        assert told[0]["reason"] == "goes on later: killed by signal 9"
    assert "killed by signal 9" in jobs("show", "slow")
    # It would wait for a minute now. Asked for by hand there is nothing to wait for but the run itself.
    refused = jobs("run", "slow", code=4)
    assert f"{waiting['run']} is not over yet (waiting)" in refused
    with jobs.scheduler(*LEASE):
        done = jobs.until(lambda: [run for run in jobs.runs("slow") if run["state"] == "done"])
    assert (done[0]["run"], done[0]["tries"]) == (waiting["run"], 2)
    assert len(fetched(server, since)) >= PAGES


def test_a_scheduler_that_is_told_to_stop_stops_its_crawls_cleanly(jobs, server):
    since = len(server.log())
    jobs("add", "slow", *crawl_words(server, "200ms"))
    jobs("run", "slow", "--queue")
    (waiting,) = jobs.runs("slow")
    directory = jobs.root / waiting["directory"]
    with jobs.scheduler(*LEASE) as first:
        jobs.until(lambda: len(fetched(server, since)) > 5)
        first.terminate()
        assert first.wait(60) == 0
    (stopped,) = jobs.runs("slow")
    assert (stopped["state"], stopped["reason"]) == ("waiting", "goes on later: the scheduler was stopped")
    assert crawl_process(directory) == 0
    with jobs.scheduler(*LEASE):
        jobs.until(lambda: jobs.runs("slow")[0]["state"] == "done")
    (done,) = jobs.runs("slow")
    assert (done["run"], done["tries"]) == (waiting["run"], 1)
    assert max(fetched(server, since).values()) == 1, "nothing was fetched twice"


def test_a_run_can_be_stopped_and_its_job_be_removed(jobs, server):
    jobs("add", "slow", *crawl_words(server, "1s"))
    jobs("run", "slow", "--queue")
    with jobs.scheduler(*LEASE):
        jobs.until(lambda: jobs.runs("slow")[0]["state"] == "running")
        assert "is running; stop it first" in jobs("remove", "slow", code=4)
        jobs("stop", "slow")
        jobs.until(lambda: jobs.runs("slow")[0]["state"] == "stopped")
    jobs("stop", "slow", code=1)
    jobs("remove", "slow")
    assert "there is no job slow" in jobs("show", "slow", code=2)


def test_runs_of_kind_continue_share_one_crawl(jobs, server):
    since = len(server.log())
    jobs("add", "bit", *crawl_words(server, "50ms"), "--kind", "continue", "--max-time", "1s")
    states = []
    for _ in range(30):
        ran = json.loads(jobs("run", "bit", "--json", code=None))
        states.append((ran["state"], ran["exit_code"], ran["directory"]))
        if ran["exit_code"] == 0:
            break
    assert {state for state, _, _ in states} == {"done"}
    assert {directory for _, _, directory in states} == {"bit/crawl"}
    assert states[-1][1] == 0
    assert 3 in {code for _, code, _ in states}, "the first ones stopped at their limit of time"
    assert max(fetched(server, since).values()) == 1


def test_old_crawls_are_removed_and_their_history_stays(jobs, server):
    jobs("add", "kept", *crawl_words(server), "--max-pages", "2", "--keep", "2")
    for _ in range(4):
        jobs("run", "kept", code=3)
    runs = jobs.runs("kept")
    assert [bool(run["directory"]) for run in runs] == [False, False, True, True]
    there = sorted(path.name for path in (jobs.root / "kept").iterdir() if path.is_dir())
    assert there == [run["directory"].partition("/")[2] for run in runs[2:]]


def test_wrong_settings_fail_a_run_at_once_and_say_why(jobs, server, tmp_path):
    config = tmp_path / "crawl.toml"
    config.write_text("[crawl]\nmax_pages = 2\n")
    jobs("add", "configured", *crawl_words(server), "--config", str(config))
    config.write_text("[crawl]\nmax_pagse = 2\n")
    jobs("run", "configured", code=2)
    (run,) = jobs.runs("configured")
    assert (run["state"], run["exit_code"]) == ("failed", 2)
    assert "did you mean" in run["reason"]


def test_a_folder_that_is_gone_is_said_and_waited_for(jobs, server, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    skitter("job", "add", "moved", *crawl_words(server), *jobs.more, cwd=folder)
    folder.rmdir()
    jobs("run", "moved", code=130)
    (run,) = jobs.runs("moved")
    assert (run["state"], run["exit_code"]) == ("waiting", 4)
    assert run["reason"] == f"goes on later: {folder}: No such file or directory"

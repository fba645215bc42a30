"""`skitter reload`: a running crawl takes over other settings, and the site's own log shows that it did."""

import itertools
import os
import re
import signal
import time

import pytest

from tests.crawl.controlled import HOSTS, Site, crawling, resumed, said, skitter, status, until

A, B, C, D = HOSTS


@pytest.fixture
def site():
    made = Site()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "c"


def numbered(site, since=0):
    """The numbers of the pages asked for."""
    return [int(each.path[1:]) for each in site.seen[since:] if each.path[1:].isdigit()]


def test_what_is_no_longer_wanted_leaves_the_queue_and_what_is_wanted_again_comes_back(site, path):
    with crawling(path, site, A, B) as running:
        told = said("reload", path, "--exclude", "/[0-9]*[13579]$")
        assert told.splitlines()[0].startswith("scope.exclude = ")
        assert "left the queue" in told
        assert running.process.poll() is None
        since = len(site.seen)
        until(lambda: len(numbered(site, since)) > 20)
        assert {number % 2 for number in numbered(site, since)} == {0}
        refused = status(path)["counts"]["refused"]["scope.exclude"]
        assert refused > 20
        assert "came back" in said("reload", path, "--set", "scope.exclude=[]")
        since = len(site.seen)
        until(lambda: len({number % 2 for number in numbered(site, since)}) == 2)


def test_a_longer_delay_holds_from_the_answer_of_the_command_on(site, path):
    with crawling(path, site, A, B, C, D):
        assert said("reload", path, "--delay", "2s").splitlines() == [
            "politeness.delay = 2s, was 0.05s",
            "in force",
        ]
        before = site.requests(A)
        time.sleep(3)
        assert site.requests(A) - before <= 2


def test_an_edited_file_is_taken_over_and_kept_after_kill_9(site, path):
    with crawling(path, site, A, B) as running:
        file = path / "crawl.toml"
        file.write_text(re.sub(r"^delay = .*$", 'delay = "70ms"', file.read_text(), flags=re.MULTILINE))
        assert "politeness.delay = 0.07s, was 0.05s" in said("reload", path)
        assert said("reload", path) == "nothing has changed"
        running.kill()
    with resumed(path):  # the socket of the one that was killed is still there
        until(lambda: skitter("reload", path, check=None).stdout == "nothing has changed\n")


def test_nothing_is_lost_or_fetched_twice_over_many_reloads(tmp_path):
    small = Site(pages=400)
    path = tmp_path / "c"
    try:
        with crawling(path, small, A, B) as running:
            for delay in itertools.islice(itertools.cycle(("20ms", "10ms")), 3):
                if running.process.poll() is None:
                    skitter("reload", path, "--delay", delay, check=None)
            running.process.wait()
        for host in (A, B):
            asked = [each.path for each in small.seen if each.host == host and each.path[1:].isdigit()]
            assert sorted(asked, key=lambda path: int(path[1:])) == [f"/{n}" for n in range(1, 400)]
    finally:
        small.close()


def test_kill_9_in_the_middle_of_a_reload_leaves_a_crawl_that_goes_on(site, path):
    with crawling(path, site, A, B) as running:
        for _ in range(3):
            reload = skitter("reload", path, "--delay", "60ms", check=None)
            for pid in running.workers[:1]:
                os.kill(pid, signal.SIGKILL)
            assert reload.returncode == 0
        before = site.requests()
        until(lambda: site.requests() > before + 10)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--workers", "1"], "crawl.workers = 1, was 2: this cannot change while the crawl runs"),
        (
            ["--set", "urls.fold_www=true"],
            "urls.fold_www = true, was false: this is fixed when a crawl is made",
        ),
        (["--shards", "3"], "crawl.shards = 3, was 2: this is fixed when a crawl is made"),
        (["--delay=-1s"], "politeness.delay"),
        (["--set", "scope.exclude=["], "scope.exclude"),
    ],
)
def test_what_cannot_be_taken_over_is_refused_in_one_line_and_nothing_changes(site, path, flags, complaint):
    with crawling(path, site, A):
        before = (path / "crawl.toml").read_bytes()
        done = skitter("reload", path, *flags, check=None)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert (path / "crawl.toml").read_bytes() == before


def test_a_file_that_names_no_shards_leaves_them_as_they_are(site, path, tmp_path):
    file = tmp_path / "my.toml"
    with crawling(path, site, A):
        kept = (path / "crawl.toml").read_text()
        left_open = re.sub(r"(?m)^shards = \d+$", "", kept)
        assert left_open != kept
        file.write_text(left_open.replace("calendar_years = 5", "calendar_years = 6"))
        done = skitter("reload", path, "--config", file)
        assert "scope.calendar_years = 6, was 5" in done.stdout
        assert re.search(r"(?m)^shards = \d+$", kept)[0] in (path / "crawl.toml").read_text()


def test_a_crawl_that_does_not_run_is_named_with_the_command_that_changes_it(site, path):
    with crawling(path, site, A) as running:
        running.end()
    done = skitter("reload", path, "--delay", "2s", check=1)
    assert f"skitter resume {path}" in done.stderr

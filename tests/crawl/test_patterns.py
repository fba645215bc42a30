"""Learned URL patterns in whole crawls of a hostile web: real pages are found, traps are parked, and people are told."""

import json
import subprocess
import sys

import pytest
from benchmarks.learning import crawl, of

from skitter.testing.learnable import HostileWeb, judged, serving

MOST = 3000  # pages at which a crawl that does not end is stopped


def skitter(*words: object, check: int | None = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "skitter", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert check is None or done.returncode == check, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A crawl of the hostile web, and what the server's log says of it."""
    web, path = HostileWeb(), tmp_path_factory.mktemp("hostile") / "c"
    with serving(web) as server:
        crawl(server.seeds, path, *of(server), f"--max-pages={MOST}", "--set=learning.patterns=true")
        return path, judged(web, server.log())


def test_the_real_pages_are_found_and_the_crawl_comes_to_its_end(hostile):
    path, found = hostile
    assert found.found_share >= 0.97
    assert found.wasted_share <= 0.25
    assert found.requests < MOST
    status = json.loads(skitter("status", path, "--json"))
    assert status["state"] == "finished"
    assert status["counts"]["parked"] > 0


def test_patterns_shows_what_was_parked_and_why_names_the_rule(hostile):
    path, _ = hostile
    parked = [json.loads(line) for line in skitter("patterns", path, "--parked", "--json").splitlines()]
    assert parked
    assert "parked" in skitter("patterns", path)
    urls = (json.loads(line) for line in skitter("export", path, "--format", "urls", "--quiet").splitlines())
    waiting = next(each["url"] for each in urls if each["state"] == "queued")
    assert "pattern" in skitter("why", path, waiting)


def test_a_pattern_of_a_host_that_is_not_there_is_an_empty_answer(hostile):
    path, _ = hostile
    assert skitter("patterns", path, "no.such.host", "--json", check=None) == ""

"""A cluster is controlled while it runs: every shard obeys, whoever owns it, and the site's own log shows it."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests.cluster.crawling import QUICK, SIZES, cluster, until
from tests.crawl.controlled import HOSTS, Site

A, B, C, D = HOSTS


@pytest.fixture
def site():
    made = Site()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=SIZES)
def crawl(request, tmp_path, site):
    """Two workers at work on four hosts."""
    resolve = dict.fromkeys(HOSTS, "127.0.0.1")
    server = SimpleNamespace(web=SimpleNamespace(resolve_map=lambda: resolve))
    wanted = {"politeness__delay": "50ms", "schedule__retries": 0, "scope__kind": "host", "crawl__shards": 4}
    with cluster(tmp_path, server, request.param, **{**QUICK, **wanted}) as made:
        made.add([site.url(host) for host in HOSTS])
        made.until_shared(made.work(), made.work())
        until(lambda: site.requests() > 30, "requests are made")
        yield made


def order(crawl, verb, *words):
    return crawl.command(verb, "--config", crawl.config, *words).strip()


def none_in_flight(crawl):
    until(
        lambda: sum(worker["in_flight"] for worker in crawl.status()["workers"]) == 0, "the last requests end"
    )


def is_quiet(site, host="", seconds=2.0):
    before = site.requests(host)
    time.sleep(seconds)
    return site.requests(host) == before


def test_a_paused_cluster_sends_nothing_whoever_dies_and_joins(crawl, site):
    assert order(crawl, "pause").startswith("paused")
    none_in_flight(crawl)
    assert is_quiet(site)
    assert order(crawl, "pause") == "paused already"
    assert crawl.status()["paused"] is True
    assert "paused" in crawl.command("status", "--config", crawl.config)
    crawl.workers[0].kill()
    third = crawl.work()
    crawl.until_shared(crawl.workers[1], third)
    assert is_quiet(site)
    assert "the crawl is paused" in third.said
    before = site.requests()
    # The directory of a worker names the cluster as well.
    assert crawl.command("continue", crawl.workers[1].path).strip() == "continued"
    until(lambda: site.requests() > before + 20, "requests are made again")
    assert order(crawl, "continue") == "it was not paused"
    crawl.leave()


def test_no_request_goes_to_a_blocked_host_whoever_owns_its_shard(crawl, site):
    assert order(crawl, "block", A, "unknown.test") == "2 hosts blocked"
    assert order(crawl, "block", A, B) == "1 host blocked (1 was blocked already)"
    none = {host: site.requests(host) for host in (A, B)}
    before = site.requests(D)
    crawl.workers[0].kill()
    until(lambda: site.requests(D) > before + 100, "the other worker goes on")
    assert site.requests(A) <= none[A] + 1  # what was in flight
    assert site.requests(B) <= none[B] + 1
    crawl.add([site.url(A, "/seed")])
    why = crawl.command("why", "--config", crawl.config, site.url(A, "/5"))
    assert "blocked by hand" in why or "was never found" in why
    status = json.loads(crawl.command("status", "--config", crawl.config, "--json"))
    assert status["hosts_blocked"] == 3
    assert not site.asked("/seed")
    assert order(crawl, "unblock", A, C) == "1 host unblocked (1 was not blocked)"
    until(lambda: site.asked("/seed"), "the seed has waited there")
    crawl.leave()


def test_what_failed_is_retried_and_seeds_are_added(crawl, site):
    bad = [site.url(host, f"/bad{host}") for host in (A, B, C)]
    added = order(crawl, "add", *bad)
    assert added == "3 seeds were sent to their shards"
    until(lambda: crawl.status()["counts"]["failed"] == 3, "they fail")
    assert order(crawl, "retry", bad[0]) == "1 URL waits again"
    until(lambda: site.asked("/bada.test") >= 2, "it is tried again")
    until(lambda: crawl.status()["counts"]["failed"] == 3, "and fails")
    site.mended = True
    assert order(crawl, "retry", "--host", B) == "1 URL waits again"
    until(lambda: crawl.status()["counts"]["failed"] == 2, "one is fetched")
    assert order(crawl, "retry", "--failed") == "2 URLs wait again"
    until(lambda: crawl.status()["counts"]["failed"] == 0, "all are fetched")
    assert order(crawl, "retry", "--failed") == "0 URLs wait again"
    crawl.leave()


def test_a_cluster_without_workers_obeys_when_one_joins(crawl, site):
    crawl.leave()
    assert "no worker runs now" in order(crawl, "block", A)
    frozen, before = site.requests(A), site.requests(D)
    crawl.work()
    until(lambda: site.requests(D) > before + 20, "the others are crawled")
    assert site.requests(A) == frozen
    crawl.leave()


def test_a_cluster_is_followed(crawl, site):
    words = [sys.executable, "-m", "skitter", "status", "--config", str(crawl.config), "--follow", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
        first = json.loads(following.stdout.readline())
        assert first["type"] == "Progress"
        assert first["counts"]["pages"] > 0
        crawl.workers[0].leave()
        while json.loads(following.stdout.readline()).get("text", "").find("has left") < 0:
            pass
        order(crawl, "pause")
        while not json.loads(following.stdout.readline()).get("paused"):
            pass
        following.send_signal(signal.SIGINT)
        following.communicate()
    assert following.returncode == 0
    crawl.leave()


def test_bad_input_is_said_in_one_line(crawl, site):
    for words, text in ((("block",), "no host"), (("retry", "mailto:x"), "is not an http"), (("add",), "nothing to add"),
                        (("block", "http://a.test/"), "is not a host")):  # fmt: skip
        whole = [sys.executable, "-m", "skitter", words[0], "--config", str(crawl.config), *words[1:]]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done
        assert text in done.stderr
        assert done.stderr.count("\n") == 1
    crawl.leave()

"""Registrable domains and groups are keys beside host and address: all of them have to be free. By the server's log."""

import time
from collections import defaultdict

import pytest

from skitter import reasons
from skitter.backends.permits import MemoryPermits
from skitter.backends.permits.turns import of_domain, of_group
from skitter.fetch.keys import Keys
from skitter.settings import GroupSettings, PolitenessSettings, Seconds
from skitter.settings.file import load
from skitter.settings.sites import Sites
from skitter.testing.clock import VirtualClock
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl, crawl_with, keys, settings_for
from tests.crawl.test_addresses import too_early
from tests.fetching import run

WORKERS = pytest.mark.parametrize("workers", [0, 2, 4], ids=["in one process", "2 workers", "4 workers"])


def domain_of(host: str) -> str:
    return host.partition(".")[2]


def by(log, key):
    found = defaultdict(list)
    for request in log:
        found[key(request.host)].append(request)
    return found


def most_in_flight(log) -> int:
    """The most requests that were open at one time."""
    edges = sorted(
        edge
        for each in log
        for edge in ((each.start, 1), (each.end if each.end is not None else each.start, -1))
    )
    most = now = 0
    for _, step in sorted(edges, key=lambda edge: (edge[0], edge[1])):
        now += step
        most = max(most, now)
    return most


def families(hosts=20, pages=3):
    """Ten hosts a domain."""
    return SyntheticWeb(
        seed=5, hosts=hosts, pages_per_host=pages, hosts_per_domain=10, features=Features(foreign_share=0.3)
    )


def made(workers, path, starts, settings):
    return crawl_with(workers, path, starts, settings) if workers else crawl(path, starts, settings)


@WORKERS
def test_ten_hosts_of_a_domain_share_its_limit(tmp_path, workers):
    with serve_process(families(40, 6), latency=0.03) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_domain=2)
        result = made(workers, tmp_path / "c", server.seeds(), settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    for requests in by(log, domain_of).values():
        assert most_in_flight(requests) == 2
    assert most_in_flight(log) > 2  # domains do not wait for each other


@WORKERS
def test_requests_to_the_hosts_of_a_domain_begin_apart(tmp_path, workers):
    delay = 0.2
    with serve_process(families(20, 2), latency=0.5) as server:
        settings = settings_for(server, scope__kind="any", politeness__domain_delay=f"{delay}s")
        result = made(workers, tmp_path / "c", server.seeds(), settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    for requests in by(log, domain_of).values():
        assert too_early(requests, delay) == []


@WORKERS
def test_the_hosts_of_a_group_share_its_limit_and_its_delay_over_all_workers(tmp_path, workers):
    """A group of hosts from several domains, and so from several shards; the other hosts are in none."""
    delay = 0.25
    with serve_process(families(40, 3), latency=0.15) as server:
        group = {
            "some": {"hosts": ["h*5.site*", "h*6.site*"], "in_flight": 2},
            "slow": {"hosts": ["h*7.site*"], "delay": f"{delay}s"},
        }
        settings = settings_for(server, scope__kind="any", group=group)
        result = made(workers, tmp_path / "c", server.seeds(), settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    some = [each for each in log if each.host.partition(".")[0][-1] in "56"]
    slow = [each for each in log if each.host.partition(".")[0][-1] == "7"]
    assert len({domain_of(each.host) for each in some}) == 4
    assert most_in_flight(some) == 2
    assert too_early(slow, delay) == []
    assert most_in_flight(log) > 4


def test_a_run_that_goes_on_counts_every_key_as_just_used(tmp_path):
    """The last run may have sent something a moment before it ended."""
    delay = 1.5
    with serve_process(families(10, 3)) as server:
        more = {"scope__kind": "any", "politeness__domain_delay": f"{delay}s"}
        crawl(tmp_path / "c", server.seeds(), settings_for(server, **more, crawl__max_pages=2))
        before = server.log()[-1].start
        begun = time.time()
        crawl(tmp_path / "c", [], settings_for(server, **more, crawl__max_pages=4))
        log = server.log()
    first = min(each.start for each in log if each.start > before)
    assert first >= begun + delay
    assert too_early(log, delay) == []


# ------------------------------------------------------------------------------------------------ all or nothing


def test_a_permit_of_one_key_is_given_back_if_another_has_none():
    """And its turn with it: nothing was sent, so nobody has to wait for it."""
    clock = VirtualClock()
    domains = MemoryPermits(of_domain(PolitenessSettings(per_domain=1, domain_delay=Seconds(5.0))), clock)
    group = MemoryPermits(of_group(GroupSettings("g", in_flight=1)), clock)
    settings = load(None, {}, {"group": {"g": {"hosts": ["a.many.test", "b.many.test"]}}})
    wanted = Keys(domains, {"g": group}, Sites(settings))
    (first, domain), (second, name) = wanted.of("a.many.test")
    assert (first, domain, second, name) == (domains, "many.test", group, "g")
    assert wanted.of("c.many.test") == ((domains, "many.test"),)

    async def play():
        assert await group.ask("g") is None  # somebody else has it
        assert await domains.ask("many.test") is None
        refusal = await group.ask("g")
        assert refusal.reason.code == reasons.GROUP_BUSY
        domains.give_back("many.test", None)
        assert await domains.ask("many.test") is None  # its turn was not lost
        domains.give_back("many.test", 0.1)
        refusal = await domains.ask("many.test")
        assert refusal.reason.code == reasons.DOMAIN_DELAY
        assert refusal.until == pytest.approx(clock.now() + 5.0)

    run(play())

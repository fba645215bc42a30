"""A crawl as a whole keeps to its bandwidth, and to its memory by going slower."""

from itertools import pairwise

import pytest

from skitter.model import Stop
from skitter.politeness.gate import Bandwidth, Memory
from skitter.testing.clock import VirtualClock
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import crawl as served
from tests.crawl.harness import crawl_with, keys, settings_for
from tests.crawl.virtual import Answer, crawl, html

HOSTS = [f"http://h{number}.test" for number in range(20)]


def heavy(size=10_000):
    """Twenty hosts with ten pages each, of the same size."""
    pages = {}
    for host in HOSTS:
        pages[f"{host}/"] = html(*(f"/{number}" for number in range(1, 10)))
        pages |= {f"{host}/{number}": Answer(body="x" * size) for number in range(1, 10)}
    return pages


def received_by(result, moment):
    """Bytes of the pages that were complete by then."""
    return sum(
        10_000
        for each in result.log
        if each.status == 200 and not each.url.endswith("/") and each.end <= moment
    )


def test_what_comes_per_second_is_what_is_allowed(tmp_path):
    rate = 50_000
    starts = [f"{host}/" for host in HOSTS]
    result = crawl(tmp_path, starts, heavy(), politeness__delay="0s", budget__bandwidth=rate)
    assert result.stop is Stop.DONE
    assert len(result.pages) == 200
    total = sum(host.bytes for host in result.hosts.values())
    assert result.took >= total / rate - 2
    assert result.took < 1.5 * total / rate  # and it is used
    for second in range(1, int(result.took)):
        in_a_moment = 2 * rate  # what may be on its way
        assert received_by(result, second) <= rate * second + in_a_moment


def test_without_a_bandwidth_nothing_waits(tmp_path):
    result = crawl(tmp_path, [f"{host}/" for host in HOSTS], heavy(), politeness__delay="0s")
    assert result.took < 10


def test_workers_share_the_bandwidth():
    clock = VirtualClock()
    whole, part = Bandwidth(1000.0, clock), Bandwidth(1000.0, clock)
    part.workers = lambda: 4
    whole.received(500)
    part.received(500)
    assert whole.wait() == pytest.approx(0.5)
    assert part.wait() == pytest.approx(2.0)
    clock.advance(1.0)
    assert (whole.wait(), part.wait()) == (0.0, pytest.approx(1.0))


@pytest.mark.parametrize("workers", [0, 2, 4], ids=["in one process", "2 workers", "4 workers"])
def test_the_server_sends_no_faster_than_allowed(tmp_path, workers):
    web = SyntheticWeb(seed=9, hosts=12, pages_per_host=12, features=Features())
    with serve_process(web) as server:
        rate = 40_000
        settings = settings_for(server, scope__kind="any", budget__bandwidth=rate)
        path, starts = tmp_path / "c", server.seeds()
        result = crawl_with(workers, path, starts, settings) if workers else served(path, starts, settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    spent = max(each.start for each in log) - min(each.start for each in log)
    largest = max(page.size for page in result.pages)
    # At the end every worker may have asked for a second's worth, or for one page.
    assert result.report.counts.bytes <= rate * (spent + 2) + max(workers, 1) * largest


# ------------------------------------------------------------------------------------------------ memory


def test_near_its_ceiling_a_crawl_has_fewer_visits_in_flight_and_never_none():
    clock, told = VirtualClock(), []
    memory = Memory(1000.0, 100, clock)
    memory.complain = told.append

    def room(used, in_flight):
        memory.measure = lambda: used
        clock.advance(1.0)
        return memory.room(in_flight)

    assert room(500, 90) == 100
    assert room(750, 90) == 100
    assert told == []
    assert room(900, 0) == 40
    assert room(900, 60) < 0
    assert room(990, 0) == 4
    assert room(5000, 0) == 1
    assert room(5000, 1) == 0
    assert len(told) == 1
    assert "budget.memory" in told[0]
    assert room(100, 90) == 100


def test_a_crawl_that_needs_more_than_its_memory_goes_slowly_and_ends(tmp_path):
    """64 MiB is less than the process of the tests uses already: one page at a time."""
    web = SyntheticWeb(seed=9, hosts=6, pages_per_host=6, features=Features())
    with serve_process(web, latency=0.02) as server:
        settings = settings_for(server, scope__kind="any", budget__memory="64MiB", crawl__shards=2)
        result = served(tmp_path / "c", server.seeds(), settings)
        log, truth = server.log(), server.truth("any")
    assert result.keys == keys(truth.pages)
    assert max(each.in_flight for each in log) == 1
    spans = sorted((each.start, each.end) for each in log)
    assert all(after[0] >= before[1] - 0.01 for before, after in pairwise(spans))
    assert any("budget.memory" in warning for warning in result.report.warnings)

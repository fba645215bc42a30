"""Politeness over hours, days and a week: delays, Retry-After, retries, levels, bursts, and a clock set back."""

import asyncio
from email.utils import formatdate
from itertools import pairwise

import pytest

from skitter import urls
from skitter.model import Fault, Level, Link, Purpose, State, Stop
from skitter.testing.clock import EPOCH
from tests.crawl.virtual import (
    DAY,
    HOUR,
    MEMORY,
    MINUTE,
    ROCKSDB,
    Answer,
    crawl,
    html,
    site,
)

A, B = "http://a.test", "http://b.test"
ROBOTS_A = f"{A}/robots.txt"
# Wall-clock times are floats near 1.8e9, so that differences of them are good to a quarter of a microsecond.
GRAIN = 1e-6


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def gaps(requests):
    """The times from the end of each request to the start of the next."""
    return [after.start - before.end for before, after in pairwise(requests)]


def most_in_flight(requests):
    """How many requests were under way at once; one that starts as another ends is not beside it."""
    steps = sorted([(r.start, 1) for r in requests] + [(r.end, -1) for r in requests])
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def crawl_delay(seconds):
    return Answer(body=f"User-agent: *\nCrawl-delay: {seconds}\n")


# ------------------------------------------------------------------------------------------------ a week


DELAYS = (None, 0.5, 1, 2, 5, 20, 60, 120, 300, 600)


def a_week(asked):
    """Twenty hosts of a thousand pages, each with a Crawl-delay of its own and answers that take as long as they take."""
    number = int(asked.host[1 : asked.host.index(".")])
    delay = DELAYS[number % len(DELAYS)]
    if asked.url.endswith("/robots.txt"):
        return Answer(body="User-agent: *\n" + (f"Crawl-delay: {delay}\n" if delay else ""))
    path = asked.url.rpartition("/")[2]
    if not path:
        return html(*(f"/{page}" for page in range(1, 1000)))
    return html(takes=0.02 + (int(path) * 7919 % 100) / 40)


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    starts = [f"http://h{number}.test/" for number in range(20)]
    # The fixed delays: answers that take long cost their host more otherwise (see test_virtual_listening).
    fixed = {"politeness__max_crawl_delay": "10m", "politeness__adaptive": False}
    return crawl(tmp_path_factory.mktemp("week"), starts, a_week, **fixed)


def owed_in_week(host):
    return max(1.0, DELAYS[int(host[1 : host.index(".")]) % len(DELAYS)] or 0.0)


def test_a_week_ends_with_every_page(week):
    assert week.stop is Stop.DONE
    assert week.took > 6.9 * DAY
    assert week.counts.pages == len(week.pages) == 20_000


def test_in_a_week_no_gap_is_shorter_than_owed_and_never_are_two_requests_in_flight_on_a_host(week):
    for host, requests in week.by_host().items():
        shortest = min(gaps(requests[1:]))  # before the first answer nobody knows what is asked for
        assert shortest >= owed_in_week(host) - GRAIN, host
        assert gaps(requests[:2])[0] >= 1 - GRAIN
        assert most_in_flight(requests) == 1


def test_in_a_week_no_host_idles_while_it_has_work(week):
    for host, requests in week.by_host().items():
        answering = sum(request.end - request.start for request in requests)
        possible = answering + (len(requests) - 1) * owed_in_week(host)
        needed = requests[-1].end - requests[0].start
        assert possible / needed >= 0.999, host


def test_in_a_week_each_robots_txt_is_read_once_a_day(week):
    for host, requests in week.by_host().items():
        read = [request.start for request in requests if request.purpose is Purpose.ROBOTS]
        assert all(DAY <= after - before < DAY + 603 for before, after in pairwise(read)), host
        assert requests[-1].start - read[-1] < DAY, host
        assert read[0] == requests[0].start


# ------------------------------------------------------------------------------------------------ patience


@pytest.mark.parametrize("status", [429, 503, 500])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_of_a_page_delays_its_whole_host_and_no_other(tmp_path, store, status, form):
    asked_for = "7200" if form == "seconds" else formatdate(EPOCH + 2 * HOUR, usegmt=True)
    pages = site(A, 5) | site(B, 5)
    pages[f"{A}/3"] = lambda asked: (
        Answer(status, headers={"Retry-After": asked_for}) if asked.number == 1 else html()
    )
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    requests = result.requests("a.test")
    at = next(index for index, request in enumerate(requests) if request.status == status)
    again = requests[at].end + 2 * HOUR if form == "seconds" else 2 * HOUR
    assert requests[at + 1].start == pytest.approx(again, abs=0.01)
    assert requests[at + 1].start >= again - GRAIN
    assert max(request.end for request in result.requests("b.test")) < MINUTE
    assert len(result.pages) == 12


def test_retry_after_beyond_a_day_sets_the_host_aside_and_is_never_cut_short(tmp_path, store):
    pages = site(A, 5) | {f"{A}/": html("/1", "/2", "/3")}
    pages[f"{A}/1"] = Answer(503, headers={"Retry-After": str(int(DAY) + 1)})
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert [request.url for request in result.log] == [ROBOTS_A, f"{A}/", f"{A}/1"]
    assert result.records[f"{A}/1"].state is State.FAILED
    assert result.records[f"{A}/1"].reason.code == "http.503"
    for url in (f"{A}/2", f"{A}/3"):
        assert result.records[url].state is State.REFUSED
        assert result.records[url].reason.code == "retry-after"
    assert result.stop is Stop.DONE


def test_retry_after_of_exactly_a_day_is_waited_out(tmp_path, store):
    pages = site(A, 1)
    pages[f"{A}/1"] = lambda asked: (
        Answer(503, headers={"Retry-After": "86400"}) if asked.number == 1 else html()
    )
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    first, second = result.times(f"{A}/1")
    assert second - first >= DAY
    assert len(result.pages) == 2


def test_a_crawl_delay_of_300_seconds_is_kept_and_one_of_301_sets_the_host_aside(tmp_path, store):
    pages = site(A, 5) | site(B, 5) | {ROBOTS_A: crawl_delay(300), f"{B}/robots.txt": crawl_delay(301)}
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, store=store)
    assert gaps(result.requests("a.test")) == pytest.approx([300.0] * 6, abs=0.01)
    assert len(result.requests("b.test")) == 1
    assert result.records[f"{B}/"].state is State.REFUSED
    assert result.records[f"{B}/"].reason.code == "crawl-delay"


# ------------------------------------------------------------------------------------------------ retries


@pytest.mark.parametrize(
    "trouble", [Answer(500), Answer(502), Answer(503), Answer(429), Answer(fault=Fault.RESET)]
)
def test_temporary_failures_are_retried_three_times_with_doubling_waits(tmp_path, store, trouble):
    pages = site(A, 3) | {f"{A}/1": trouble}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__adaptive=False)
    tries = [request for request in result.log if request.url == f"{A}/1"]
    assert [request.attempt for request in tries] == [1, 2, 3, 4]
    for wait, expected in zip(gaps(tries), (30, 60, 120), strict=True):
        assert expected - GRAIN <= wait < expected + 3  # its host may be busy with another page just then
    record = result.records[f"{A}/1"]
    assert record.state is State.FAILED
    assert record.reason.code == (trouble.fault or f"http.{trouble.status}")
    assert {page.url for page in result.pages} == {f"{A}/", f"{A}/2", f"{A}/3"}
    assert min(gaps(result.log)) >= 1 - GRAIN


def test_waits_vary_by_chance_and_stay_within_their_share(tmp_path):
    hosts = [f"http://h{number}.test" for number in range(20)]
    pages = {f"{host}/": Answer(500) for host in hosts}
    result = crawl(tmp_path, [f"{host}/" for host in hosts], pages, store=MEMORY, schedule__retry_jitter=0.25)
    firsts = []
    for host in hosts:
        waits = gaps([request for request in result.log if request.url == f"{host}/"])
        for wait, base in zip(waits, (30, 60, 120), strict=True):
            assert 0.75 * base - GRAIN <= wait <= 1.25 * base + GRAIN
        firsts.append(waits[0])
    assert max(firsts) - min(firsts) > 5


def test_a_success_resets_the_attempts(tmp_path, store):
    pages = site(A, 1)
    pages[f"{A}/1"] = lambda asked: html() if asked.number == 4 else Answer(503)
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    record = result.records[f"{A}/1"]
    assert (record.state, record.attempts, record.status) == (State.CRAWLED, 0, 200)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 418, 451])
def test_other_4xx_are_never_tried_again(tmp_path, status):
    result = crawl(tmp_path, [f"{A}/"], site(A, 2) | {f"{A}/1": Answer(status)}, store=MEMORY)
    assert len(result.times(f"{A}/1")) == 1
    assert result.records[f"{A}/1"].state is State.CRAWLED
    assert result.records[f"{A}/1"].status == status
    assert result.counts.pages == 2


# ------------------------------------------------------------------------------------------------ levels


def seed(url, level):
    return Link(url=url, key=url, host=urls.host(url), level=level, seed=True)


def test_inside_a_host_the_least_urgent_links_get_their_share_however_many_others_wait(tmp_path, store):
    urgent = [seed(f"{A}/urgent/{number}", Level.CRITICAL) for number in range(2000)]
    others = [seed(f"{A}/{level.name}/{number}", level) for level in list(Level)[1:] for number in range(100)]
    result = crawl(
        tmp_path, urgent + others, lambda _asked: html(), store=store, crawl__max_pages=310, politeness__delay="0s"
    )  # fmt: skip
    names = [page.url.split("/")[3] for page in sorted(result.pages, key=lambda page: page.fetched_at)]
    assert len(names) == 310
    # Levels are drawn 16:8:4:2:1, evenly: every 31 visits in a row have exactly that many of each.
    for start in range(0, 310, 31):
        drawn = names[start : start + 31]
        assert [drawn.count(name) for name in ("urgent", "HIGH", "NORMAL", "LOW", "BACKGROUND")] == [
            16,
            8,
            4,
            2,
            1,
        ]


def test_the_least_urgent_host_gets_its_share_of_a_single_connection(tmp_path, store):
    urgent = [
        seed(f"http://u{host}.test/{number}", Level.CRITICAL) for host in range(30) for number in range(100)
    ]
    idle = [seed(f"http://idle.test/{number}", Level.BACKGROUND) for number in range(100)]
    result = crawl(
        tmp_path, urgent + idle, lambda asked: Answer(404) if "robots" in asked.url else html(), store=store,
        crawl__concurrency=1, crawl__max_pages=200, politeness__delay="0s",
    )  # fmt: skip
    turns = [number for number, request in enumerate(result.log) if request.host == "idle.test"]
    assert len(turns) >= len(result.log) // 17 - 1
    assert max(after - before for before, after in pairwise(turns)) <= 31
    assert turns[0] <= 31


# ------------------------------------------------------------------------------------------------ bursts, connections


def test_an_idle_host_gets_its_burst_and_then_its_delay(tmp_path, store):
    result = crawl(tmp_path, [f"{A}/"], site(A, 8), store=store, politeness__burst=3)
    assert gaps(result.log) == pytest.approx([0.0, 0.0, *[1.0] * 7], abs=0.01)


def test_a_burst_does_not_rush_a_slow_host(tmp_path, store):
    pages = {url: html(takes=5.0) for url in site(A, 8)} | {f"{A}/": site(A, 8)[f"{A}/"]}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__burst=3, politeness__adaptive=False)
    assert gaps(result.log)[2:] == pytest.approx([1.0] * 7, abs=0.01)


def test_two_connections_begin_a_delay_apart_and_never_within_the_delay_after_an_answer(tmp_path, store):
    names = list(site(A, 60))
    pages = {url: html(takes=0.31 + number * 0.377 % 3) for number, url in enumerate(names)}
    pages[f"{A}/"] = site(A, 60)[f"{A}/"]
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__per_host=2)
    assert most_in_flight(result.log) == 2
    assert min(after.start - before.start for before, after in pairwise(result.log)) >= 1 - GRAIN
    for request in result.log:
        ended = [other.end for other in result.log if other.end < request.start]
        assert request.start - max(ended, default=-9.0) >= 1 - GRAIN
    assert len(result.pages) == 61


# ------------------------------------------------------------------------------------------------ clocks


@pytest.mark.parametrize("set_by", [-HOUR, -10 * DAY])
def test_a_clock_set_back_shortens_no_delay(tmp_path, store, set_by):
    def meanwhile(crawl):
        loop = asyncio.get_running_loop()
        for at in (20.1, 20.6, 47.0):
            loop.call_later(at, crawl.clock.set_wall, set_by)

    pages = site(A, 12) | {ROBOTS_A: crawl_delay(5)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, meanwhile=meanwhile)
    assert min(gaps(result.log)[1:]) >= 5 - GRAIN
    assert len(result.pages) == 13

"""The delay that listens, over whole crawls in virtual time: refusals, slow answers, hosts that fail for hours."""

from itertools import pairwise

import pytest

from skitter.events import SetAside, Warned
from skitter.model import Fault, State, Stop
from tests.crawl.virtual import HOUR, MEMORY, MINUTE, ROCKSDB, Answer, crawl, html, site

A, B = "http://a.test", "http://b.test"
ROBOTS_A = f"{A}/robots.txt"
GRAIN = 1e-6


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def gaps(requests):
    """The times from the end of each request to the start of the next."""
    return [after.start - before.end for before, after in pairwise(requests)]


def from_then_on(pages, answer, after):
    """The pages as they are, and after so many requests this answer for all but the robots.txt."""
    count = 0

    def script(asked):
        nonlocal count
        if asked.url.endswith("/robots.txt"):
            return Answer(404)
        count += 1
        return answer if count > after else pages[asked.url]

    return script


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("delay", ["0s", "50ms", "1s"])
@pytest.mark.parametrize("per_host", [1, 4])
def test_after_seven_refusals_a_host_gets_one_request_a_minute_at_most(tmp_path, store, delay, per_host):
    refusing = from_then_on(site(A, 100), Answer(429, takes=0.001), after=20)
    quick = {"schedule__retry_base": "10ms"}  # the pages themselves would be retried at once
    polite = {"politeness__delay": delay, "politeness__per_host": per_host, "politeness__burst": 3}
    result = crawl(tmp_path, [f"{A}/"], refusing, store=store, **quick, **polite)
    refused = [request for request in result.requests("a.test") if request.status == 429]
    assert min(gaps(refused[6:])) >= MINUTE
    assert len(refused) <= 13 + per_host - 1
    assert result.hosts["a.test"].aside.code == "host.failing"
    assert result.stop is Stop.DONE


def test_503_time_outs_and_resets_are_listened_to_as_well(tmp_path, store):
    for trouble in (Answer(503), Answer(fault=Fault.TIMEOUT, takes=30), Answer(fault=Fault.RESET)):
        failing = from_then_on(site(A, 100), trouble, after=20)
        result = crawl(tmp_path / f"{trouble.status}{trouble.fault}", [f"{A}/"], failing, store=store)
        waits = gaps(result.requests("a.test")[21:])  # after the robots.txt and twenty pages
        for wait, least in zip(waits, (2, 4, 8, 16, 32, 64, 128), strict=False):
            assert least - GRAIN <= wait <= least + 0.6  # a time-out is an answer that took long, too


def test_other_hosts_do_not_pay_for_it(tmp_path, store):
    refusing = from_then_on(site(A, 30), Answer(429), after=5)

    def script(asked):
        return refusing(asked) if asked.host == "a.test" else site(B, 60).get(asked.url, Answer(404))

    result = crawl(tmp_path, [f"{A}/", f"{B}/"], script, store=store)
    assert gaps(result.requests("b.test")) == pytest.approx([1.0] * 61, abs=0.01)


def test_recovery_needs_ten_good_answers_or_more(tmp_path, store):
    pages = site(A, 60)
    pages[f"{A}/30"] = lambda asked: Answer(503) if asked.number <= 1 else html()
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, schedule__retry_base="1ms")
    requests = result.requests("a.test")
    trouble = next(number for number, request in enumerate(requests) if request.status == 503)
    waits = gaps(requests)
    assert waits[:trouble] == pytest.approx([1.0] * trouble, abs=0.01)
    assert waits[trouble : trouble + 10] == pytest.approx([2.0] * 10, abs=0.01)
    assert waits[trouble + 10 : trouble + 20] == pytest.approx([1.8] * 10, abs=0.01)


def test_one_page_that_always_fails_slows_its_host_down_once(tmp_path, store):
    pages = site(A, 200) | {f"{A}/3": Answer(fault=Fault.TIMEOUT, takes=30)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.records[f"{A}/3"].attempts == 4
    assert result.records[f"{A}/3"].reason.code == "timeout"
    waits = sorted(gaps(result.requests("a.test")))
    assert waits[-4] <= 2.6  # the three longest may be retries with nothing else left to do
    assert result.hosts["a.test"].pace.failures == 0
    assert len(result.pages) == 200


def test_a_fast_error_page_speeds_nothing_up(tmp_path, store):
    """A host of slow pages is owed more than the floor; a thousand quick 404s do not change that."""
    pages = {url: Answer(body=answer.body, takes=4.0) for url, answer in site(A, 40).items()}
    pages |= {f"{A}/{number}": Answer(404, takes=0.001) for number in range(11, 41)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert min(gaps(result.requests("a.test")[6:])) >= 8 - 0.01


# ------------------------------------------------------------------------------------------------ slow answers


def test_answers_that_take_ten_times_as_long_lower_the_rate_by_five_within_five_requests(tmp_path, store):
    number = 0

    def script(asked):
        nonlocal number
        if asked.url == ROBOTS_A:
            return Answer(404)
        number += 1
        answer = site(A, 60)[asked.url]
        return Answer(body=answer.body, takes=1.0 if number > 30 else 0.1)

    result = crawl(tmp_path, [f"{A}/"], script, store=store)
    starts = [request.start for request in result.requests("a.test")][1:]
    usual = starts[29] - starts[28]
    assert usual == pytest.approx(1.1, abs=0.01)
    assert starts[35] - starts[34] >= 5 * usual  # after the answers to five slow requests
    assert max(gaps(result.requests("a.test"))) <= 10.1  # and no longer than such answers deserve
    assert result.hosts["a.test"].pace.cause == "slow"
    assert len(result.pages) == 61


def test_a_slow_host_waits_for_twice_as_long_as_it_takes_and_a_burst_does_not_change_that(tmp_path, store):
    pages = {url: Answer(body=answer.body, takes=3.0) for url, answer in site(A, 30).items()}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, politeness__burst=3)
    assert min(gaps(result.requests("a.test")[4:])) >= 6 - 0.01


def test_without_the_setting_delays_are_fixed(tmp_path, store):
    refusing = from_then_on(site(A, 5), Answer(503, takes=20), after=1)
    result = crawl(
        tmp_path, [f"{A}/"], refusing, store=store, politeness__adaptive=False, schedule__retries=0
    )
    assert gaps(result.requests("a.test")) == pytest.approx([1.0] * 6, abs=0.01)
    assert result.hosts["a.test"].pace is None


# ------------------------------------------------------------------------------------------------ hosts that fail


def test_a_host_that_goes_down_is_parked_and_given_up_and_nothing_of_it_is_lost(tmp_path, store):
    dead = from_then_on(site(A, 100), Answer(fault=Fault.CONNECT, takes=0.01), after=20)
    result = crawl(tmp_path, [f"{A}/"], dead, store=store)
    failed = result.requests("a.test")[21:]
    assert len(failed) == 13
    assert [wait for wait in gaps(failed) if wait > 9 * MINUTE] == pytest.approx(
        [10 * MINUTE, HOUR, 6 * HOUR], abs=1
    )
    waiting = [record for record in result.records.values() if record.state is State.REFUSED]
    assert {record.reason.code for record in waiting} == {"host.failing"}
    assert len(waiting) + len(result.pages) + result.counts.failed == 101
    (warned,) = {event.text.partition(";")[0] for event in result.events if isinstance(event, Warned)} - {
        "a.test failed 11 times in a row (connect)",
        "a.test failed 12 times in a row (connect)",
    }
    assert warned == "a.test failed 10 times in a row (connect)"
    (aside,) = [event for event in result.events if isinstance(event, SetAside)]
    assert (aside.what, aside.reason.code) == ("a.test", "host.failing")


def test_a_host_that_comes_back_is_crawled_to_the_end(tmp_path, store):
    pages = site(A, 300)

    def script(asked):
        if 2 * MINUTE < asked.at < 1.5 * HOUR:
            return Answer(fault=Fault.CONNECT, takes=0.01)
        return pages.get(asked.url, Answer(404))

    result = crawl(tmp_path, [f"{A}/"], script, store=store)
    assert len(result.pages) == 301
    assert result.took > 70 * MINUTE
    assert result.hosts["a.test"].pace.parked == 0


def test_a_page_of_a_parked_host_has_not_used_up_its_retries(tmp_path, store):
    """Two pages, four attempts each, ten failures: without parking both would be given up after some minutes."""

    def script(asked):
        if asked.url == ROBOTS_A:
            return Answer(404)
        return Answer(503) if asked.at < HOUR else site(A, 3)[asked.url]

    pages = [f"{A}/", *(f"{A}/{number}" for number in range(1, 4))]
    result = crawl(tmp_path, pages, script, store=store, schedule__retries=5)
    assert len(result.pages) == 4


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "asked_for",
    ["Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "9" * 400, "99999999999"],
)
def test_retry_after_in_the_year_9999_sets_the_host_aside(tmp_path, store, asked_for):
    pages = site(A, 3) | {f"{A}/1": Answer(503, headers={"Retry-After": asked_for})}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.hosts["a.test"].aside.code == "retry-after"
    assert result.stop is Stop.DONE
    assert result.took < MINUTE


@pytest.mark.parametrize(
    "asked_for", ["-1", "soon", "Fri, 31 Dec 99999 23:59:59 GMT", "1e9", "", "٣", "1 2 3"]
)
def test_a_retry_after_that_says_nothing_is_none(tmp_path, store, asked_for):
    pages = site(A, 2)
    pages[f"{A}/1"] = lambda asked: (
        Answer(429, headers={"Retry-After": asked_for}) if asked.number == 1 else html()
    )
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert len(result.pages) == 3
    assert result.took < 10 * MINUTE

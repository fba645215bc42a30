"""Order of visits, retries, and when to give up."""

import math

import pytest
from msgspec import structs

from skitter import schedule
from skitter.model import (
    Exchange,
    Failed,
    Fault,
    Fetched,
    Hints,
    Link,
    NotModified,
    Reason,
    Redirected,
    Refused,
    State,
    Visit,
)
from skitter.settings import PolitenessSettings, ScheduleSettings, Seconds, Settings

NOW = 1_700_000_000.0
SETTINGS = Settings()
EXCHANGE = Exchange("http://a.test/", "192.0.2.1", NOW - 1, NOW - 0.5, b"", b"", b"")


URL = "http://a.test/"


def link(url=URL, **fields):
    return Link(url=url, key=url, host="a.test", **fields)


def visit(attempt=1, **fields):
    return Visit(link(), attempt, NOW - 1, **fields)


def fetched(status, headers=()):
    return Fetched(EXCHANGE, status, headers, b"", b"")


def verdict(outcome, attempt=1, owed=2.0, settings=SETTINGS, jitter=0.0):
    return schedule.verdict(visit(attempt), outcome, owed, settings, NOW, jitter)


# ------------------------------------------------------------------------------------------------ order


def test_breadth_first_prefers_shallow_and_depth_first_deep_links():
    assert schedule.bfs(URL, 1, 0, 0) > schedule.bfs(URL, 9, 0, 0)
    assert schedule.dfs(URL, 1, 0, 0) < schedule.dfs(URL, 9, 0, 0)


def test_depth_adds_up_depth_parent_in_links_and_freshness():
    score = schedule.depth(URL, 2, parent_score=50, in_links=3)
    assert score == pytest.approx(100 * 0.8**2 + 25 + 10 * math.log(4) + 20)


@pytest.mark.parametrize(
    ("url", "score"),
    [("http://a.test/p/7.html", 7), ("http://a.test/4/p12.html", 12), ("http://a.test/none", -1)],
)
def test_number_scores_by_the_number_in_the_url(url, score):
    by_number = schedule.strategy(ScheduleSettings(strategy="number"))
    assert by_number(url, 0, 0, 0) == score


def test_number_takes_digits_without_end():
    by_number = schedule.strategy(ScheduleSettings(strategy="number"))
    assert by_number("http://a.test/" + "9" * 5000, 0, 0, 0) > 1e299


@pytest.mark.parametrize("name", schedule.STRATEGIES)
def test_every_named_strategy_exists(name):
    assert math.isfinite(schedule.strategy(ScheduleSettings(strategy=name))(URL, 0, 0, 0))


# ------------------------------------------------------------------------------------------------ again


@pytest.mark.parametrize("status", [200, 204, 301, 400, 401, 403, 404, 410, 418])
def test_an_answer_is_final_unless_the_server_is_unwilling(status):
    result = verdict(fetched(status))
    assert result.state is State.CRAWLED
    assert result.due is None
    assert result.host_free == EXCHANGE.ended + 2.0
    assert result.host_delay == 2.0


@pytest.mark.parametrize(
    "outcome", [NotModified(EXCHANGE, ()), Redirected(EXCHANGE, 301, (), "http://b.test/", "x")]
)
def test_not_modified_and_redirects_are_answers(outcome):
    assert verdict(outcome).state is State.CRAWLED


@pytest.mark.parametrize("status", [429, 500, 502, 503, 599])
def test_unwilling_servers_are_retried_with_growing_waits_then_given_up(status):
    waits = []
    for attempt in (1, 2, 3):
        result = verdict(fetched(status), attempt)
        assert result.state is State.QUEUED
        waits.append(result.due - NOW)
    assert waits == [30, 60, 120]
    last = verdict(fetched(status), attempt=4)
    assert last.state is State.FAILED
    assert last.reason == Reason(f"http.{status}", f"the server answered {status}")


@pytest.mark.parametrize("fault", list(Fault))
def test_only_temporary_failures_are_retried(fault):
    result = verdict(Failed(fault, "x", EXCHANGE))
    assert result.state is (State.QUEUED if fault in schedule.TRANSIENT else State.FAILED)
    assert result.reason.code == fault.value


@pytest.mark.parametrize("attempt", [1, 100])
def test_a_kept_connection_that_closed_costs_the_host_its_delay_and_the_url_nothing(attempt):
    result = verdict(Failed(Fault.REUSE, "x", EXCHANGE), attempt=attempt, owed=2.0)
    assert (result.state, result.due, result.attempted) == (State.QUEUED, NOW, False)
    assert result.host_free == EXCHANGE.ended + 2.0


def test_jitter_moves_the_wait_by_its_share_at_most():
    base = ScheduleSettings()
    assert schedule.back_off(1, base, 1.0) == 30 * 1.25
    assert schedule.back_off(1, base, -1.0) == 30 * 0.75
    assert schedule.back_off(100_000, base, 0.0) == base.retry_max


def test_when_nothing_was_sent_the_hosts_clock_stays():
    assert verdict(Failed(Fault.DNS, "x", None)).host_free is None
    assert verdict(Refused(Reason("robots"))).host_free is None


def test_a_refusal_is_final():
    result = verdict(Refused(Reason("robots", "line 3")))
    assert result.state is State.REFUSED
    assert result.reason == Reason("robots", "line 3")


# ------------------------------------------------------------------------------------------------ Retry-After


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_applies_to_the_whole_host(status):
    result = verdict(fetched(status, [("retry-after", "100")]))
    assert result.host_free == EXCHANGE.ended + 100
    assert result.host_aside is None


def test_retry_after_never_shortens_the_delay():
    assert verdict(fetched(429, [("retry-after", "0")])).host_free == EXCHANGE.ended + 2.0


def test_a_429_without_retry_after_holds_the_host_for_the_back_off():
    assert verdict(fetched(429)).host_free == EXCHANGE.ended + 30


def test_a_500_without_retry_after_holds_the_host_for_its_delay_only():
    assert verdict(fetched(500)).host_free == EXCHANGE.ended + 2.0


def test_a_retry_after_beyond_the_limit_sets_the_host_aside_and_is_never_cut_short():
    settings = structs.replace(SETTINGS, politeness=PolitenessSettings(max_retry_after=Seconds(60)))
    result = verdict(fetched(503, [("retry-after", "61")]), settings=settings)
    assert result.host_aside.code == "retry-after"
    assert result.state is State.FAILED
    assert verdict(fetched(503, [("retry-after", "60")]), settings=settings).host_aside is None


def test_the_burst_of_a_rested_host_is_spent_before_its_delay_applies():
    settings = structs.replace(SETTINGS, politeness=PolitenessSettings(burst=3))
    rested = Visit(link(), 1, NOW - 1, host_free=0.0)
    free = schedule.verdict(rested, fetched(200), 1.0, settings, NOW, 0.0).host_free
    assert free < NOW
    spent = Visit(link(), 1, NOW - 1, host_free=EXCHANGE.started)
    free = schedule.verdict(spent, fetched(200), 1.0, settings, NOW, 0.0).host_free
    assert free == EXCHANGE.ended + 1.0


def test_a_slow_answer_does_not_fill_the_bucket_again():
    settings = structs.replace(SETTINGS, politeness=PolitenessSettings(burst=3))
    slow = Fetched(Exchange("http://a.test/", "192.0.2.1", NOW - 60, NOW, b"", b"", b""), 200, (), b"", b"")
    spent = Visit(link(), 1, NOW - 60, host_free=NOW - 60)
    assert schedule.verdict(spent, slow, 1.0, settings, NOW, 0.0).host_free == NOW + 1.0


@pytest.mark.parametrize("strategy", ["bfs", "dfs", "depth", "number"])
@pytest.mark.parametrize("priority", [None, 0.9])
def test_the_terms_of_a_score_add_up_to_it(strategy, priority):
    settings = ScheduleSettings(strategy=strategy)
    hints = None if priority is None else Hints(priority=priority)
    url = "https://a.test/page/17"
    score = schedule.strategy(settings)(url, 3, 40.0, 2) + schedule.by_priority(hints)
    terms = schedule.terms(settings, url, 3, score, hints)
    assert sum(points for points, _ in terms) == pytest.approx(score)
    assert all("other settings" not in what for _, what in terms)
    assert any("priority" in what for _, what in terms) == (priority is not None)


def test_what_a_score_has_from_earlier_settings_is_a_term_of_its_own():
    terms = schedule.terms(ScheduleSettings(strategy="bfs"), "https://a.test/", 1, 99.0, None)
    assert terms == [(-1.0, "its depth, 1 (bfs)"), (100.0, "other settings, under which it was found")]

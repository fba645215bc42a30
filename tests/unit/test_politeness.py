"""When is a host free again?"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter import politeness
from skitter.politeness import TokenBucket
from skitter.robots import robots_rules
from skitter.settings import PolitenessSettings, Seconds

NOW = 1_700_000_000.0


def test_with_a_burst_of_one_the_clock_is_a_delay_after_the_last_response():
    bucket = TokenBucket(delay=2.0)
    assert bucket.take(free_at=NOW - 500, now=NOW) == NOW + 2
    assert bucket.take(free_at=NOW + 1, now=NOW) == NOW + 3
    assert bucket.wait(NOW + 2, NOW) == 2
    assert bucket.wait(NOW - 2, NOW) == 0
    assert bucket.rate == 0.5


def test_a_long_idle_host_gets_its_burst_and_then_the_rate():
    bucket, free, starts = TokenBucket(delay=1.0, burst=3), 0.0, []
    now = NOW
    for _ in range(6):
        now += bucket.wait(free, now)
        starts.append(now - NOW)
        free = bucket.take(free, now)
    assert starts == [0, 0, 0, 1, 2, 3]


@given(
    delay=st.floats(0.01, 100),
    burst=st.integers(1, 5),
    pauses=st.lists(st.floats(0, 50), min_size=2, max_size=30),
)
def test_never_more_than_burst_plus_rate_in_any_window(delay, burst, pauses):
    bucket, free, now, starts = TokenBucket(delay, burst), 0.0, NOW, []
    for pause in pauses:
        now += pause
        now = max(now, free)
        starts.append(now)
        free = bucket.take(free, now)
    for i, first in enumerate(starts):
        for j in range(i, len(starts)):
            taken = j - i + 1
            assert taken <= burst + (starts[j] - first) / delay + 1e-3


@pytest.mark.parametrize(
    ("robots", "expected"),
    [
        (b"", 1.0),
        (b"User-agent: *\nCrawl-delay: 20", 20.0),
        (b"User-agent: *\nCrawl-delay: 0.1", 1.0),  # never faster than our own delay
        (b"User-agent: *\nRequest-rate: 1/20", 20.0),
        (b"User-agent: *\nCrawl-delay: 5\nRequest-rate: 1/20", 20.0),
    ],
)
def test_a_host_gets_the_delay_it_asks_for_and_never_less_than_ours(robots, expected):
    assert politeness.owed(robots_rules(robots, "skitter"), PolitenessSettings()) == expected


def test_a_crawl_delay_beyond_the_limit_sets_the_host_aside_instead_of_being_cut_short():
    settings = PolitenessSettings(max_crawl_delay=Seconds(300))
    rules = robots_rules(b"User-agent: *\nCrawl-delay: 301", "skitter")
    reason = politeness.too_slow(rules, settings)
    assert reason is not None
    assert reason.code == "crawl-delay"
    assert politeness.too_slow(robots_rules(b"User-agent: *\nCrawl-delay: 300", "skitter"), settings) is None
    assert politeness.too_slow(None, settings) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("Tue, 14 Nov 2023 22:15:20 GMT", 120.0),
        ("Tuesday, 14-Nov-23 22:15:20 GMT", 120.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),  # past
        ("-5", None),
        ("soon", None),
        ("", None),
        ("1.5", None),
        ("٣", None),
        ("Tue, 99 Nov 2023 22:15:20 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value, expected):
    assert politeness.retry_after([("server", "x"), ("retry-after", value)], NOW) == expected


def test_a_retry_after_longer_than_any_life_is_infinite():
    assert politeness.retry_after([("retry-after", "9" * 400)], NOW) == math.inf


@given(st.text())
def test_retry_after_never_raises(value):
    asked = politeness.retry_after([("retry-after", value)], NOW)
    assert asked is None or asked >= 0

"""Which limit of a crawl is reached, and who may store how many more pages."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.crawl.limits import (
    GRACE,
    Share,
    grace_is_over,
    has_limit,
    limit_reached,
    pages_left,
    share_out,
)
from skitter.model import Counts
from skitter.settings import Bytes, CrawlSettings, Seconds


@pytest.mark.parametrize(
    ("limits", "counts", "elapsed", "said"),
    [
        (CrawlSettings(), Counts(pages=10**9, bytes=10**15), 1e9, ""),
        (CrawlSettings(max_pages=10), Counts(pages=9), 0.0, ""),
        (CrawlSettings(max_pages=10), Counts(pages=10), 0.0, "10 pages of 10 are stored (crawl.max_pages)"),
        (CrawlSettings(max_bytes=Bytes(2048)), Counts(bytes=2047), 0.0, ""),
        (
            CrawlSettings(max_bytes=Bytes(2048)),
            Counts(bytes=3072),
            0.0,
            "3.0 KiB of 2.0 KiB are received (crawl.max_bytes)",
        ),
        (CrawlSettings(max_time=Seconds(60)), Counts(), 59.9, ""),
        (
            CrawlSettings(max_time=Seconds(60)),
            Counts(),
            60.0,
            "1m 00s of 1m 00s have passed (crawl.max_time)",
        ),
    ],
)
def test_which_limit_is_reached(limits, counts, elapsed, said):
    assert limit_reached(limits, pages=counts.pages, received=counts.bytes, elapsed=elapsed) == said
    assert has_limit(limits) is (limits != CrawlSettings())


@pytest.mark.parametrize(
    ("max_time", "elapsed", "over"),
    [(None, 1e9, False), (60, 60.0, False), (60, 59.9 + GRACE, False), (60, 60.0 + GRACE, True)],
)
def test_requests_in_flight_have_a_few_seconds_when_the_time_has_passed(max_time, elapsed, over):
    limits = CrawlSettings(max_time=None if max_time is None else Seconds(max_time))
    assert grace_is_over(limits, elapsed) is over


@pytest.mark.parametrize(
    ("allowed", "stored", "in_flight", "left"),
    [(None, 10**9, 10**6, sys.maxsize), (10, 4, 3, 3), (10, 4, 6, 0), (0, 0, 0, 0), (5, 7, 1, -3)],
)
def test_every_visit_in_flight_counts_as_a_page(allowed, stored, in_flight, left):
    assert pages_left(allowed, stored, in_flight) == left


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({}, {}),
        ({0: (0, 0, 99), 1: (0, 0, 99), 2: (0, 0, 99)}, {0: 4, 1: 3, 2: 3}),  # equal parts of what is free
        ({0: (0, 0, 2), 1: (0, 0, 99)}, {0: 2, 1: 8}),  # as far as they are wanted
        ({0: (5, 5, 5), 1: (1, 4, 1)}, {0: 5, 1: 4}),  # nobody wants more: all stays as it is
        (
            {0: (5, 5, 99), 1: (3, 5, 3)},
            {0: 5, 1: 3},
        ),  # it is asked to give back, and may use it until it has
        ({0: (5, 5, 99), 1: (3, 3, 3)}, {0: 7, 1: 3}),  # and then it is free
        ({0: (5, 5, 99), 1: (3, 5, 4)}, {0: 5, 1: 4}),  # it keeps what it wants
        (
            {0: (12, 12, 99), 1: (0, 0, 99)},
            {0: 12, 1: 0},
        ),  # less than nothing is free: the limit was larger once
    ],
)
def test_who_may_store_how_many_of_ten_pages(shares, expected):
    assert share_out(10, {part: Share(*share) for part, share in shares.items()}) == expected


workers = st.lists(
    st.fixed_dictionaries(
        {"work": st.integers(0, 60), "fails": st.integers(0, 5), "slots": st.integers(1, 7)}
    ),
    min_size=1,
    max_size=5,
)


@given(st.integers(0, 80), workers)
def test_all_workers_together_store_exactly_the_limit_or_all_there_is(limit, found):
    """Rounds of workers that take what they may, fail now and then, and answer as workers do."""
    state = [
        {"pages": 0, "flight": 0, "left": each["work"], "fails": each["fails"], "limit": 0} for each in found
    ]
    allowed = {}
    for _ in range(400):
        shares = {}
        for number, worker in enumerate(state):
            used = worker["pages"] + worker["flight"]
            worker["limit"] = max(allowed.get(number, 0), used)
            wants = worker["left"] > 0 and used >= worker["limit"]
            shares[number] = Share(used, worker["limit"], limit if wants else used)
        allowed = share_out(limit, shares)
        assert sum(worker["limit"] for worker in state) <= limit
        for worker, each in zip(state, found, strict=True):
            ended = worker["flight"]
            failed = min(ended, worker["fails"])
            worker["fails"] -= failed
            worker["pages"] += ended - failed
            room = worker["limit"] - worker["pages"]
            worker["flight"] = max(0, min(room, each["slots"], worker["left"]))
            worker["left"] -= worker["flight"]
    total = sum(worker["pages"] for worker in state)
    assert total <= limit
    assert total == limit or all(worker["left"] == 0 for worker in state)

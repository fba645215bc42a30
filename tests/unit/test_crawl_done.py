"""Is a crawl over, and why? From what its parts say of themselves."""

import pytest
from msgspec.structs import replace

from skitter.crawl.done import Activity, SeedsAre, Snapshot, hopeless, why_it_ended, why_over
from skitter.model import Counts, Stop

IDLE = Activity(Counts(pages=2, requests=2), idle=True)
BUSY = Activity(Counts(pages=3, requests=5, queued=1), idle=False)
LOST_HOPE = Activity(Counts(queued=1), idle=False, hopeless=True)
NOTHING = Activity(Counts(), idle=True)


def part(*, idle=True, in_flight=0, hopeless=False, **counts):
    return Activity(Counts(**counts), idle, in_flight, hopeless)


def crawl(*parts, **more):
    return Snapshot(dict(enumerate(parts)), **more)


QUIET = crawl(part(pages=3, requests=5), IDLE, delivered=7)


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (QUIET, QUIET, Stop.DONE),
        (None, QUIET, None),  # one quiet snapshot proves nothing
        (None, replace(QUIET, one_moment=True), Stop.DONE),  # unless everybody was seen in one moment
        (crawl(BUSY, IDLE, delivered=7), QUIET, None),
        (QUIET, crawl(part(pages=3, requests=5, idle=False), IDLE, delivered=7), None),
        (QUIET, crawl(part(pages=3, requests=5, in_flight=1), IDLE, delivered=7), None),
        (QUIET, crawl(part(pages=3, requests=5, outbox=1), IDLE, delivered=7), None),
        (replace(QUIET, under_way=1), replace(QUIET, under_way=1), None),  # a link between two parts is work
        (QUIET, replace(QUIET, delivered=8), None),  # links were delivered in between
        (replace(QUIET, seeds=SeedsAre.COMING), replace(QUIET, seeds=SeedsAre.COMING), None),
        (replace(QUIET, seeds=SeedsAre.BEING_STORED), QUIET, None),  # its parts may have answered before
        (crawl(LOST_HOPE, NOTHING), crawl(LOST_HOPE, NOTHING), Stop.UNREACHABLE),
        (None, crawl(LOST_HOPE, NOTHING), None),
        (None, crawl(LOST_HOPE, one_moment=True), Stop.UNREACHABLE),
        (QUIET, crawl(LOST_HOPE, NOTHING), None),
        (crawl(NOTHING), crawl(NOTHING), Stop.DONE),  # nothing at all is done, not hopeless
    ],
)
def test_when_a_crawl_is_over(before, now, why):
    assert why_over(before, now) is why


@pytest.mark.parametrize(
    "counter", ["seen", "added", "requests", "crawled", "failed", "pages", "bytes", "leased", "queued"]
)
def test_a_counter_that_moved_in_between_means_that_somebody_was_at_work(counter):
    moved = crawl(part(**({"pages": 3, "requests": 5} | {counter: 6})), IDLE, delivered=7)
    assert why_over(QUIET, moved) is None
    assert why_over(moved, moved) is Stop.DONE


@pytest.mark.parametrize(
    "other",
    [part(idle=False, queued=1), part(in_flight=1), part(outbox=1), part(bytes=1)],
    ids=[
        "something else waits",
        "something is in flight",
        "a link waits to be forwarded",
        "somebody answered",
    ],
)
def test_one_part_with_hope_is_enough_to_go_on(other):
    now = crawl(LOST_HOPE, other)
    assert why_over(now, now) is None


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (crawl(BUSY), Stop.LIMIT),
        (crawl(part(in_flight=1)), Stop.LIMIT),
        (crawl(BUSY, seeds=SeedsAre.COMING), Stop.LIMIT),
        (crawl(NOTHING, seeds=SeedsAre.COMING), Stop.LIMIT),  # seeds are kept back
        (
            crawl(BUSY, seeds=SeedsAre.BEING_STORED),
            None,
        ),  # it is known in a moment whether anything is kept back
        (crawl(NOTHING), Stop.DONE),  # it was reached with the very last page
        (crawl(LOST_HOPE), Stop.LIMIT),
    ],
)
def test_a_limit_ends_a_crawl_unless_it_keeps_nothing_back(now, why):
    assert why_over(now, now, at_limit=True) is why


@pytest.mark.parametrize(
    ("asked", "work_left", "why"),
    [
        (None, True, Stop.DONE),
        (Stop.LIMIT, True, Stop.LIMIT),
        (Stop.LIMIT, False, Stop.DONE),
        (Stop.INTERRUPTED, False, Stop.INTERRUPTED),
        (Stop.DISK, False, Stop.DISK),
        (Stop.UNREACHABLE, True, Stop.UNREACHABLE),
    ],
)
def test_the_reason_that_is_reported(asked, work_left, why):
    assert why_it_ended(asked, work_left=work_left) is why


@pytest.mark.parametrize(
    ("now", "only_links"),
    [
        (crawl(IDLE, under_way=7), True),
        (crawl(IDLE, part(outbox=1)), True),
        (crawl(IDLE), False),
        (crawl(IDLE, BUSY, under_way=7), False),
        (crawl(IDLE, part(in_flight=1), under_way=7), False),
    ],
)
def test_links_under_way_may_be_all_that_is_left(now, only_links):
    assert now.only_links_left is only_links


# ------------------------------------------------------------------------------------------------ hosts that never answered

A, B = "http://a.example", "http://b.example"


@pytest.mark.parametrize(
    ("received", "in_flight", "waiting", "failed", "expected"),
    [
        (0, 0, {A}, {A}, True),
        (0, 0, {A}, {A, B}, True),  # b was given up
        (0, 0, (), {A}, True),
        (0, 0, {A, B}, {A}, False),  # b was not tried in this run
        (0, 1, {A}, {A}, False),
        (1, 0, {A}, {A}, False),  # somebody has answered, perhaps long ago
        (0, 0, {A}, (), False),
    ],
)
def test_a_run_is_hopeless_when_everything_failed_and_no_host_ever_answered(
    received, in_flight, waiting, failed, expected
):
    assert hopeless(received=received, in_flight=in_flight, waiting=waiting, failed=failed) is expected

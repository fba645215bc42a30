"""Which hosts pause, and why, from recent settlements."""

import pytest
from msgspec.structs import replace

from skitter.model import (
    Exchange,
    HostRecord,
    Link,
    Pace,
    Purpose,
    RobotsCopy,
    Settlement,
    State,
    Verdict,
    Visit,
)
from skitter.reporting.waiting import SHOWN, Asked, Pause, Pauses, Waiting, asked, together

NOW = 1000.0
USUAL = 1.0


def settled(host="a.example", *, status=200, free=NOW + 1, owed=1.0, head=b"", robots=None):
    purpose = Purpose.PAGE if robots is None else Purpose.ROBOTS
    link = Link(url=f"http://{host}/", key="k", host=host, purpose=purpose)
    return Settlement(
        visit=Visit(link, 1, NOW - 1),
        verdict=Verdict(state=State.CRAWLED, host_free=free, host_delay=owed),
        exchange=Exchange(link.url, "127.0.0.1", NOW - 1, NOW, b"", head, b""),
        robots=robots,
        status=status,
    )


@pytest.mark.parametrize(
    ("settlement", "expected"),
    [
        (settled(), []),
        (settled(free=None), []),
        (settled(free=NOW + 30, owed=30.0), [Pause("a.example", 30.0, "Crawl-delay 30 s")]),
        (settled(free=NOW + 60, owed=1.0), [Pause("a.example", 60.0, "delay 1 s")]),  # a bucket in debt
        (
            settled(status=503, free=NOW + 120, head=b"HTTP/1.1 503 x\r\nRetry-After: 120\r\n\r\n"),
            [Pause("a.example", 120.0, "Retry-After 120 s")],
        ),
        (settled(status=429, free=NOW + 30), [Pause("a.example", 30.0, "it answered 429")]),
        (
            settled(robots=RobotsCopy(origin="http://a.example", held=NOW + 60, problem="timeout: late")),
            [Pause("http://a.example", 60.0, "no robots.txt (timeout)")],
        ),
        (settled(robots=RobotsCopy(origin="http://a.example")), []),
    ],
)
def test_a_long_pause_is_shown_with_its_reason(settlement, expected):
    pauses = Pauses(USUAL)
    pauses.note(settlement, NOW)
    assert pauses.current(NOW) == expected


@pytest.mark.parametrize(
    ("pace", "why"),
    [
        (Pace(wait=64.0, cause="429", doubled=7, failures=7), "slowed down after 429"),
        (Pace(wait=300.0, cause="timeout", failures=10, parked=1), "parked after 10 failures"),
        (Pace(latency=0.1, failures=1), ""),
    ],
)
def test_what_a_hosts_trouble_cost_it_is_shown(pace, why):
    pauses = Pauses(USUAL)
    host = HostRecord(host="a.example", domain="a.example", free_at=NOW + 64, pace=pace)
    pauses.slowed(host, NOW)
    assert pauses.current(NOW) == ([Pause("a.example", 64.0, why)] if why else [])
    pauses.slowed(replace(host, host="b.example", free_at=NOW + 1), NOW)
    assert len(pauses.current(NOW)) == bool(why)


def test_a_pause_ends_with_its_time_and_with_a_robots_txt_that_came_after_all():
    pauses = Pauses(USUAL)
    pauses.note(settled("slow.example", free=NOW + 30, owed=30.0), NOW)
    failing = RobotsCopy(origin="http://a.example", held=NOW + 60, problem="timeout")
    pauses.note(settled(robots=failing), NOW)
    assert [pause.host for pause in pauses.current(NOW)] == ["slow.example", "http://a.example"]
    assert [pause.host for pause in pauses.current(NOW + 31)] == ["http://a.example"]
    pauses.note(settled(robots=replace(failing, held=0.0, problem="")), NOW + 31)
    assert pauses.current(NOW + 31) == []


def test_the_reasons_of_very_many_hosts_are_not_kept():
    pauses = Pauses(USUAL)
    for number in range(5000):
        pauses.note(settled(f"h{number}.example", free=NOW + 30 + number, owed=30.0), NOW)
    assert len(pauses.current(NOW)) == SHOWN
    assert len(pauses._until) <= 1000
    pauses.note(settled("new.example", free=NOW + 6000, owed=30.0), NOW + 5500)
    assert [pause.host for pause in pauses.current(NOW + 5500)] == ["new.example"]


def test_waits_of_several_shards_are_combined_most_interesting_first():
    visit = settled().visit
    one = Waiting(asked([visit], NOW), [Pause("b.example", 9.0, "x")], 5.0)
    other = Waiting([Asked("http://c.example/", 30.0)], [Pause("d.example", 2.0, "y")], None)
    whole = together([one, other])
    assert [each.url for each in whole.asked] == ["http://c.example/", "http://a.example/"]
    assert [each.host for each in whole.pauses] == ["d.example", "b.example"]
    assert whole.next_in == 5.0
    assert together([]) == Waiting([], [])


def test_what_the_whole_crawl_waits_for_is_said_once():
    closed = Waiting([], [Pause("", 60.0, "outside the window of this crawl, 22:00-06:00 UTC")])
    assert together([closed, closed]) == closed

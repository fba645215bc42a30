"""Windows go by the clock on the wall in their zone, also when that clock is changed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.runtime import windows
from skitter.runtime.windows import Windows

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = 60.0


def at(text: str) -> float:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()[:16]


def window(text: str) -> Windows:
    return Windows(map(windows.read, windows.split(text)))


def opens(text: str, moment: str) -> str:
    until = window(text).closed_until(at(moment))
    return shown(until) if until else "open"


@pytest.mark.parametrize(
    ("text", "moment", "expected"),
    [
        ("22:00-06:00 Europe/Berlin", "2026-01-10T12:00", "2026-01-10T21:00"),  # winter: UTC+1
        ("22:00-06:00 Europe/Berlin", "2026-07-10T12:00", "2026-07-10T20:00"),  # summer: UTC+2
        ("22:00-06:00 Europe/Berlin", "2026-07-10T20:00", "open"),
        ("22:00-06:00 Europe/Berlin", "2026-07-10T19:59", "2026-07-10T20:00"),
        ("22:00-06:00 Europe/Berlin", "2026-07-11T03:59", "open"),
        ("22:00-06:00 Europe/Berlin", "2026-07-11T04:00", "2026-07-11T20:00"),
        # The clocks go forward on 2026-03-29 at 01:00 UTC: 02:00 becomes 03:00.
        ("22:00-06:00 Europe/Berlin", "2026-03-29T03:59", "open"),
        ("22:00-06:00 Europe/Berlin", "2026-03-29T04:00", "2026-03-29T20:00"),
        ("02:30-03:30 Europe/Berlin", "2026-03-29T00:59", "2026-03-29T01:00"),  # 02:30 does not come
        ("02:15-02:45 Europe/Berlin", "2026-03-28T23:00", "2026-03-30T00:15"),  # nothing of it comes
        # They go back on 2026-10-25 at 01:00 UTC: 03:00 becomes 02:00.
        ("22:00-06:00 Europe/Berlin", "2026-10-25T04:59", "open"),
        ("22:00-06:00 Europe/Berlin", "2026-10-25T05:00", "2026-10-25T21:00"),
        ("02:15-02:45 Europe/Berlin", "2026-10-25T00:46", "2026-10-25T01:15"),  # once more
        ("01:30-02:30 Europe/Berlin", "2026-10-25T00:40", "2026-10-25T01:00"),  # it is 02:00 again
        ("Mon-Fri 19:00-07:00 UTC", "2026-11-21T06:59", "open"),  # Saturday: Friday's goes on
        ("Mon-Fri 19:00-07:00 UTC", "2026-11-21T07:00", "2026-11-23T19:00"),
        ("Sat 00:00-24:00 UTC", "2026-11-17T12:00", "2026-11-21T00:00"),
        ("Sat-Sun 00:00-24:00 UTC", "2026-11-22T23:59", "open"),
        ("Sun 00:00-24:00 UTC, Tue 08:00-09:00 UTC", "2026-11-23T00:00", "2026-11-24T08:00"),
        ("9:00-17:00 America/New_York", "2026-11-17T12:00", "2026-11-17T14:00"),
        ("00:00-06:00 Asia/Kathmandu", "2026-11-17T12:00", "2026-11-17T18:15"),  # UTC+5:45
    ],
)
def test_when_it_opens(text, moment, expected):
    assert opens(text, moment) == expected


def test_when_it_closes():
    nights = window("22:00-06:00 Europe/Berlin")
    assert shown(nights.closes_at(at("2026-03-28T23:00"))) == "2026-03-29T04:00"  # an hour less
    assert shown(nights.closes_at(at("2026-10-24T23:00"))) == "2026-10-25T05:00"  # an hour more
    assert nights.closes_at(at("2026-10-24T12:00")) is None
    assert window("00:00-24:00 UTC").closes_at(at("2026-10-24T12:00")) is None
    joined = window("20:00-24:00 UTC, 00:00-04:00 UTC")
    assert shown(joined.closes_at(at("2026-10-24T21:00"))) == "2026-10-25T04:00"


@given(
    st.integers(int(at("2026-01-01T00:00")), int(at("2027-12-01T00:00"))),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Asuncion", "UTC"]),
    st.integers(0, 95),
    st.integers(1, 95),
)
def test_it_is_closed_until_it_opens_and_not_longer(moment, zone, start, length):
    """What it says about a moment is what looking at every minute says."""

    def spelt(quarter):
        return f"{quarter % 96 // 4:02}:{quarter % 4 * 15:02}"

    one = windows.read(f"{spelt(start)}-{spelt(start + length)} {zone}")
    until = Windows([one]).closed_until(moment)
    if one.is_open(moment):
        assert until == 0
        return
    assert until > moment
    assert one.is_open(until)
    assert not one.is_open(until - 1)
    minute = moment + (until - moment) * 0.99
    assert not any(one.is_open(moment + (minute - moment) * part / 50) for part in range(50))


def test_what_it_says_is_the_same_however_often_it_is_asked():
    nights = window("22:00-06:00 Europe/Berlin")
    moment, end = at("2026-03-27T00:00"), at("2026-03-31T00:00")
    while moment < end:
        wall = datetime.fromtimestamp(moment, BERLIN)
        assert bool(nights.closed_until(moment)) == (6 <= wall.hour < 22)
        moment += 7 * MINUTE
    assert nights.closed_until(at("2026-03-27T12:00"))  # the clock was set back


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("22:00-06:00", "names no time zone"),
        ("22:00-06:00 Europe/Berlinn", "'Europe/Berlinn' is not a time zone"),
        ("22:00-06:00 ../../etc/passwd", "is not a time zone"),
        ("22:00-22:00 UTC", "write 00:00-24:00"),
        ("25:00-06:00 UTC", "no clock shows"),
        ("22:61-06:00 UTC", "no clock shows"),
        ("22:00-24:30 UTC", "no clock shows"),
        ("Foo 22:00-06:00 UTC", "names no day"),
        ("at night", "is not a window"),
        ("22-6 UTC", "is not a window"),
    ],
)
def test_what_is_no_window_is_refused_with_what_to_write(text, said):
    with pytest.raises(ValueError, match=said):
        windows.read(text)


def test_a_window_of_a_robots_txt_is_in_utc():
    assert windows.daily(0, 24 * 60) is None
    assert windows.daily(600, 600) is None
    nights = windows.daily(22 * 60, 6 * 60)
    assert nights is not None
    assert nights.name == "22:00-06:00 UTC"
    assert shown(nights.closed_until(at("2026-07-10T12:00"))) == "2026-07-10T22:00"
    day = windows.daily(6 * 60, 24 * 60)
    assert day is not None
    assert shown(day.closed_until(at("2026-07-10T05:00"))) == "2026-07-10T06:00"
    assert not day.closed_until(at("2026-07-10T23:59") + 59)
    assert timedelta(hours=6).total_seconds() == day.closed_until(at("2026-07-11T00:00")) - at(
        "2026-07-11T00:00"
    )


# ------------------------------------------------------------------------------------------------ several at once


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("22:00-06:00 UTC", "12:00-18:00 UTC", False),
        ("22:00-06:00 UTC", "12:00-18:00 UTC, 05:59-07:00 UTC", True),
        ("22:00-06:00 UTC", "06:00-22:00 UTC", False),
        ("Mon 22:00-06:00 UTC", "Tue 05:00-06:00 UTC", True),
        ("Mon 22:00-06:00 UTC", "Mon 05:00-06:00 UTC", False),
        ("Sat-Sun 00:00-24:00 UTC", "Fri 23:00-24:00 America/New_York", True),
        # Only in summer, only in winter, and only in the weeks in which New York has changed its clocks and Berlin has not.
        ("06:00-07:00 UTC", "08:00-09:00 Europe/Berlin", True),
        ("06:00-07:00 UTC", "07:00-08:00 Europe/Berlin", True),
        ("06:00-07:00 UTC", "09:00-10:00 Europe/Berlin", False),
        ("12:00-13:00 Europe/Berlin", "07:00-08:00 America/New_York", True),
        # Every clock in Berlin shows it once a year, in the hour that is repeated.
        ("Sun 01:00-01:30 UTC", "Sun 02:00-02:30 Europe/Berlin", True),
    ],
)
@pytest.mark.parametrize("now", ["2026-01-15T12:00", "2026-07-15T12:00"])
def test_windows_meet_if_they_have_a_time_in_common_within_a_year(one, other, meet, now):
    assert windows.ever_meet([window(one), window(other)], at(now)) is meet
    assert windows.ever_meet([window(other), window(one), window("00:00-24:00 UTC")], at(now)) is meet


@given(
    minutes=st.lists(st.integers(0, 24 * 60 - 1), min_size=4, max_size=4, unique=True),
    zones=st.tuples(*[st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"])] * 2),
)
def test_windows_meet_exactly_if_some_minute_of_the_year_is_in_all(minutes, zones):
    clock = [f"{minute // 60:02}:{minute % 60:02}" for minute in minutes]
    one, other = window(f"{clock[0]}-{clock[1]} {zones[0]}"), window(f"{clock[2]}-{clock[3]} {zones[1]}")
    start = at("2026-01-01T00:00")
    days = [start + day * 86400.0 for day in (0, 180)]  # a day of winter, and one of summer
    both = any(
        one.closed_until(day + minute * MINUTE) == 0 == other.closed_until(day + minute * MINUTE)
        for day in days
        for minute in range(24 * 60)
    )
    assert windows.ever_meet([one, other], start) is both

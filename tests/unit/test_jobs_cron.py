"""When a job is due: against an enumeration of every minute of a year, at every change of summer time."""

import random
from datetime import UTC, datetime
from itertools import takewhile

import pytest

from skitter.jobs.cron import due_times, next_due, read_line, read_zone
from skitter.jobs.model import BadJob
from tests.jobs import oracle

BEGIN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
YEAR = 365 * 86400.0
# Two hemispheres, half an hour (Lord Howe), a change at midnight (Cairo, Beirut, Santiago), a day that a place has left out (Apia, 2011).
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Beirut",
    "America/Santiago",
)
LINES = (
    "0 3 * * 1", "30 2 * * *", "0 0 * * *", "15 2,3 * * 0", "0 * * * *", "*/20 2 * * *", "30 */6 * * *", "0 0 1 * *", "59 1 29 3,10 *",
    "0 0 13 * 5", "0 0 */5 * 1", "10-40/15 0-4 24-31 3,4,10,11 *", "0 */2 24 4 *", "5 * 29 3 *", "30 1 1-7 * 7",
)  # fmt: skip


def found(line: str, zone: str, begin: float, end: float) -> list[float]:
    return list(takewhile(lambda at: at <= end, due_times(read_line(line), zone, begin)))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("line", LINES)
def test_a_year_of_a_line_is_what_every_minute_says(line, zone):
    spans = (
        [(0, 365)] if not line.startswith("*") and " *" not in line[:4] else [(75, 120), (245, 310)]
    )  # days: the changes
    for first, last in spans:
        begin, end = BEGIN + first * 86400, BEGIN + last * 86400
        assert found(line, zone, begin, end) == oracle.due_times(line, zone, begin, end)


def test_lines_at_random_around_every_change_of_the_clocks():
    chance = random.Random(17)
    for _ in range(300):
        zone = chance.choice(ZONES)
        begin = chance.choice((datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 4, 3, tzinfo=UTC), datetime(2026, 4, 23, tzinfo=UTC),
            datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC), datetime(2026, 9, 5, tzinfo=UTC))).timestamp()  # fmt: skip
        begin += chance.randrange(86400)
        minute = chance.choice(("0", "30", "*/7", "5-50/9", "59"))
        hour = chance.choice(("0", "1", "2", "3", "1-3", "*", "*/2", "0,23"))
        line = f"{minute} {hour} {chance.choice(('*', '*', '29', '1-9', '*/2'))} * {chance.choice(('*', '*', '0', '1-5'))}"
        expected = oracle.due_times(line, zone, begin, begin + 4 * 86400)
        assert found(line, zone, begin, begin + 4 * 86400) == expected, (line, zone, begin)


def test_each_time_follows_from_the_one_before_as_a_scheduler_asks():
    for zone in ZONES:
        at, walked = BEGIN, []
        while (at := next_due("15 0-3 * * *", zone, at)) <= BEGIN + YEAR:
            walked.append(at)
        assert walked == oracle.due_times("15 0-3 * * *", zone, BEGIN, BEGIN + YEAR)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0 0 30 2 *", "'0 0 30 2 *' never comes true"),
        ("0 0 31 4,6,9,11 *", "never comes true"),
        ("0 0 31 2 */2", "never comes true"),
        ("61 * * * *", "is not a cron line (bad minute); write five fields"),
        ("0 0 * *", "is not a cron line; write five fields"),
        ("0 0 0 * * *", "is not a cron line; write five fields"),
        ("@never", "is not a cron line"),
        ("", "is not a cron line"),
        ("0 0 * * MOON", "is not a cron line (bad day-of-week)"),
        (f"{'9' * 5000} * * * *", "is not a cron line"),
        ("*/0 * * * *", "is not a cron line (bad minute)"),
        ("0 0 L/0 * *", "is not a cron line"),
        ("-1 * * * *", "is not a cron line"),
        ("١ * * * *", "is not a cron line"),
    ],
)
def test_a_line_that_cannot_be_is_refused_in_one_line(line, said):
    with pytest.raises(BadJob) as refused:
        read_line(line)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "zone",
    ["Europe/Berln", "America", "../../etc/passwd", "/etc/localtime", "", "\0", "x" * 10_000, "Mars/Olympus"],
)
def test_a_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(BadJob, match="is not a time zone"):
        read_zone(zone)


def test_a_rare_line_comes_true_in_a_leap_year():
    at = next_due(read_line("0 0 29 2 *"), "UTC", BEGIN)
    assert datetime.fromtimestamp(at, UTC) == datetime(2028, 2, 29, tzinfo=UTC)

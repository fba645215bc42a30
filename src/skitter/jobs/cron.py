"""When a job is due: cron lines in the time of a place, as Debian's cron reads them.

Where clocks are set forward, a line with a fixed hour and minute that falls into the gap is due at the first minute after it.
Where they are set back, it is due the first time only. A line whose hour or minute begins with `*` is due whenever the clock on
the wall shows a time that fits: never in the gap, and twice in the hour that comes twice.
"""

import difflib
import time as clock
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from skitter.jobs.model import BadJob

_LONGEST = 200  # characters of a line
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_MOST_SET_BACK = 24 * 3600.0  # seconds
_MOST_DAYS = 50 * 366  # longer than it takes for a leap day to fall on each weekday
_ANY = datetime(2026, 1, 1, tzinfo=UTC)
_EXAMPLE = 'write five fields, for example "0 3 * * 1" for Mondays at three'


def read_line(text: str) -> str:
    """A cron line with single spaces; BadJob if there is no such line, or it never comes true."""
    line = _NAMED.get(text.strip().lower(), " ".join(text.split()))
    if len(line) > _LONGEST or len(line.split()) != 5:
        raise BadJob(f"{text[:_LONGEST]!r} is not a cron line; {_EXAMPLE}")
    try:
        CronSim(line, _ANY)
    except CronSimError as problem:
        if _could_be_read(line):
            raise BadJob(f"{line!r} never comes true: no such day is in these months") from None
        raise BadJob(f"{line!r} is not a cron line ({str(problem).lower()}); {_EXAMPLE}") from None
    if next_due(line, "UTC", clock.time()) is None:
        raise BadJob(f"{line!r} never comes true in the next fifty years")
    return line


def _could_be_read(line: str) -> bool:
    """Whether day and month are fine but for each other: the library refuses 30 February as it refuses 99 February."""
    minute, hour, day, month, weekday = line.split()
    try:
        for days, months in ((day, "*"), ("*", month)):
            CronSim(f"{minute} {hour} {days} {months} {weekday}", _ANY)
    except CronSimError:
        return False
    return True


@lru_cache(maxsize=256)
def read_zone(name: str) -> ZoneInfo:
    """A time zone by its IANA name; BadJob if there is none."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # no name at all, a folder of names, or none of them
        near = difflib.get_close_matches(name, available_timezones(), n=1)
        hint = f"did you mean {near[0]}?" if near else "write for example Europe/Berlin or UTC"
        raise BadJob(f"{name!r} is not a time zone; {hint}") from None


def due_times(line: str, zone: str, after: float) -> Iterator[float]:
    """The times after this one at which the line is due, in order, as seconds since the epoch.

    The library reads the line, but we walk the days: it steps by hours where a place sets its clocks by half of one.
    """
    place, sim = read_zone(zone), CronSim(line, _ANY)
    fixed = not any(field.startswith("*") for field in line.split()[:2])
    day = datetime.fromtimestamp(after, place).date() - _DAY
    held: list[float] = []
    for _ in range(_MOST_DAYS):
        if day.month in sim.months and sim.match_day(day):
            held = sorted({*held, *_on(day, sim, place, fixed=fixed)})
        # What a day has late may come after what the next one has early, when clocks are set back over midnight.
        settled = datetime.combine(day, time(), place).timestamp() - _MOST_SET_BACK
        yield from (at for at in held if after < at < settled)
        held = [at for at in held if at >= settled]
        day += _DAY


def _on(day: date, sim: CronSim, place: ZoneInfo, *, fixed: bool) -> Iterator[float]:
    """The times of one day that fits."""
    midnight, tomorrow = datetime.combine(day, time(), place), datetime.combine(day + _DAY, time(), place)
    if midnight.utcoffset() == tomorrow.replace(fold=1).utcoffset():  # nobody touches the clocks
        begin = midnight.timestamp()
        yield from (begin + 3600 * hour + 60 * minute for hour in sim.hours for minute in sim.minutes)
        return
    for hour in sim.hours:
        for minute in sim.minutes:
            paper = datetime.combine(day, time(hour, minute), place)
            if _exists(paper):
                yield paper.timestamp()
                if not fixed:  # the second time, where there is one
                    yield paper.replace(fold=1).timestamp()
            elif fixed:
                while not _exists(paper):
                    paper += _MINUTE
                yield paper.timestamp()


def _exists(wall: datetime) -> bool:
    """Whether clocks ever show this."""
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)


def next_due(line: str, zone: str, after: float) -> float | None:
    """The first time after this one at which the line is due; None if there is no line, or it is never due again."""
    return next(due_times(line, zone, after), None) if line else None


def upcoming(line: str, zone: str, number: int) -> list[float]:
    """The next times from now on."""
    return list(islice(due_times(line, zone, clock.time()), number)) if line else []

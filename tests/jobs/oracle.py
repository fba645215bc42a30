"""Another reading of cron lines: every minute of a year is looked at. Shares no code with the product."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


def numbers(text: str, low: int, high: int) -> set[int]:
    """A field: lists, ranges and steps of numbers."""
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            begin, end = low, high
        else:
            begin, end = int(first), int(last or (high if step else first))
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


class Line:
    def __init__(self, text: str) -> None:
        self.fields = text.split()
        minute, hour, day, month, weekday = self.fields
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.days, self.months = numbers(day, 1, 31), numbers(month, 1, 12)
        self.weekdays = {number % 7 for number in numbers(weekday, 0, 7)}
        self.fixed = not minute.startswith("*") and not hour.startswith("*")
        self.both = day.startswith("*") or weekday.startswith("*")

    def has_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.both else in_month or in_week

    def fits(self, wall: datetime) -> bool:
        return wall.minute in self.minutes and wall.hour in self.hours and self.has_day(wall.date())


def due_times(text: str, zone: str, begin: float, end: float) -> list[float]:
    """All times at which the line is due, after the begin and up to the end."""
    line, place = Line(text), ZoneInfo(zone)
    found = set(_fixed(line, place, begin, end) if line.fixed else _shown(line, place, begin, end))
    return sorted(at for at in found if begin < at <= end)


def _shown(line: Line, place: ZoneInfo, begin: float, end: float) -> Iterator[float]:
    """Whenever the clock on the wall shows a time that fits: the minutes that really pass."""
    minute = int(begin // 60) * 60
    while minute <= end:
        if line.fits(datetime.fromtimestamp(minute, place)):
            yield float(minute)
        minute += 60


def _fixed(line: Line, place: ZoneInfo, begin: float, end: float) -> Iterator[float]:
    """Every time on paper that fits: the first time that the wall shows it, or the first minute after a gap."""
    day = datetime.fromtimestamp(begin, place).date() - timedelta(days=1)
    last = datetime.fromtimestamp(end, place).date() + timedelta(days=1)
    while day <= last:
        if line.has_day(day):
            for hour in sorted(line.hours):
                for minute in sorted(line.minutes):
                    paper = datetime.combine(day, time(hour, minute))
                    while not _exists(paper, place):
                        paper += MINUTE
                    yield paper.replace(tzinfo=place, fold=0).timestamp()
        day += timedelta(days=1)


def _exists(paper: datetime, place: ZoneInfo) -> bool:
    return paper.replace(tzinfo=place).astimezone(UTC).astimezone(place).replace(tzinfo=None) == paper

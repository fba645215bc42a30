"""Times of the day at which requests may be sent: "Mon-Fri 22:00-06:00 Europe/Berlin". Pure.

A window goes by the clock on the wall in its zone: it is open while that clock shows a time from its start up to its
end. If the clock is put forward over the start, it opens at that moment; if an hour is repeated, so is what is open in
it. One that goes over midnight belongs to the day on which it begins.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM = re.compile(
    r"(?:([a-z]{3})[a-z]*(?:-([a-z]{3})[a-z]*)? )?(\d\d?):(\d\d) ?- ?(\d\d?):(\d\d)(?: (\S+))?",
    re.IGNORECASE | re.ASCII,
)
_EXAMPLE = "22:00-06:00 Europe/Berlin"
_DAY = 24 * 60
_EVERY_DAY = frozenset(range(7))
_SECOND = 1.0
_WEEK = 7 * _DAY * 60.0  # seconds
_WEEKS = 53  # a year
_ALWAYS = 1e12  # a time that does not come


class Window(Struct, frozen=True):
    """From `start` to `end`, in minutes of the day; over midnight if the end is not after the start."""

    start: int
    end: int
    zone: tzinfo = UTC
    days: frozenset[int] = _EVERY_DAY  # on which it begins; Monday is 0
    name: str = ""  # as it was written

    def is_open(self, now: float) -> bool:
        """Whether the clock on the wall is in it."""
        wall = datetime.fromtimestamp(now, self.zone)
        seconds = wall.hour * 3600 + wall.minute * 60 + wall.second
        start, end, day = self.start * 60, self.end * 60, wall.weekday()
        if start < end:
            return start <= seconds < end and day in self.days
        if seconds >= start:
            return day in self.days
        return seconds < end and (day - 1) % 7 in self.days

    def edges(self, now: float) -> Iterator[float]:
        """The moments of the coming week at which it may open or close."""
        today = datetime.fromtimestamp(now, self.zone).replace(hour=0, minute=0, second=0, microsecond=0)
        midnight = today.replace(tzinfo=None, fold=0)
        before = now
        for days in range(10):
            for minute in (self.start, self.end):
                wall = (midnight + timedelta(days=days, minutes=minute)).replace(tzinfo=self.zone)
                yield wall.timestamp()
                yield wall.replace(fold=1).timestamp()
            after = before + _DAY * 60
            if self._offset(after) != self._offset(before):
                yield self._change(before, after)
            before = after

    def _offset(self, moment: float) -> timedelta | None:
        return datetime.fromtimestamp(moment, self.zone).utcoffset()

    def _change(self, before: float, after: float) -> float:
        """When the clocks are changed, between two moments."""
        before, after = float(int(before)), float(int(after) + 1)
        first = self._offset(before)
        while after - before > _SECOND:
            middle = float((before + after) // 2)
            before, after = (middle, after) if self._offset(middle) == first else (before, middle)
        return after


class Windows:
    """Several windows: open while one of them is."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self.windows = tuple(windows)
        self.name = ", ".join(window.name for window in self.windows)
        self._known = (0.0, 0.0, 0.0)  # from, until, and what `closed_until` says meanwhile

    def closed_until(self, now: float) -> float:
        """When it opens next; 0 while it is open."""
        since, until, told = self._known
        if not since <= now < until:
            told, until = self._looked(now)
            self._known = now, until, told
        return told

    def closes_at(self, now: float) -> float | None:
        """When it closes next; None while it is closed, or if it never does."""
        told, until = self._looked(now)
        return None if told or until == _ALWAYS else until

    def _looked(self, now: float) -> tuple[float, float]:
        is_open = self._is_open(now)
        edges = sorted({edge for window in self.windows for edge in window.edges(now) if edge > now})
        change = next((edge for edge in edges if self._is_open(edge) != is_open), _ALWAYS)
        return (0.0 if is_open else change), change

    def _is_open(self, now: float) -> bool:
        return any(window.is_open(now) for window in self.windows)


def ever_meet(every: Sequence[Windows], now: float) -> bool:
    """Whether all of these are open at the same time within a year.

    What is open at which time of a week changes only when clocks are changed somewhere, so one week of each kind is looked at.
    """
    seen = set()
    zones = {window.zone for each in every for window in each.windows}
    for week in range(_WEEKS):
        start = now + week * _WEEK
        kind = tuple(
            datetime.fromtimestamp(at, zone).utcoffset() for zone in zones for at in (start, start + _WEEK)
        )
        if kind not in seen and _meet_between(every, start, start + _WEEK + _DAY * 60):
            return True
        seen.add(kind)
    return False


def _meet_between(every: Sequence[Windows], start: float, end: float) -> bool:
    now = start
    while now < end:
        opens = max(each.closed_until(now) for each in every)
        if not opens:
            return True
        now = opens
    return False


def read(text: str) -> Window:
    """The window that is written like this. ValueError says what to write instead."""
    found = _FORM.fullmatch(" ".join(text.split()))
    if found is None:
        raise ValueError(
            f"{text!r} is not a window; write for example {_EXAMPLE} or Mon-Fri 19:00-07:00 America/New_York"
        )
    first, last, *clock, zone = found.groups()
    from_hour, from_minute, to_hour, to_minute = map(int, clock)
    start, end = from_hour * 60 + from_minute, to_hour * 60 + to_minute
    if max(from_minute, to_minute) > 59 or start >= _DAY or end > _DAY:
        raise ValueError(f"{text!r} has a time that no clock shows; write 00:00 to 23:59, or 24:00 as an end")
    if start == end:
        raise ValueError(f"{text!r} begins when it ends; write 00:00-24:00 for the whole day")
    if zone is None:
        raise ValueError(
            f"{text!r} names no time zone, and the hours differ from place to place; write for example {_EXAMPLE}, or UTC"
        )
    return Window(start, end, _zone(zone, text), _days(first, last, text), " ".join(text.split()))


def split(text: str) -> list[str]:
    """The windows of a text, separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def daily(start: int, end: int) -> Windows | None:
    """The same window every day, in minutes of UTC, as a robots.txt has it; None if it is never closed."""
    if start % _DAY == end % _DAY:
        return None
    name = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02} UTC"
    return Windows([Window(start % _DAY, end, name=name)])


def _zone(name: str, text: str) -> tzinfo:
    if name.upper() in {"UTC", "Z"}:
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415  few crawls have windows

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(
            f"{text!r}: {name!r} is not a time zone; write one of the IANA names, such as Europe/Berlin or UTC"
        ) from None


def _days(first: str | None, last: str | None, text: str) -> frozenset[int]:
    if first is None:
        return _EVERY_DAY
    try:
        start = _DAYS.index(first.lower())
        end = start if last is None else _DAYS.index(last.lower())
    except ValueError:
        raise ValueError(f"{text!r} names no day of the week; write Mon, Tue, … Sun, or Mon-Fri") from None
    return frozenset((start + step) % 7 for step in range((end - start) % 7 + 1))

"""Dates as others write them, as seconds since the epoch. What is not a date is None, never an error."""

import re
from datetime import UTC, datetime, timedelta, timezone

# The profile of ISO 8601 that sitemaps use (W3C NOTE-datetime): from a year to a fraction of a second.
_W3C = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
# RFC 9110 5.6.7: the one form that may be sent. Its two older forms are read by nobody here.
_HTTP = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d\d) "
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{4}) (\d\d):(\d\d):(\d\d) GMT",
    re.ASCII,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
LATEST = 253_402_300_799.0  # the last second of the year 9999
_LONGEST = 100  # characters of a date that are looked at


def w3c(text: str) -> float | None:
    """A date or time such as 2024-05-01 or 2024-05-01T12:00:00+02:00; without a zone it is UTC."""
    match = _W3C.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        when = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            tzinfo=_zone(zone),
        )  # fmt: skip
        return _bounded(when.timestamp() + float(fraction or 0))
    except (ValueError, OverflowError):
        return None


def _zone(written: str | None) -> timezone:
    if written is None or written in "Zz":
        return UTC
    away = timedelta(hours=int(written[1:3]), minutes=int(written[-2:]))
    return timezone(-away if written[0] == "-" else away)


def http(text: str) -> float | None:
    """An HTTP date such as Wed, 01 May 2024 12:00:00 GMT."""
    match = _HTTP.fullmatch(text)
    if match is None:
        return None
    day, month, year, hour, minute, second = match.groups()
    try:
        moment = datetime(
            int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
        return _bounded(moment.timestamp())
    except (ValueError, OverflowError):
        return None


def _bounded(seconds: float) -> float | None:
    return seconds if -LATEST <= seconds <= LATEST else None


def loose(text: str) -> float | None:
    """A date as people write it by hand: as above, or as in mail (25 Jun 2010 15:00:00 PST), in any case."""
    text = text.strip()[:_LONGEST]
    if text[:4].isdigit():
        return w3c(text)
    from email.utils import mktime_tz, parsedate_tz  # noqa: PLC0415  slow to import, and few pages have dates

    try:
        parsed = parsedate_tz(text)
        return None if parsed is None else _bounded(float(mktime_tz((*parsed[:9], parsed[9] or 0))))
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
